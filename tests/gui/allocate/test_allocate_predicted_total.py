"""What Allocate says of a configuration is what the score says of it: the whole, not the sum of its layers."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from espalier.app.features.allocate.panel import AllocatePanel
from espalier.app.features.allocate.widgets import STEPS
from espalier.app.measured.estimate import estimate_of
from espalier.app.shell.window import Window
from espalier.passes.allocation.predicted_fronts import POINTS
from espalier.passes.sensitivity.combined import packed
from espalier.passes.sensitivity.table import Sensitivity
from tests.gui.allocate import test_allocate
from tests.gui.allocate.test_allocate import find, panel
from tests.gui.conftest import FakeRunner
from tests.passes.allocation.cases import made_table

pytestmark = pytest.mark.gui
__all__ = ["panel"]


@pytest.fixture
def agreeing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table in which the errors of all layers point the same way."""
    unit = np.full(32, (2 / 32) ** 0.5)

    def made(*args: object, **more: object) -> tuple[Sensitivity, ...]:
        rows = made_table(*args, **more)  # type: ignore[arg-type]
        return tuple(replace(r, along=tuple(packed(kl, unit * kl**0.5) for kl in r.predicted)) for r in rows)

    monkeypatch.setattr(test_allocate, "made_table", made)


@pytest.fixture
def cancelling(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table in which the errors of every other layer undo those of the others."""
    unit = np.full(32, (2 / 32) ** 0.5)

    def made(*args: object, **more: object) -> tuple[Sensitivity, ...]:
        rows = made_table(*args, **more)  # type: ignore[arg-type]
        return tuple(replace(r, along=tuple(packed(kl, unit * kl**0.5 * (-1) ** i) for kl in r.predicted))
                     for i, r in enumerate(rows))  # fmt: skip

    monkeypatch.setattr(test_allocate, "made_table", made)


@pytest.mark.slow
@pytest.mark.usefixtures("agreeing")
def test_the_panel_and_the_score_say_the_same(panel: AllocatePanel, runner: list[FakeRunner], window: Window) -> None:
    find(window, runner, ("weight",))
    allocations = panel.allocations
    panel.slider.setValue(300)
    assert (
        allocations.solution is not None and allocations.kl is not None and allocations.kl > 2 * allocations.solution.kl
    ), "errors add up here"
    panel.apply.click()
    applied = allocations.kl if allocations.kl is not None else panel.chart.marks[0].kl
    estimate = estimate_of(window.session)
    assert estimate.how == "estimated" and estimate.kl == pytest.approx(applied)
    present = allocations.present()
    assert present is not None and present[1] == estimate.kl and "estimated" in panel.result.text()


@pytest.mark.usefixtures("agreeing")
def test_the_slider_stands_on_the_drawn_front(panel: AllocatePanel, runner: list[FakeRunner], window: Window) -> None:
    find(window, runner, ("weight",))
    allocations = panel.allocations
    assert allocations.current is not None
    for place in (7, 30):
        front = allocations.current.front
        allocations.aim(front.solutions[place].amounts[0])
        assert panel.chart.budget is not None and panel.chart.budget[2] == pytest.approx(front.kls[place])
        assert panel.chart.points[place][1] == front.kls[place] != front.solutions[place].kl


@pytest.mark.slow
@pytest.mark.usefixtures("agreeing")
def test_what_was_measured_is_told_as_that(panel: AllocatePanel, runner: list[FakeRunner], window: Window) -> None:
    find(window, runner, ("weight",))
    panel.slider.setValue(300)
    panel.apply.click()
    session = window.session
    session.record_divergence(session.recipe, session.measures.options, 0.125, session.compared)
    assert estimate_of(session).how == "measured" and "measured" in panel.result.text()
    assert panel.chart.marks[0].kl == 0.125 and "measured" in panel.chart.marks[0].text


@pytest.mark.usefixtures("cancelling")
def test_a_dearer_configuration_is_never_worse(panel: AllocatePanel, runner: list[FakeRunner], window: Window) -> None:
    """Where errors cancel, the least sum of a higher budget may be worse: neither drawn nor dragged to nor applied."""
    find(window, runner, ("weight",))
    allocations = panel.allocations
    assert allocations.current is not None
    sums = [
        allocations.current.predictor.of(allocations.current.problem.chosen(s.picks))
        for s in allocations.current.hulls.front(POINTS)
    ]
    assert any(b > a for a, b in itertools.pairwise(sums)), "the case is there"
    points = panel.chart.points
    assert all(a[0] < b[0] and a[1] > b[1] for a, b in itertools.pairwise(points)) and len(points) > 3
    for place in range(0, STEPS + 1, 25):
        panel.slider.setValue(place)
        assert allocations.wanted is not None and allocations.reached is not None and allocations.kl is not None
        budget = allocations.current.problem.figure(0, allocations.wanted)
        best = min(k for c, k in points if c <= budget * (1 + 1e-9))
        assert allocations.kl <= best and allocations.reached <= budget * (1 + 1e-9)
        if place % 250 == 125:
            tried = allocations.kl
            panel.apply.click()
            now = estimate_of(window.session).kl
            assert now is not None and now <= tried * (1 + 1e-9)
