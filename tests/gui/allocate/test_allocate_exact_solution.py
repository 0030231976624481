"""What Allocate applies holds its budget truly, as the command line's does; the quick solution is for drags alone."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from espalier.app.features.allocate.panel import AllocatePanel
from espalier.app.shell.window import Window
from espalier.passes.allocation.solve import allocate
from espalier.passes.costs.limits import Limit
from espalier.passes.score import static_score
from tests.gui.allocate.test_allocate import find, graph_of, panel
from tests.gui.conftest import FakeRunner

pytestmark = pytest.mark.gui
__all__ = ["panel"]


@pytest.mark.parametrize("place", [150, 420, 777])
@pytest.mark.parametrize("figure", ["size_bytes", "weight_bits"])
def test_the_applied_recipe_holds_the_budget(
    panel: AllocatePanel,
    runner: list[FakeRunner],
    window: Window,
    figure: str,
    place: int,
) -> None:
    find(window, runner)
    allocations = panel.allocations
    panel.choices.cost.put(figure)
    panel.choices.cost.edited.emit()
    panel.slider.setValue(place)
    assert allocations.current is not None and allocations.wanted is not None
    budget, ground = allocations.current.problem.figure(0, allocations.wanted), graph_of(window)
    wish = allocate(ground, allocations.sensitivities.table, [Limit(figure, "<=", budget)])
    panel.apply.click()
    true = getattr(static_score(graph_of(window)), figure)
    assert true <= budget * (1 + 1e-9) and true == pytest.approx(wish.figures[figure])
    session = window.session
    assert session.document and session.document.undo_label.endswith(f"{true:.4g}")


def test_a_drag_that_rests_is_solved_truly(
    panel: AllocatePanel,
    runner: list[FakeRunner],
    window: Window,
    qtbot: QtBot,
) -> None:
    find(window, runner)
    panel.choices.cost.put("size_bytes")
    panel.choices.cost.edited.emit()
    panel.slider.setValue(300)
    allocations = panel.allocations
    quick = allocations.solution
    assert allocations.current and quick and allocations.reached == allocations.current.figure(quick), "as it adds up"
    qtbot.waitUntil(lambda: allocations._settled, timeout=60_000)
    assert allocations.wanted is not None and allocations.reached is not None
    assert allocations.reached <= allocations.current.problem.figure(0, allocations.wanted) * (1 + 1e-9)
    assert panel.apply.isEnabled()
    panel.want_reset()
    assert allocations.solution is None and allocations.reached is None and not allocations.beyond


def test_a_budget_that_cannot_be_held_is_told_and_not_applied(
    panel: AllocatePanel,
    runner: list[FakeRunner],
    window: Window,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from espalier.app.features.allocate.state import exact_solution as allocation_held
    from espalier.model.errors import OptionsError

    def never(problem: object, limits: object) -> None:
        raise OptionsError("The budget cannot be held: the least possible is 7.", "Raise it.")

    monkeypatch.setattr(allocation_held, "held", never)
    find(window, runner)
    panel.slider.setValue(300)
    panel.apply.click()
    assert not window.session.recipe.steps and "least possible is 7" in panel.wrong.text() and panel.wrong.isVisible()
    panel.slider.setValue(301)
    assert not panel.wrong.isVisible()
