"""Modules edited in a project: in the emitted texts and folder, and their lint while editing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from espalier.model.errors import OptionsError
from espalier.verilog.design.netlist import Design
from espalier.verilog.design.stream import Stream
from espalier.verilog.emission.companion_files import companion_files
from espalier.verilog.numbers.fixed import Fixed
from espalier.verilog.proof.lint_while_editing import check, needed, uses
from espalier.verilog.rtl.edited_modules import Edited, check_pure, from_bytes, texts_in, to_bytes
from espalier.verilog.rtl.library import RTL, library_text
from espalier.verilog.rtl.write import texts, write
from espalier.verilog.templates.relu import Relu
from espalier.verilog.timing.schedule import schedule
from tests.verilog.checks import alone


def test_copies_come_back() -> None:
    held = {"relu": Edited("relu", "mine", "theirs")}
    raw = to_bytes(held)
    assert raw is not None and from_bytes(raw) == held and texts_in({"hardware_modules.json": raw}) == {"relu": "mine"}
    assert to_bytes({}) is None and from_bytes(None) == {} and texts_in({}) == {}
    assert held["relu"].outdated("ours now") and not held["relu"].outdated("theirs")


@pytest.mark.parametrize("raw", [b"", b"[]", b'{"version": 7, "modules": {}}',
                                 b'{"version": 1, "modules": {"a b": {}}}',
                                 b'{"version": 1, "modules": {"relu": {"text": 3, "original": ""}}}'])  # fmt: skip
def test_what_is_damaged_is_told(raw: bytes) -> None:
    with pytest.raises(OptionsError, match="cannot be read"):
        from_bytes(raw)


def design() -> Design:
    """A rectifier alone."""
    stream = Stream(1, 4, Fixed(8, 4, True), 2)
    return alone(Relu(name="relu1", node="relu1", inputs=(stream,), outputs=(stream,), shape=(4,)))


def test_a_design_and_its_folder_carry_the_copy(tmp_path: Path) -> None:
    plain = design()
    mine = library_text("relu").replace("relu: max", "relu of mine: max")
    edited = replace(plain, edited={"relu": mine})
    assert texts(plain)["rtl/relu.sv"] == library_text("relu") and texts(edited)["rtl/relu.sv"] == mine
    assert texts(edited)["top.sv"] == texts(plain)["top.sv"]
    write(edited, tmp_path / "out")
    assert (tmp_path / "out" / "rtl" / "relu.sv").read_text() == mine
    readme = companion_files(edited, schedule(edited))["README.md"]
    assert "`rtl/relu.sv`" in readme and "Edited by hand" not in companion_files(plain, schedule(plain))["README.md"]


def test_a_module_is_checked_with_its_parts_and_its_uses() -> None:
    pytest.importorskip("pyslang")
    files = {n: t for n, t in texts(design()).items() if n.endswith(".sv")}
    uses_of = uses("relu", files["top.sv"])
    assert len(uses_of) == 1 and ".LANES(2)" in uses_of[0] and needed("rtl/relu.sv", files).keys() == {"rtl/relu.sv"}
    assert check("rtl/relu.sv", "relu", files, uses_of) == []
    wrong = library_text("relu").replace("assign x_ready = ce;", "assign x_ready = nobody;")
    found = check("rtl/relu.sv", "relu", {**files, "rtl/relu.sv": wrong}, uses_of)
    line = next(i for i, text in enumerate(wrong.splitlines(), 1) if "nobody" in text)
    assert [(f.line, f.column) for f in found] == [(line, 20)] and "nobody" in found[0].text
    renamed = library_text("relu").replace("x_ready", "x_taken")
    found = check("rtl/relu.sv", "relu", {**files, "rtl/relu.sv": renamed}, uses_of)
    assert found and found[0].file != "rtl/relu.sv" and "x_ready" in found[0].text, "its use in the design is told"
    assert check("rtl/relu.sv", "relu", {**files, "rtl/relu.sv": ""}, uses_of)


@pytest.mark.parametrize("text", [
    'initial $system("x");', 'initial $c("x");', 'integer f = $fopen("x", "w");', '`define s(x) $``x', "import p::*;",
    'import "DPI-C" function int system(string s);', 'export "DPI-C" function f;', 'initial $dumpfile("x");',
    'initial $readmemh("/etc/passwd", m);', 'initial $readmemh("../x.mem", m);', 'initial $readmemh("x", m);',
    'initial $readmemh({8\'h2f, "x.mem"}, m);', 'initial $readmemh/**/("/x", m);', 'parameter T_FILE = "/dev/zero"',
    'pieces #(.T_FILE({8\'h2f, "x"})) u ();', 'defparam u.T_FILE = "\\057x";', 'pieces #("/etc/x") u ();',
    'localparam A = "\\057etc"; initial $readmemh(A, m);',
    'string a = """\n//"""; `s(system)("x")', 'string a = "\\\n//"; `s(system)("x")',
])  # fmt: skip
def test_a_copy_only_computes(text: str) -> None:
    with pytest.raises(OptionsError, match="can reach files and programs"):
        check_pure("relu", f"module relu;\n{text}\nendmodule\n")


def test_each_of_ours_only_computes() -> None:
    for file in RTL.rglob("*.sv"):
        check_pure(file.stem, file.read_text())
