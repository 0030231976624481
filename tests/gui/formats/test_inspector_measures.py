"""The inspector: SQNR, statistics and samples arrive from where they are computed."""

from __future__ import annotations

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

from espalier.app.features.inspector.panel import InspectorPanel
from espalier.app.figures.facts import weight_of
from espalier.app.number_text import figure
from espalier.app.session.session import Session
from espalier.model.formats.base import parse_format
from espalier.model.formats.integer import Integer
from espalier.passes.analysis.activations import ActivationSample
from espalier.passes.base import Report
from espalier.passes.jobs.kinds import AnalyseJob, Done, PartialResult
from espalier.passes.running.splits import EvaluateOptions
from tests.gui.bert import GELU, KEY, QUERY
from tests.gui.conftest import FakeRunner
from tests.gui.formats.inspecting import fmt_of

pytestmark = pytest.mark.gui


def test_sqnr_arrives_from_the_pool(panel: InspectorPanel, session: Session, qtbot: QtBot) -> None:
    session.select((KEY,))
    session.set_format((KEY,), "weight", Integer(8, 10))
    row = panel.precision.rows["weight"]
    qtbot.waitUntil(lambda: row.sqnr.text().endswith("dB"), timeout=5000)
    assert 30 < float(row.sqnr.text().split()[0]) < 45
    qtbot.waitUntil(lambda: panel.weight.plot.histogram is not None, timeout=5000)  # from a task of its own
    assert panel.weight.plot.histogram is not None and panel.weight.plot.histogram.elements == 32 * 32
    assert "saturated" in panel.weight.words.text()


@pytest.mark.parametrize("widths", [(8, 8), (8, 5), (5, 8), (32, 32)])
def test_the_sqnr_of_several_nodes_is_the_lowest(
    panel: InspectorPanel, session: Session, qtbot: QtBot, widths: tuple[int, int]
) -> None:
    formats = dict(zip((KEY, QUERY), (Integer(w, 10 if w < 32 else 31) for w in widths), strict=True))
    for node, fmt in formats.items():
        session.set_format((node,), "weight", fmt)
    document = session.open_document
    found: dict[str, float] = {}
    for node, fmt in formats.items():
        weight = weight_of(document.graph[node], "weight", document.graph)
        assert weight and weight.key
        x = document.store.get(weight.key).float32().astype(float)
        low, high = fmt.limits
        error = x - np.clip(np.rint(x * 2.0**fmt.frac_width), low, high) * 2.0**-fmt.frac_width
        found[node] = 10 * np.log10((x**2).sum() / (error**2).sum())
    worst = min(found, key=found.__getitem__)
    session.select((KEY, QUERY))
    row = panel.precision.rows["weight"]
    qtbot.waitUntil(lambda: bool(row.sqnr.text()), timeout=60_000)
    assert row.sqnr.text() == f"≥{found[worst]:.1f} dB" and worst in row.sqnr.toolTip()
    qtbot.waitUntil(lambda: panel.weight.plot.loss is not None, timeout=60_000)  # that of one node
    assert row.sqnr.text() == f"≥{found[worst]:.1f} dB"
    session.select((KEY,))
    qtbot.waitUntil(lambda: row.sqnr.text() == f"{found[KEY]:.1f} dB", timeout=60_000)


def test_the_best_binary_point_is_one_click_away(panel: InspectorPanel, session: Session, qtbot: QtBot) -> None:
    session.select((KEY,))
    session.set_format((KEY,), "weight", Integer(8, 4))
    qtbot.waitUntil(panel.weight.offer.isVisible, timeout=5000)
    panel.weight.offer.click()
    found = fmt_of(session, KEY, "weight")
    assert isinstance(found, Integer) and found.frac_width >= 9


