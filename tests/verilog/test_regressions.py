"""Regression tests of models that once gave wrong hardware or lost files; now correct or refused with an error."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from espalier.model.errors import EmitError, OptionsError, SimulateError
from espalier.model.formats.integer import Integer
from espalier.model.graph.meta import Precision
from espalier.passes.base import Cancelled
from espalier.verilog.design.netlist import Wire
from espalier.verilog.design.options import EmitOptions
from espalier.verilog.lowering.lower import lower
from espalier.verilog.numbers.fixed import Fixed, requantise
from espalier.verilog.proof.simulate import _first, build, error_lines
from espalier.verilog.rtl.library import library_text
from espalier.verilog.rtl.write import write
from tests.verilog.checks import needs_icarus
from tests.verilog.test_images import SELF, equal, opened, quantised
from tests.verilog.test_linear import layer
from tests.verilog.test_schedule import chain


def test_two_parts_of_a_host_tensor_are_two_inputs() -> None:
    found = opened("nn.Linear(3, 2)", "a, b = x.chunk(2, -1)\nreturn self.m(a) + self.m(b)", "6")
    graph = quantised(found)
    graph = graph.replace(*(replace(n, precision={}) for n in graph if n.op in ("chunk", "split", "getitem")))
    assert len(equal(found, graph).inputs) == 2


def test_a_batch_that_is_a_number_is_told() -> None:
    found = opened("nn.Linear(6, 3)", "return self.m(x).reshape(2, 3)", "6")
    (note,) = lower(quantised(found), found.store, EmitOptions()).notes
    assert "x has 2" in note
    free = opened("nn.Linear(6, 3)", "return self.m(x)", "6")
    assert not lower(quantised(free), free.store, EmitOptions()).notes


def test_the_host_rounds_as_the_format_says() -> None:
    found = opened("nn.Linear(4, 3)", "return self.m(x)", "4")
    graph = quantised(found)
    node = next(n for n in graph if n.op == "linear")
    down = Precision(Integer(8, 3, rounding="floor"))
    equal(found, graph.replace(replace(node, precision={**node.precision, "data_in": down})))


def test_all_parts_of_a_tensor_are_asked_how_they_are_read() -> None:
    body = "a, b = self.m(x).chunk(2, -1)\nreturn torch.cat([a, b * 2], -1)"
    found = opened("nn.Linear(4, 6)", body, "4")
    graph = quantised(found)
    graph = graph.replace(*(replace(n, precision={p: f for p, f in n.precision.items() if p != "data_out"})
                            for n in graph if n.precision))  # fmt: skip
    equal(found, graph)


def test_widths_beyond_the_supported_name_the_node() -> None:
    found = opened("nn.Linear(4, 3)", "x = self.m(x)\nfor _ in range(4):\n    x = x * x\nreturn x", "4")
    graph = found.project.base
    formats = {
        "data_in": Precision(Integer(8, 4)),
        "weight": Precision(Integer(8, 6)),
        "bias": Precision(Integer(8, 6)),
    }
    graph = graph.replace(*(replace(n, precision=formats) for n in graph if n.op == "linear"))
    with pytest.raises(EmitError, match="bits; 62 are supported") as caught:
        lower(graph, found.store, EmitOptions())
    assert caught.value.node in graph.nodes


@pytest.mark.parametrize("body", [
    'return torch.div(self.m(x), 2.0, rounding_mode="floor")',
    "return self.m(x).to(torch.int32).to(torch.float32)",
    "return torch.round(self.m(x), decimals=1)",
])  # fmt: skip
def test_options_that_change_values_are_refused(body: str) -> None:
    found = opened("nn.Linear(4, 3)", body, "4")
    with pytest.raises(EmitError, match="does not support"):
        lower(quantised(found), found.store, EmitOptions())


def test_rounding_up_leaves_the_range_of_the_operand() -> None:
    found = opened("nn.Identity()", "return torch.ceil(self.m(x))", "4")
    graph = quantised(found)
    chosen = {"data_in": Precision(Integer(8, 8))}
    equal(found, graph.replace(*(replace(n, precision=chosen if n.op == "ceil" else {}) for n in graph if n.precision)))


def test_codes_are_shifted_up_without_overflow() -> None:
    up = requantise(np.array([-1, 1, 0, -3, 3]), 0, Fixed(32, 31))
    np.testing.assert_array_equal(up, [-(1 << 31), (1 << 31) - 1, 0, -(1 << 31), (1 << 31) - 1])
    np.testing.assert_array_equal(requantise(np.array([3, -3]), 0, Fixed(40, 30)), [3 << 30, -3 << 30])


def test_a_frame_too_many_is_a_mismatch() -> None:
    want, got = np.zeros((4, 1), np.int64), np.zeros((8, 1), np.int64)
    (found,) = _first(Wire("fc"), "fc", 4, want, got, np.arange(8))
    assert found.count == 4 and found.expected == () and found.got == (0,)


def test_an_emission_takes_away_only_what_one_wrote(tmp_path: Path) -> None:
    design, folder = chain(layer("a", (4, 1), (4, 1))), tmp_path / "rtl"
    write(design, folder)
    write(design, folder)
    (folder / "tb_mine.sv").write_text("mine")
    with pytest.raises(EmitError, match=r"holds other files, such as tb_mine\.sv"):
        write(design, folder)
    assert (folder / "tb_mine.sv").read_text() == "mine" and (folder / "top.sv").exists()
    (tmp_path / "letter").write_text("dear")
    with pytest.raises(EmitError, match="is a file"):
        write(design, tmp_path / "letter")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    write(design, tmp_path / "link")
    assert (tmp_path / "elsewhere" / "top.sv").exists() and not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("name", ["my top", "module", "linear", "../escaped", ""])
def test_names_that_are_none_are_refused(name: str) -> None:
    found = opened("nn.Linear(4, 3)", "return self.m(x)", "4")
    with pytest.raises(OptionsError, match="name: "):
        lower(quantised(found), found.store, EmitOptions(name))


def test_sizes_that_the_model_has_not_are_refused() -> None:
    found = opened("nn.Linear(4, 3)", "return self.m(x)", "4")
    with pytest.raises(EmitError, match="no size 'rows'"):
        lower(quantised(found), found.store, EmitOptions(sizes={"rows": 3}))


BROKEN = {  # what is done to linear.sv, and what is told then
    "syntax": ("always_ff", "always_fff", "linear.sv:"),
    "port": ("x_ready", "x_redy", "top.sv:"),
    "name": ("module linear", "module liner", "linear"),
}


@needs_icarus
@pytest.mark.rtl
@pytest.mark.parametrize("fault", sorted(BROKEN))
def test_a_module_that_does_not_build_is_told_with_its_line(tmp_path: Path, fault: str) -> None:
    before, after, told = BROKEN[fault]
    design = replace(
        chain(layer("a", (4, 1), (4, 1))), edited={"linear": library_text("linear").replace(before, after)}
    )
    with pytest.raises(SimulateError) as caught:
        build(design, 1, tmp_path, "icarus")
    said = f"{caught.value.message} {caught.value.hint}"
    assert told in said and "error(s)" not in said and not list(tmp_path.iterdir())


def test_what_only_counts_errors_is_left_out() -> None:
    said = """%Warning-WIDTH: a.sv:1:2: wide
