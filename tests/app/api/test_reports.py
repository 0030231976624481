"""What the Python interface measures and searches, and the values that it gives."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

import espalier as es
from espalier.model.errors import OptionsError


def test_an_allocation_keeps_its_budget(m: es.Model, xy: tuple[torch.Tensor, torch.Tensor]) -> None:
    table = m.sensitivity(xy[0], formats=["int8", "int4"], ports=["weight"], measure=0, configurations=0)
    assert {r["node"] for r in table.rows} == {"one", "two"} and len(table.rows) == 4
    predicted = {(r["node"], r["format"][:22]): r["predicted"] for r in table.rows}
    assert predicted["one", "scaled_integer(width=4"] > predicted["one", "scaled_integer(width=8"]
    plan = m.allocate(xy[0], budget="weight_bits<=12", formats=["int8", "int4"], ports=["weight"],
                      measure=0, configurations=0)  # fmt: skip
    assert plan.weight_bits <= 12 and {r["port"] for r in plan.rows} == {"weight"}
    assert m.apply(plan.recipe).score().weight_bits == pytest.approx(plan.weight_bits)
    with pytest.raises(OptionsError, match="least"):
        m.copy().undo(9).allocate(xy[0], budget="weight_bits<=1", formats=["int8"], ports=["weight"],
                                  measure=0, configurations=0)  # fmt: skip


def test_a_search_and_a_sweep_score_what_they_say(m: es.Model, xy: tuple[torch.Tensor, torch.Tensor]) -> None:
    m.quantize("linear", data_in="int8")
    study = m.search({"space": [{"values": "integer(width=4|8)", "ports": ["weight"]}], "goals": ["accuracy"],
                      "within": ["weight_bits<=32"], "sampler": "grid", "trials": 4}, xy)  # fmt: skip
    assert len(study.rows) == 4 and study.complete == 4 and study.best in {r["trial"] for r in study.rows}
    best = next(r for r in study.rows if r["trial"] == study.best)
    assert m.copy().apply(study.recipe).evaluate(xy).accuracy == best["accuracy"]
    assert len(study.recipe_of(0)) == 1 and study.front
    curve = m.sweep({"prune.sparsity": [0.0, 0.9]}, xy, recipe={"prune": {}})
    assert [r["sparsity"] for r in curve.rows] == pytest.approx([0.0, 0.0, 0.9], abs=0.01)
    again = m.copy().prune(sparsity=0.9).score(xy)
    assert curve.rows[-1]["accuracy"] == again.accuracy and len(curve.means) == 2
    assert len(m.recipe) == 1  # neither changed the model


def test_a_trial_that_changes_the_models_own_steps_replaces_them(m: es.Model, xy: Any) -> None:
    m.prune("linear", sparsity=0.2)
    study = m.search({"space": [{"kind": "option", "key": "prune.sparsity", "values": "0.5"}], "goals": ["accuracy"],
                      "trials": 1}, xy)  # fmt: skip
    assert m.apply(study.recipe).recipe.rows[0]["options"]["sparsity"] == 0.5
    assert len(m.recipe) == 1 and m.score().sparsity == pytest.approx(0.5, abs=0.01)


def test_reports_are_frozen_and_print(m: es.Model) -> None:
    report = m.parameters()
    rows = report.rows
    rows[0].clear()
    assert report.rows[0] and report == copy.deepcopy(report) and pickle.loads(pickle.dumps(report)) == report
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.summary = {}
    with pytest.raises(TypeError):
        report.figures["a"] = 1
    assert repr(report).startswith("parameters") and "one" in repr(report)
    html = report._repr_html_()
    assert html.count("<tr>") == 1 + len(report.rows)
    risky = es.Report("a<b", {}, tuple({"x": "<script>"} for _ in range(50)))
    assert "<script>" not in risky._repr_html_() and "30 more rows" in risky._repr_html_() and "30 more" in repr(risky)
    assert "quantize" in repr(m.quantize("linear", weight="int8")) and "quantize" in m.recipe._repr_html_()


def test_rows_become_a_data_frame_where_pandas_is(m: es.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    assert list(m.parameters().to_pandas().columns) == list(m.parameters().rows[0])
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(es.EspalierError, match="pandas is not installed"):
        m.parameters().to_pandas()


def test_a_model_draws_itself(m: es.Model) -> None:
    texts = "".join(ElementTree.fromstring(m._repr_svg_()).itertext())
    assert "one" in texts and "two" in texts
    assert set(m.to_networkx()) == set(m.project.graph.nodes)


def test_differences_are_measured_on_arrays(m: es.Model) -> None:
    other = m.copy().quantize("one", weight="integer(width=2, frac_width=1)")
    x = torch.randn(40, *next(iter(m.graph.placeholders)).out.shape[1:])  # type: ignore[union-attr]
    y = m.to_torch()(x).argmax(-1)
    found = es.diff(m, other, data=(x, y))
    scored = {row["name"]: row for row in found.scores}
    assert scored["accuracy"]["a"] == 1.0 and scored["accuracy"]["b"] == other.score((x, y))["accuracy"] < 1.0


def test_differences_are_told_node_by_node(m: es.Model, tmp_path: Path) -> None:
    m.save(tmp_path / "before.espalier")
    assert not es.diff(m, m.copy()) and not es.diff(tmp_path / "before.espalier", m)
    same = es.diff(m, m.copy())
    assert "Nothing differs in 5 nodes." in repr(same) and "Nothing differs in 5 nodes." in same._repr_html_()
    m.quantize("one", weight="int8").prune("two", sparsity=0.5)
    found = es.diff(tmp_path / "before.espalier", m)
    told = {(r["node"], r["what"]): (r["before"], r["after"]) for r in found.rows}
    assert told["one", "weight format"][0] == "float" and told["one", "weight format"][1].startswith("scaled_integer(")
    assert told["two", "weight sparsity"] == (0.0, pytest.approx(0.5, abs=0.01))
    assert found and found.changed == 2 and found.size_bytes < found.size_bytes_before