def test_statistics_are_computed_once_they_are_looked_at(panel: InspectorPanel, session: Session, qtbot: QtBot) -> None:
    fold = panel.weight.statistics
    session.select((KEY,))
    qtbot.waitUntil(lambda: panel.weight.plot.histogram is not None, timeout=60_000)
    assert fold.isVisible() and not fold.rows.facts, "nobody looked"
    fold.unfold()
    qtbot.waitUntil(lambda: len(fold.rows.facts) == 7, timeout=60_000)
    assert session.document is not None
    graph = session.document.graph
    stored = weight_of(graph[KEY], "weight", graph)
    assert stored is not None and stored.key is not None
    x = session.document.store.get(stored.key).float32()
    told = {f.name: f.value for f in fold.rows.facts}
    assert told["min … max"] == f"{figure(x.min())} … {figure(x.max())}"
    assert told["mean ± σ"] == f"{figure(x.mean(dtype=float))} ± {figure(x.std(dtype=float))}"
    session.select((GELU,))
    panel.precision.set_port("data_in")
    assert not fold.isVisible(), "no values are known"


def test_activations_are_measured_when_asked(
    panel: InspectorPanel, session: Session, runner: list[FakeRunner], qtbot: QtBot
) -> None:
    session.select((KEY,))
    panel.precision.set_port("data_in")
    section = panel.weight
    assert "not measured yet" in section.words.text() and not section.measure.isVisible(), "no data is known"
    evaluated = EvaluateOptions(data="some.csv", text="words")
    session.evaluate(evaluated)
    runner[-1].finish(Report("evaluate", (), {"accuracy": 0.5, "loss": 1.0}))
    panel.precision.set_port("weight")
    panel.precision.set_port("data_in")
    assert section.measure.isVisible()
    section.measure.click()
    (info,) = runner[-1].waiting
    assert isinstance(info.job, AnalyseJob) and info.job.step.pass_name == "activations"
    assert (info.job.step.options.data, info.job.step.options.text) == ("some.csv", "words")
    assert "measuring" in section.words.text()
    rows = np.random.default_rng(1).normal(0, 0.5, (64, 32)).astype(np.float32)
    runner[-1].tell(info, PartialResult(ActivationSample(KEY, "data_in", rows, 9999, -2.5, 2.5)))
    runner[-1].tell(info, Done(Report("activations")))
    qtbot.waitUntil(lambda: section.plot.histogram is not None and section.plot.isVisible(), timeout=5000)
    assert "2\u2009048 of 9\u2009999 values" in section.words.text() and section.plot.histogram.elements == 2048
    session.set_format((KEY,), "data_in", Integer(8, 3))
    assert "before the last edits" in section.words.text()
    shown = panel.precision.rows["data_in"].sqnr
    qtbot.waitUntil(lambda: shown.text().endswith("dB"), timeout=5000)
    qtbot.waitUntil(section.offer.isVisible, timeout=5000)
    section.offer.click()
    assert isinstance(held := fmt_of(session, KEY, "data_in"), Integer) and held.frac_width in (5, 6)
    session.undo()
    session.undo()
    assert "before" not in section.words.text(), "undo finds the sample of that state again"


def test_block_formats_show_the_middle_block(panel: InspectorPanel, session: Session, qtbot: QtBot) -> None:
    session.select((KEY,))
    session.set_format((KEY,), "weight", parse_format("mxint(width=4, block=16)"))
    qtbot.waitUntil(lambda: "median block of 16" in panel.weight.words.text(), timeout=5000)
    qtbot.waitUntil(lambda: len(panel.weight.plot.lines()[0]) in range(8, 16), timeout=5000)
    panel.weight.scale.click()
    assert panel.weight.plot.log and panel.weight.scale.text() == "Linear counts"
    qtbot.waitUntil(lambda: panel.format.data is not None, timeout=5000)
    assert panel.format.stored.text() == "4.5 bits an element: 4 of its own, 8 of the scale shared by 16"
    codes = panel.format.codes
    widths = [codes.columnWidth(i) for i in range(2)]
    assert sum(widths) == codes.viewport().width() and widths[0] == pytest.approx(widths[1], abs=1), "shared out"
    session.set_format((KEY,), "weight", parse_format("scaled_integer(granularity=tensor)"))
    assert panel.weight.fix.isVisible()
    panel.weight.fix.click()
    assert session.recipe.steps[-1].pass_name == "calibrate" and session.recipe.steps[-1].options.ports == ("weight",)
