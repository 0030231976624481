"""The line of Python beside the drawer's tabs: what it says repeats what the window did."""

from __future__ import annotations

import pytest
import torch
from PySide6.QtGui import QGuiApplication

import espalier as es
from espalier.app.shell.code_line import CodeLine
from espalier.app.shell.window import Window
from espalier.app.shell.workbench import DRAWER
from espalier.model.document.recipe import Step
from espalier.model.formats.base import parse_format
from espalier.model.formats.integer import Integer
from espalier.passes.choices.freeze import FreezeOptions
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.export.script import line_of, opening_line
from espalier.passes.select import Select
from tests.gui.conftest import FakeRunner, open_small

pytestmark = pytest.mark.gui


def code_line(window: Window) -> CodeLine:
    corner = window.pages.workbench.areas[DRAWER].corner
    assert isinstance(corner, CodeLine)
    return corner


def test_the_last_step_is_shown_as_python(opened: Window) -> None:
    line = code_line(opened)
    assert line.isVisible() and line.text.toolTip().startswith("m = es.open(")
    opened.session.set_format(["fc1"], "weight", Integer(8, 6))
    shown = line.text.toolTip()
    assert shown.startswith("m.quantize(") and "fc1" in shown and "integer(width=8, frac_width=6" in shown
    opened.session.undo()
    assert line.text.toolTip().startswith("m = es.open(")


def test_the_copied_lines_run_and_give_the_same_recipe(window: Window, runner: list[FakeRunner]) -> None:
    open_small(window, runner, es.open("demo:digits-mlp").project)
    session = window.session
    linear = [n.id for n in session.open_document.graph if n.op == "linear"]
    session.set_format(linear, "weight", Integer(8, 6))
    session.set_format(linear[:1], "data_in", parse_format("mxint(width=8)"))
    session.run_pass("freeze", FreezeOptions(Select("name", tuple(linear[1:]))))
    runner[-1].waiting.clear()
    steps = session.open_document.recipe.steps
    assert len(steps) >= 2
    code_line(window).copy()
    values: dict[str, es.Model] = {}
    exec(QGuiApplication.clipboard().text(), values)
    assert values["m"].project.recipe.steps == steps


def test_options_at_their_defaults_are_left_out() -> None:
    assert line_of(Step("prune", PruneOptions(sparsity=0.3))) == "m.prune(sparsity=0.3)"


@pytest.mark.parametrize("step", [
    Step("freeze", FreezeOptions(Select("type", ("linear",)))),
    Step("freeze", FreezeOptions(Select("type", ("linear",))), seed=3),
    Step("freeze", FreezeOptions(Select("type", ("linear",))), enabled=False),
], ids=("plain", "seeded", "disabled"))  # fmt: skip
def test_a_line_repeats_its_step(step: Step) -> None:
    m = es.open("demo:digits-mlp")
    exec(line_of(step), {"m": m})
    assert m.project.recipe.steps == (step,)


def test_the_opening_repeats_the_seed_and_names_no_object_of_a_program() -> None:
    seeded = es.open("demo:digits-mlp", seed=7).project
    values: dict[str, es.Model] = {"es": es}  # type: ignore[dict-item]
    exec(opening_line(seeded), values)
    assert values["m"].project.source == seeded.source and seeded.source.seed == 7
    traced = es.trace(torch.nn.Linear(2, 2), torch.zeros(1, 2), name="Own\nnet").project
    assert opening_line(traced).startswith("# m: Own") and "\n" not in opening_line(traced)
