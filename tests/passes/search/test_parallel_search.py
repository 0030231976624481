"""Parallelism as a choice of searches and as what a budget of cycles decides: as the lowered design computes it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.model.document.recipe import Recipe
from espalier.model.errors import OptionsError
from espalier.model.formats.base import parse_format
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Parallel
from espalier.model.opening import Opened, open_any
from espalier.passes.allocation.solve import Competing, allocate, settled
from espalier.passes.base import Context, run_step
from espalier.passes.costs.base import cost
from espalier.passes.costs.limits import parse_budget
from espalier.passes.costs.parallel import Product, paced, product_of, step_of
from espalier.passes.recipes.replay import replay
from espalier.passes.score import static_score
from espalier.passes.search.expand import expand
from espalier.passes.search.feasibility import check_limits
from espalier.passes.search.goals import wanted
from espalier.passes.search.spec import LINEAR, Goal, SearchSpec, Vary
from espalier.passes.select import Select
from espalier.passes.sensitivity.table import Candidate, Sensitivity
from espalier.verilog.design.options import EmitOptions
from espalier.verilog.lowering.lower import sizes_of, unbuffered
from espalier.verilog.lowering.parallelism import at_most, product
from espalier.verilog.timing.buffering import pace
from tests.verilog.test_balance_front import quantised


@cache
def opened() -> Opened:
    return open_any("demo:digits-mlp", Path(mkdtemp()))


@given(st.tuples(*(st.integers(1, 96),) * 3), st.integers(1, 600))
def test_at_most_so_many_products(sizes: tuple[int, int, int], products: int) -> None:
    found = at_most(sizes, products)
    assert product(found) <= products
    assert not any(s % n for s, n in zip(sizes, (found.inputs, found.outputs, found.tokens), strict=True))


@pytest.mark.parametrize("source", ["demo:digits-mlp", "demo:digits"])
def test_shapes_tell_what_the_lowering_does(source: str) -> None:
    graph, context = quantised(source)
    for name, sizes in sizes_of(graph, context.store, EmitOptions()).items():
        work = product_of(graph.nodes[name], graph)
        assert work is not None and work.sizes == sizes


@pytest.mark.parametrize("source", ["demo:digits-mlp", "demo:digits"])
@pytest.mark.parametrize("limit", [600, 2000, 30_000])
def test_the_least_that_keeps_a_pace(source: str, limit: int) -> None:
    graph, context = quantised(source)
    after = replay(graph, Recipe((step_of(paced(graph, limit)),)), context).graph
    assert pace(unbuffered(after, context.store, EmitOptions())[0]) <= 1.02 * limit  # a window begins with a row
    for node in after:
        work = product_of(node, after)
        if work is not None and product(node.parallel or Parallel()) > 1:
            fewer = at_most(work.sizes, product(node.parallel or Parallel()) - 1)
            assert work.cycles(fewer) > limit


def test_a_pace_that_nothing_keeps_is_told() -> None:
    graph, _ = quantised("demo:digits")
    with pytest.raises(OptionsError, match=r"cycles<=10 cannot be held: .* with all at once"):
        paced(graph, 10)


def test_a_product_of_windows() -> None:
    work = Product(rows=64, inputs=36, outputs=8, window=64 * 9 * 4, channels=4)
    assert work.cycles(Parallel(1, 8)) == 64 * 36 and work.cycles(Parallel(36, 8)) == 64 * 9


def table(graph: Graph) -> list[Sensitivity]:
    """Narrow formats that harm more."""
    formats = {w: parse_format(f"integer(width={w}, frac_width=4)") for w in (4, 6, 8)}
    rows = []
    for name in ("fc1", "fc2", "fc3"):
        for port in ("data_in", "weight"):
            candidates = tuple(Candidate(f) for f in formats.values())
            harm = tuple(2.0 ** -(2 * w) for w in formats)
            rows.append(Sensitivity(name, port, 1, candidates, harm, (0.0,) * 3, (None,) * 3))
    return rows


def test_budgets_of_cycles_and_tables_together() -> None:
    graph = opened().project.base
    limits = [parse_budget("cycles<=64"), parse_budget("lut<=2600")]
    before, steps, rest = settled(graph, limits)
    assert [x.figure for x in rest] == ["lut"] and len(steps) == 1
    made = allocate(before, table(graph), rest, Competing(whole=False))
    assert made.figures["lut"] <= 2600 and made.figures["cycles"] <= 64
    with pytest.raises(OptionsError, match="cannot be held"):
        allocate(settled(graph, [parse_budget("cycles<=4"), *rest])[0], table(graph), rest, Competing(whole=False))
    with pytest.raises(OptionsError, match="does not depend on formats"):
        settled(graph, limits[:1])


def test_a_space_of_parallelism() -> None:
    graph = opened().project.base
    spec = SearchSpec(space=(Vary("parallel", LINEAR, values="16, 1, 4"),))
    space = expand(spec, graph, Recipe())
    assert [c.values for c in space.choices] == [(1, 4, 16)] * 3
    assert [c.name for c in space.choices] == ["fc1.products", "fc2.products", "fc3.products"]
    recipe = space.apply(Recipe(), dict(zip([c.name for c in space.choices], (16, 4, 16), strict=True)))
    after = replay(graph, recipe, Context(opened().store)).graph
    assert [product(after.nodes[n].parallel or Parallel()) for n in ("fc1", "fc2", "fc3")] == [16, 4, 16]
    assert cost("cycles").of(after, static_score(after)) == 512  # type: ignore[misc]


@pytest.mark.parametrize("values", ["0, 4", "1.5", "many"])
def test_products_are_whole_numbers(values: str) -> None:
    spec = SearchSpec(space=(Vary("parallel", LINEAR, values=values),))
    with pytest.raises(OptionsError, match="is no number of products"):
        expand(spec, opened().project.base, Recipe())


def test_a_limit_that_no_parallelism_holds_is_told_before() -> None:
    graph, _ = quantised("demo:digits-mlp")
    spec = SearchSpec(space=(Vary("parallel", LINEAR, values="1, 4"),), goals=(Goal("lut"),), within=("cycles<=1024",))
    check_limits(expand(spec, graph, Recipe()), graph, wanted(spec))
    with pytest.raises(OptionsError, match="cycles<=100 cannot be held: the least possible is 1024"):
        check_limits(expand(spec, graph, Recipe()), graph, wanted(replace(spec, within=("cycles<=100",))))


def test_a_step_of_several_groups() -> None:
    graph, context = quantised("demo:digits-mlp")
    step = step_of({"fc1": Parallel(4, 2), "fc2": Parallel(4, 2), "fc3": Parallel(2, 5)})
    after = run_step(graph, step, context).graph
    assert {n.id: n.parallel for n in after if n.parallel} == {
        "fc1": Parallel(4, 2), "fc2": Parallel(4, 2), "fc3": Parallel(2, 5)
    }  # fmt: skip
    assert [r.select for r in step.options.rules] == [Select("name", ("fc1", "fc2")), Select("name", ("fc3",))]
