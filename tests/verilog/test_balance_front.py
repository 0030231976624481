"""The front of balanced designs: each faster and larger than the one before, each a step of the balancing pass."""

from __future__ import annotations

import itertools
from functools import cache

import pytest

from espalier.model.graph.graph import Graph
from espalier.model.opening import open_any
from espalier.model.trust import Origin
from espalier.passes.base import Context, run_step
from espalier.passes.recipes.config import load_recipe
from espalier.verilog.design.options import EmitOptions
from espalier.verilog.design.template import total
from espalier.verilog.lowering.lower import lower, unbuffered
from espalier.verilog.lowering.parallelism import balance_front
from espalier.verilog.timing.buffering import pace
from tests.folders import kept_folder
from tests.verilog.test_networks import FORMATS, LAYERS


@cache
def quantised(source: str) -> tuple[Graph, Context]:
    """A demo with fixed-point formats."""
    opened = open_any(source, kept_folder(), origin=Origin.TYPED)
    step = {"pass": "quantize", "options": {"rules": [{"select": LAYERS, "formats": FORMATS}]}}
    context = Context(opened.store)
    return run_step(opened.project.base, load_recipe({"steps": [step]}).steps[0], context).graph, context


def ran(source: str, name: str, **options: object) -> Graph:
    """The graph after one more pass."""
    graph, context = quantised(source)
    return run_step(graph, load_recipe({"steps": [{"pass": name, "options": options}]}).steps[0], context).graph


@pytest.mark.slow
@pytest.mark.parametrize("source", ["demo:digits-mlp", "demo:digits"])
def test_a_front_goes_from_small_to_fast(source: str) -> None:
    graph, context = quantised(source)
    heard: list[int] = []
    found = balance_front(graph, context.store, EmitOptions(), 8, lambda k, n: heard.append(n - k))
    assert 4 <= len(found) <= 8 and heard[-1] == 0
    assert not found[0].parallelism
    for a, b in itertools.pairwise(found):
        assert b.interval < a.interval and b.multipliers > a.multipliers and b.area.dsp >= a.area.dsp


@pytest.mark.slow
@pytest.mark.parametrize("source", ["demo:digits-mlp", "demo:digits"])
def test_a_point_is_what_balancing_gives(source: str) -> None:
    graph, context = quantised(source)
    for point in balance_front(graph, context.store, EmitOptions(), 5):
        step = load_recipe({"steps": [{"pass": "balance_parallelism", "options": {"multipliers": point.multipliers}}]})
        done = run_step(graph, step.steps[0], context)
        after, told = done.graph, done.report.summary
        assert (told["interval"], told["bottleneck"]) == (point.interval, point.bottleneck), "windows count too"
        assert {n.id: n.parallel for n in after if n.parallel} == point.parallelism
        design = lower(after, context.store, EmitOptions())
        assert pace(design) == point.interval and total(design.instances) == point.area
        rest = unbuffered(after, context.store, EmitOptions())[0]
        assert point.area.lut == pytest.approx(total(rest.instances).lut + point.fifos.lut)
        assert (point.fifos.lut > 0) == (len(design.instances) > len(rest.instances))


def test_the_pass_starts_folded_whatever_the_graph_has() -> None:
    graph, context = quantised("demo:digits-mlp")
    given = ran("demo:digits-mlp", "balance_parallelism", multipliers=200)
    assert given != graph
    step = load_recipe({"steps": [{"pass": "balance_front", "options": {"points": 6}}]}).steps[0]
    rows = [run_step(g, step, context).report.rows for g in (graph, given)]
    assert rows[0] == rows[1] and rows[0][0]["parallelism"] == {}
