"""One evaluation measures accuracy, loss and the divergence from the baseline, whose outputs are cached."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from espalier.model.document.recipe import Recipe, Step
from espalier.model.formats.base import parse_format
from espalier.model.opening import open_source
from espalier.model.trust import Origin
from espalier.passes.analysis import baseline
from espalier.passes.analysis.baseline import ComparedOptions
from espalier.passes.analysis.divergence import DivergenceOptions, divergence
from espalier.passes.analysis.evaluate import evaluate
from espalier.passes.base import Context
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.figure import Figure, main_figure
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.select import Select
from espalier.passes.transform.quantize import quantize
from tests.model.zoo import case


@pytest.mark.slow
@pytest.mark.parametrize("name", ["demo:digits-mlp", "demo:reviews"])
def test_the_divergence_comes_with_the_score(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = open_source(name, tmp_path, origin=Origin.TYPED)
    base = opened.project.base
    context = Context(opened.store, reading=opened.project.source.reading, base=base)
    rule = Rule(Select("type", ("linear",)), {"weight": parse_format("integer(width=4, frac_width=4)")})
    graph = quantize(base, QuantizeOptions((rule,)), context)[0]
    plain = EvaluateOptions(data=name, limit=100, batch_size=32)
    wish = ComparedOptions(**asdict(plain))
    alone = evaluate(graph, plain, context)[1].summary
    baseline._CACHE.clear()
    first = evaluate(graph, wish, context)[1].summary
    more = {"kl", "baseline", "baseline_accuracy", "change"}
    assert "kl" not in alone and {k: v for k, v in first.items() if k not in more} == alone
    before, change = evaluate(base, plain, context)[1].summary, first["change"]["accuracy"]
    assert first["baseline"] == change["baseline"] == "opened" and first["baseline_accuracy"] == before["accuracy"]
    assert change == main_figure(alone).against(main_figure(before)).to_json()  # type: ignore[union-attr, arg-type]
    true = divergence(graph, DivergenceOptions(**asdict(plain)), context)[1].summary["kl"]
    assert first["kl"] == pytest.approx(true, rel=1e-3) and true > 0
    monkeypatch.setattr(baseline.BaselineComparison, "_run", None)
    assert evaluate(graph, wish, context)[1].summary == first, "the baseline has not been run again"
    assert evaluate(base, wish, context)[1].summary["kl"] == pytest.approx(0, abs=1e-9)
    assert "kl" not in evaluate(graph, wish, replace(context, base=None))[1].summary


def test_divergences_are_kept_with_the_project_by_recipe() -> None:
    from espalier.app.session.measures import Baseline, Measures

    one, two = Recipe((Step("quantize", QuantizeOptions()),)), Recipe()
    graph = case("mlp").graph
    opened, pinned = Baseline("opened", two, graph), Baseline("pin 1", one, graph)
    data, held = EvaluateOptions(data="some.csv"), Measures()
    held.use(data)
    held.record(one, data, {"accuracy": 0.75, "loss": 0.3, "n": 4, "hits": "d", "guessing": 0.5})
    held.record_divergence(one, data, 0.02, opened)
    held.record_divergence(one, data, 0.0, pinned)
    held.record_divergence(two, EvaluateOptions(data="other.csv"), 0.5, opened)
    assert held.divergence(one, opened) == 0.02 and held.divergence(one, pinned) == 0.0
    assert held.divergence(two, opened) is None

    class Project:
        reports = held.to_json(one)
        recipe = one

    again = Measures()
    again.restore(Project())  # type: ignore[arg-type]
    assert again.divergence(one, opened) == 0.02 and again.options == data
    assert again.main(one) == Figure(0.75, 4, "d", 0.5) and again.main(two) is None
    again.use(EvaluateOptions(data="other.csv"))
    assert again.divergence(one, opened) is None and again.main(one) is None, "of other data nothing is known"
    Project.reports = {"scores": {"options": asdict(data), "kl": ["nonsense"]}}
    damaged = Measures()
    damaged.restore(Project())  # type: ignore[arg-type]
    assert damaged.divergence(one, opened) is None
    Project.reports = {"scores": {"options": asdict(data), "present": [0.5, 1.5], "divergences": {"": 1.0}}}
    older = Measures()
    older.restore(Project())  # type: ignore[arg-type]
    assert older.has(one) and older.main(one) is None and older.divergence(one, opened) is None


@pytest.mark.slow
def test_a_baseline_of_data_that_changed_is_run_again(tmp_path: Path) -> None:
    opened, data = open_source("demo:reviews", tmp_path / "work"), tmp_path / "rows.csv"
    base = opened.project.base
    context = Context(opened.store, reading=opened.project.source.reading, base=base)
    wish = ComparedOptions(str(data), batch_size=8)
    texts = ["wonderful and lovely", "dreadful and boring", "superb acting", "a tedious plot"]
    for labels in ([1, 0, 1, 0], [0, 1, 0, 1]):
        data.write_text("text,label\n" + "".join(f"{t},{k}\n" for t, k in zip(texts, labels, strict=True)))
        found = evaluate(base, wish, context)[1].summary
        alone = divergence(base, DivergenceOptions(str(data), batch_size=8), context)[1].summary
        assert found["kl"] == pytest.approx(0, abs=1e-9), "the model is its own baseline"
        assert found["baseline_accuracy"] == found["accuracy"] == alone["accuracy"]
        texts.reverse()
