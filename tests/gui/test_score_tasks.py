"""The score, the search form and a project show the metrics of the task of the data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PySide6.QtWidgets import QApplication

from espalier.app.features.search.goals import Goals
from espalier.app.features.search.state.templates import beginning
from espalier.app.session.measures import Measures
from espalier.app.shell.window import Window
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.search.spec import Goal
from espalier.passes.tasks.tally import packed
from tests.gui.test_score_trace import quantise

pytestmark = pytest.mark.gui
DATA = EvaluateOptions(data="demo:small")


def regression(errors: list[float]) -> dict[str, Any]:
    """A score of these squared errors, as `evaluate` reports it."""
    mse = float(np.mean(errors))
    return {"task": "regression", "metric": "mse", "better": "low", "mse": mse, "loss": mse, "r2": 0.5, "mae": 0.2,
            "accuracy": None, "pearson": 0.7, "spearman": 0.7, "n": len(errors), "guessing": 1.0,
            "interval": [mse / 2, 2 * mse], "errors": packed(np.array(errors))}  # fmt: skip


def measure(window: Window, errors: list[float]) -> None:
    window.session.record_score(window.session.open_document.recipe, DATA, regression(errors), True)
    QApplication.processEvents()


def test_a_regression_shows_its_errors_with_a_paired_test(opened: Window) -> None:
    panel = opened.status.score
    assert "accuracy" in panel._shown and "mse" not in panel._shown
    first = [0.1, 0.4, 0.2, 0.3, 0.2, 0.1, 0.5, 0.2]
    measure(opened, first)
    assert {"mse", "mae", "r2", "pearson", "spearman"} <= set(panel._shown)
    assert not {"accuracy", "loss", "f1", "perplexity"} & set(panel._shown)
    assert panel.figures["mse"].text.startswith("0.25") and panel.figures["r2"].text.startswith("0.5")
    quantise(opened, "fc1", 4)
    measure(opened, [e + 0.001 * (-1) ** at for at, e in enumerate(first)])
    assert panel.figures["mse"].text.endswith("within noise") or "no change" in panel.figures["mse"].text
    measure(opened, [e + 1 + at / 100 for at, e in enumerate(first)])
    text = panel._noise()[0]
    assert "paired t" in text and "beyond noise" in text and "not below guessing (1)" in text
    assert panel.figures["mse"]._change.property("tone") == "bad"


def test_measurements_of_a_task_are_kept_with_the_project(opened: Window) -> None:
    measure(opened, [0.1, 0.2, 0.3])
    session = opened.session
    recipe = session.open_document.recipe
    project = session.open_document.project
    kept = Measures()
    kept.restore(replace(project, reports={**project.reports, **session.measures.to_json(recipe)}))
    assert kept.metrics(recipe) == session.measures.metrics(recipe) and kept.task == "regression"
    assert kept.main(recipe) == session.measures.main(recipe)


def test_a_search_begins_with_the_goal_of_the_task(opened: Window, qtbot: Any) -> None:
    measure(opened, [0.1, 0.2, 0.3])
    session = opened.session
    spec = beginning(session.open_document.graph, DATA, session.main_metric)
    assert spec.goals == (Goal("mse"),)
    form = Goals(("accuracy", "mse", "size_bytes"))
    qtbot.addWidget(form)
    form.put(spec.goals, (), False)
    row = form.goals[0]
    assert row.better.currentText() == "low (default)" and row.get() == Goal("mse")
    row.figure.put("accuracy")
    row.figure.edited.emit()
    assert row.better.currentText() == "high (default)" and row.get() == Goal("accuracy")


def test_a_segmentation_shows_its_miou_with_a_paired_test(opened: Window) -> None:
    """As `evaluate` reports it: the main metric is a share without hits, with parts of images as errors."""
    panel, rng = opened.status.score, np.random.default_rng(0)

    def score(parts: Any) -> None:
        miou = float(np.mean(parts))
        summary = {"task": "segmentation", "metric": "miou", "better": "high", "miou": miou, "accuracy": 0.9,
                   "loss": 0.3, "n": len(parts), "guessing": 0.2, "interval": [miou - 0.02, miou + 0.02],
                   "errors": packed(np.array(parts)), "unit": "images"}  # fmt: skip
        opened.session.record_score(opened.session.open_document.recipe, DATA, summary, True)
        QApplication.processEvents()

    first = 0.8 + 0.1 * rng.normal(size=40)
    score(first)
    assert {"miou", "accuracy", "loss"} <= set(panel._shown) and "perplexity" not in panel._shown
    assert panel.figures["miou"].text.startswith(f"{100 * float(np.mean(first)):.1f}")
    quantise(opened, "fc1", 4)
    score(first - 0.3 + 0.01 * rng.normal(size=40))
    text = panel._noise()[0]
    assert "paired t" in text and "beyond noise" in text
    assert panel.figures["miou"]._change.property("tone") == "bad"
