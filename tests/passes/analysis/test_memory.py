"""The ledger's lines add up to the packed file, for any mixture of formats and masks; what a run takes is measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from espalier.model.document.recipe import Step
from espalier.model.errors import OptionsError
from espalier.model.formats.base import Format
from espalier.model.formats.integer import Integer
from espalier.model.formats.mxint import MXInt
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Precision
from espalier.model.packed.layout import packed_size
from espalier.passes.analysis.memory import MemoryOptions
from espalier.passes.base import Context, Report, run_step
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.transform.pack_mx import PackMXOptions
from tests.model.zoo import Case, case


def told(found: Case, graph: Graph, **options: object) -> Report:
    context = Context(found.store, callables=found.traced.callables)
    wish = MemoryOptions(**{"batch_size": 2, **options})  # type: ignore[arg-type]
    return run_step(graph, Step("memory", wish), context).report


def formatted(graph: Graph, fmt: Format, op: str = "linear") -> Graph:
    return graph.replace(*(replace(n, precision={"weight": Precision(fmt)}) for n in graph if n.op == op))


def pruned(found: Case, graph: Graph) -> Graph:
    return run_step(graph, Step("prune", PruneOptions(0.7)), Context(found.store)).graph


@pytest.mark.parametrize("name", ["mlp", "tied", "image", "bert", "odd", "attention"])
def test_the_lines_are_the_file(name: str) -> None:
    found = case(name)
    for graph in (found.graph, formatted(found.graph, Integer(5, 3)), formatted(found.graph, MXInt(8, 32)),
                  pruned(found, formatted(found.graph, ScaledInteger(8)))):  # fmt: skip
        report = told(found, graph)
        lines = [r for r in report.rows if r["kind"] != "measured"]
        assert sum(r["bytes"] for r in lines) == packed_size(graph) == report.summary["file_bytes"]
        assert all(r["bytes"] >= 0 for r in lines)


def test_mxint8_saves_what_it_says() -> None:
    bert = case("bert")
    graph = formatted(bert.graph, MXInt(8, 8))
    report = told(bert, graph)
    assert report.summary["saving_of_formats"] == pytest.approx((32 - 9) / 32)
    lines = {r["line"]: r for r in report.rows}
    codes = next(r for r in report.rows if r["kind"] == "codes")
    assert codes["bytes"] == codes["elements"] and codes["saving"] == 0.75
    assert sum(r["bytes"] for r in report.rows if r["kind"] == "shared") == codes["elements"] // 8
    assert lines["float: embeddings"]["saving"] == 0 and report.summary["saving"] < 0.7


def test_a_run_is_measured() -> None:
    mlp = case("mlp")
    plain, rounded = told(mlp, mlp.graph), told(mlp, formatted(mlp.graph, Integer(8, 4)))
    lines = {r["line"]: r["bytes"] for r in rounded.rows}
    weights = sum(mlp.graph.weights[n.weights["weight"]].elements for n in mlp.graph if n.op == "linear")
    assert lines["rounded copies in memory"] == 4 * weights
    assert lines["most in a run beside"] > 0 and not any("copies" in r["line"] for r in plain.rows)
    held = {r["line"]: r["bytes"] for r in plain.rows}["model in memory"]
    assert held >= 4 * sum(w.elements for w in mlp.graph.weights.values())
    with pytest.raises(OptionsError, match="no device"):
        told(mlp, mlp.graph, device="tpu")


def gains(found: Case, graph: Graph) -> dict[str, list[int]]:
    """What would save more: by pass, the bytes."""
    parts: list[dict[str, list[tuple[str, int, str, list[str]]]]] = []
    context = Context(found.store, callables=found.traced.callables, found=parts.append)  # type: ignore[arg-type]
    run_step(graph, Step("memory", MemoryOptions(batch_size=1)), context)
    told_: dict[str, list[int]] = {}
    for words, size, act, nodes in parts[0]["gains"]:
        assert words.endswith(".") and size > 0 and set(nodes) <= set(graph.nodes)
        told_.setdefault(act, []).append(size)
    return told_


def test_what_would_gain_more_is_what_is_left() -> None:
    mlp = case("mlp")
    weights = sum(mlp.graph.weights[n.weights["weight"]].elements for n in mlp.graph if n.op == "linear")
    expected = int(weights * (32 - 8.25) / 8)
    plain = gains(mlp, mlp.graph)
    assert plain["quantize"] == [expected] and plain["pack_mx"] == [expected]
    formatted_ = gains(mlp, formatted(mlp.graph, MXInt(8, 32)))
    assert "quantize" not in formatted_ and formatted_["pack_mx"] == [4 * weights, expected]  # the copies, the weights
    held = run_step(mlp.graph, Step("pack_mx", PackMXOptions(width="8")), Context(mlp.store)).graph
    assert not {"quantize", "pack_mx"} & gains(mlp, held).keys()
    assert gains(mlp, formatted(mlp.graph, MXInt(8, 4)))["quantize"]  # small blocks
