"""The pictures of one session with a small model, for the page of the guide that tells it step by step."""

from __future__ import annotations

import sys
from collections.abc import Callable

from PySide6.QtWidgets import QApplication

from espalier.app.features.allocate.panel import AllocatePanel
from espalier.app.features.sensitivity.panel import SensitivityPanel
from espalier.app.shell.window import Window
from espalier.model.formats.base import parse_format

SOURCE, LAYER, BUDGET = "demo:digits-mlp", "fc1", 4.5  # the budget in mean weight bits
SIZE = 1280, 800


def session(
    app: QApplication, window: Window, opened: Callable[[QApplication, Window, str], None],
    rest: Callable[[QApplication, Window], None], keep: Callable[[Window, str], None],
) -> None:  # fmt: skip
    """Open a model, look at a layer, quantise, see what it costs, allocate, compare. Keeps a picture of each.

    Prints the figures of each picture: the page `session.md` says the same.
    """

    def step(name: str) -> None:
        rest(app, window)
        keep(window, f"session-{name}")
        texts = [f.full_text for f in window.status.score.figures.values() if not f.isHidden()]
        sys.stdout.write(f"session-{name}: {'; '.join(texts)}\n")

    before = window.size()
    window.resize(*SIZE)
    opened(app, window, SOURCE)
    document = window.session.open_document
    linear = [node.id for node in document.graph if node.op == "linear"]
    step("1-open")
    window.graph_view.go_to(LAYER)
    step("2-layer")
    for name, form in (("3-int8", "int8"), ("4-mxint4", "mxint4")):
        for port in ("weight", "data_in"):
            window.session.set_format(linear, port, parse_format(form))
        rest(app, window)
        window.services.evaluation.evaluate()
        step(name)
    window.session.compare_with(None)
    document.go_to(0)
    rest(app, window)
    window.docks.bring("sensitivity")
    sensitivity = window.docks.panels["sensitivity"]
    assert isinstance(sensitivity, SensitivityPanel)
    if not sensitivity.known.table:
        sensitivity.run()
    step("5-sensitivity")
    window.docks.bring("allocate")
    allocate = window.docks.panels["allocate"]
    assert isinstance(allocate, AllocatePanel)
    rest(app, window)
    allocate.allocations.aim_at(BUDGET)
    step("6-allocate")
    allocate.allocations.apply()
    rest(app, window)
    window.services.evaluation.evaluate()
    rest(app, window)
    window.pages.workbench.bar.buttons["graph"].click()
    window.actions_table.run("compare")
    step("7-compare")
    window.actions_table.run("compare")
    rest(app, window)
    window.resize(before)
