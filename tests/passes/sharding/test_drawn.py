"""What the window draws of plans: every byte of a move once, with formats; and of graphs with placements."""

from __future__ import annotations

from dataclasses import replace

import pytest

from espalier.model.document.recipe import Step
from espalier.model.formats.integer import Integer
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Precision, Sharding
from espalier.passes.base import Context, run_step
from espalier.passes.choices.shard import ShardOptions
from espalier.passes.sharding.apply import resharding
from espalier.passes.sharding.drawn import drawn, placed_moves, planned_moves
from espalier.passes.sharding.given import placed
from espalier.passes.sharding.mesh import Mesh
from espalier.passes.sharding.options import ShardPlanOptions
from espalier.passes.sharding.plan import baseline, make_plan
from espalier.passes.sharding.presets import device
from tests.model.zoo import case

TWO = Mesh((2,))


def sharded(graph: Graph, strategy: str, mesh: str = "2") -> Graph:
    step = Step("shard", ShardOptions(mesh=mesh, strategy=strategy, batch_size=8))  # type: ignore[arg-type]
    return run_step(graph, step, Context(case("bert").store)).graph


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("strategy", ["megatron", "fsdp", "data"])
def test_every_byte_of_a_plan_is_drawn_once(strategy: str, training: bool) -> None:
    graph = case("bert").graph
    plan = baseline(strategy, graph, TWO, device("cpu", TWO), ShardPlanOptions(batch_size=8, training=training))
    moved = list(planned_moves(plan, graph))
    assert sum(m.bytes for m in moved) == plan.bytes
    assert all(m.source or m.weight for m in moved) and all(not m.user or m.user in graph.nodes for m in moved)
    assert all(m.sent or m.gradient for m in moved)
    assert bool(plan.bytes) == bool(moved)


def test_formats_on_the_wire_are_named() -> None:
    graph = case("bert").graph
    int8 = {"weight": Precision(Integer(8, 4))}
    after = graph.replace(*(replace(n, precision=int8) for n in graph if n.op == "linear"))
    plan = baseline("fsdp", after, TWO, device("cpu", TWO), ShardPlanOptions(batch_size=8))
    gathers = [m for m in planned_moves(plan, after) if m.port == "weight" and after.nodes[m.user].op == "linear"]
    assert gathers and all(m.format == Precision(Integer(8, 4)).label for m in gathers)
    assert all(s.wire * 4 == s.bytes for m in gathers for s in m.sent)
    plain = baseline("fsdp", graph, TWO, device("cpu", TWO), ShardPlanOptions(batch_size=8))
    assert not any(m.format for m in planned_moves(plain, graph))


def test_results_are_moved_before_the_output() -> None:
    graph = case("mlp").graph
    plan = make_plan(graph, TWO, device("cpu", TWO), ShardPlanOptions(batch_size=8), compare=False)
    found = drawn(plan, graph)
    output = next(n.id for n in graph if n.call == "output")
    assert {m.user for m in found.moved} <= {*graph.nodes, ""} and found.compared[0]["plan"] == "plan"
    assert all(m.user == output for m in found.moved if m.port == "data_in" and m.user not in plan.strategies)


@pytest.mark.parametrize(("strategy", "mesh"), [("megatron", "2"), ("fsdp", "2"), ("megatron", "2x2")])
def test_placements_of_a_graph_are_drawn_as_they_run(strategy: str, mesh: str) -> None:
    graph = sharded(case("bert").graph, strategy, mesh)
    moved, collectives = placed_moves(graph), list(resharding(graph))
    assert sum(m.bytes for m in moved) == sum(r.bytes for r in collectives) > 0
    assert sum(len(m.sent) for m in moved) == len(collectives)
    for move in moved:
        assert move.weight == "" or (move.user and not move.source)
        assert move.user or move.source
        assert move.before != move.after and len(move.before.split()) == len(mesh.split("x"))


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("strategy", ["megatron", "fsdp", "data", "auto"])
def test_the_cost_of_given_placements_is_that_of_their_plan(strategy: str, training: bool) -> None:
    """A graph with the placements of a plan costs what the plan costs."""
    graph, options = case("bert").graph, ShardPlanOptions(batch_size=8, training=training)
    cpu = device("cpu", TWO)
    plan = (
        make_plan(graph, TWO, cpu, options, compare=False)
        if strategy == "auto"
        else baseline(strategy, graph, TWO, cpu, options)
    )
    after = graph.replace(*(replace(n, sharding=plan.shardings[n.id]) for n in graph))
    found = placed(after, TWO, cpu, options)
    assert found is not None
    assert found.seconds == pytest.approx(plan.seconds) and found.memory == pytest.approx(plan.memory)
    assert found.bytes == plan.bytes and found.shardings == plan.shardings


def test_placements_of_no_strategy_have_no_cost() -> None:
    graph = sharded(case("mlp").graph, "data")
    node = next(n for n in graph if n.op == "linear")
    assert node.sharding is not None
    odd = Sharding((2,), {**node.sharding.ports, "data_in": ("S0",), "data_out": ("S1",)})
    after = graph.replace(replace(node, sharding=odd))
    assert placed(after, TWO, device("cpu", TWO), ShardPlanOptions(batch_size=8)) is None