%Error-PINNOTFOUND: top.sv:42:8: Pin not found: 'x_ready'
%Error: rtl/a.sv:7:1: syntax error, unexpected '@'
%Error: Exiting due to 2 error(s)
make: *** [Makefile:3] Error 1
"""
    assert error_lines(said) == ["top.sv:42:8: Pin not found: 'x_ready'", "rtl/a.sv:7:1: syntax error, unexpected '@'"]


def test_what_a_shell_says_before_make_ends_is_told() -> None:
    said = """make: Entering directory 'obj'
python verilator_includer Vbench.cpp > Vbench__ALL.cpp
/bin/sh: 1: python: not found
make: *** [verilated.mk:231: Vbench__ALL.cpp] Error 127
make: *** Waiting for unfinished jobs....
%Error: 'make -C obj -f Vbench.mk -j 2' exited with 2
"""
    assert error_lines(said) == ["/bin/sh: 1: python: not found"]


@needs_icarus
@pytest.mark.rtl
def test_a_build_that_is_stopped_leaves_nothing(tmp_path: Path) -> None:
    def stop(log: Path) -> None:
        raise Cancelled("It was stopped.")

    with pytest.raises(Cancelled):
        build(chain(layer("a", (4, 1), (4, 1))), 1, tmp_path, "icarus", tick=stop)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("width", "frac", "told"), [(4, 6, True), (8, 6, False)])
def test_weights_beyond_their_format_are_told(width: int, frac: int, told: bool) -> None:
    found = opened("nn.Linear(16, 8)", SELF, "16")
    graph = quantised(found)
    node = next(n for n in graph if n.op == "linear")
    chosen = {**node.precision, "weight": Precision(Integer(width, frac))}
    notes = lower(graph.replace(replace(node, precision=chosen)), found.store, EmitOptions()).notes
    assert [n for n in notes if f"weight of {node.id}" in n and "clip" in n] == (list(notes) if told else [])
    assert bool(notes) is told
