"""Plans against enumeration, baselines, and what does not divide or fit."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import pytest
from torch import nn

from espalier.model.errors import OptionsError
from espalier.model.formats.integer import Integer
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Precision
from espalier.model.opening import open_any
from espalier.passes.allocation.plan import configured
from espalier.passes.allocation.solve import allocate
from espalier.passes.costs.base import cost
from espalier.passes.costs.limits import parse_budget
from espalier.passes.sharding.collectives import Collective
from espalier.passes.sharding.communication import communication
from espalier.passes.sharding.costs_of_nodes import Sizing
from espalier.passes.sharding.mesh import Device, Mesh
from espalier.passes.sharding.network import Network
from espalier.passes.sharding.options import ShardPlanOptions, memory_of, sizes_of
from espalier.passes.sharding.plan import BASELINES, Plan, baseline, make_plan
from espalier.passes.sharding.presets import PRESETS, measure_device
from espalier.passes.sharding.presets import device as preset
from tests.passes.allocation.cases import made_table
from tests.passes.sharding.cases import Convolutions, Odd, Pair, Residual, Tied, device, graph_of

SMALL = ShardPlanOptions(batch_size=4)
TRAINING = replace(SMALL, training=True)


def seconds_by_hand(moves: tuple[Collective, ...], on: Device) -> float:
    """Ring formulas, written out once more."""
    total = 0.0
    for c in moves:
        n, size = c.ranks, c.wire
        rounds, sent = {
            "all_reduce": (2 * n - 2, 2 * size / n * (n - 1)), "all_gather": (n - 1, size * (n - 1)),
            "reduce_scatter": (n - 1, size / n * (n - 1)), "all_to_all": (n - 1, size / n * (n - 1)),
        }[c.kind]  # fmt: skip
        total += rounds * on.latency[c.axis] + sent / on.rate[c.axis]
    return total


def enumerated(graph: Graph, mesh: Mesh, on: Device, options: ShardPlanOptions) -> tuple[float, int]:
    """(the least time of all assignments of strategies that fit, their number), added up tensor by tensor."""
    network = Network(Sizing(graph, mesh, on, options, sizes_of(options, graph)), folded=False)
    pairs: dict[tuple[int, int], dict[tuple[int, int], float]] = {}
    for link, _, _ in network.instances:
        source, user = network.units[link.source], network.units[link.user]
        table = pairs.setdefault((link.source, link.user), {})
        for i, j in itertools.product(range(len(source.states)), range(len(user.states))):
            given, wanted = source.gives(source.states[i], link.out)
            taken, arising = user.takes(user.states[j], link.port)
            cost = link.times * seconds_by_hand(network.forward(link, given, taken), on)
            cost += seconds_by_hand(network.backward(link, arising, wanted), on)
            if any(a[0] == "S" and b == "P" for a, b in zip(given, taken, strict=True)):
                cost = math.inf
            if link.backward and any(a[0] == "S" and b == "P" for a, b in zip(arising, wanted, strict=True)):
                cost = math.inf
            table[i, j] = table.get((i, j), 0.0) + cost
    ends: list[list[tuple[int, int]]] = [[p for p in pairs if max(p) == u] for u in range(len(network.units))]
    best, count = math.inf, 0

    def assign(chosen: list[int], spent: float, held: float, peak: float) -> None:
        nonlocal best, count
        if held + peak > on.memory or spent >= best:
            return
        number = len(chosen)
        if number == len(network.units):
            best = spent
            return
        unit = network.units[number]
        for state in range(len(unit.states)):
            count += 1
            chosen.append(state)
            more = sum(pairs[a, b][chosen[a], chosen[b]] for a, b in ends[number])
            assign(chosen, spent + float(unit.seconds[state]) + more, held + float(unit.memory[state]),
                   max(peak, float(unit.peak[state])))  # fmt: skip
            chosen.pop()

    assign([], 0.0, 0.0, 0.0)
    return best, count


@pytest.mark.parametrize("options", [SMALL, TRAINING], ids=["forward", "training"])
@pytest.mark.parametrize(
    ("kind", "shape"),
    [(Pair, (2,)), (Residual, (2,)), (Tied, (2,)), (Odd, (3,)), (Residual, (2, 2))],
    ids=["pair", "residual", "tied", "odd", "residual 2x2"],
)
def test_equal_to_enumeration(kind: type[nn.Module], shape: tuple[int, ...], options: ShardPlanOptions) -> None:
    """All strategies of all nodes, weights and shared tensors of small networks."""
    graph, mesh = graph_of(kind), Mesh(shape)
    options = replace(options, batch_size=3) if kind is Odd else options
    for rate in (1e5, 1e8):
        on = device(mesh, rate=rate)
        expected, count = enumerated(graph, mesh, on, options)
        plan = make_plan(graph, mesh, on, options, compare=False, folded=False)
        assert plan.seconds == pytest.approx(expected, rel=1e-6)
        assert count > 20


@pytest.mark.parametrize("options", [SMALL, TRAINING], ids=["forward", "training"])
@pytest.mark.parametrize("kind", [Pair, Residual, Tied])
def test_equal_to_enumeration_within_memory(kind: type[nn.Module], options: ShardPlanOptions) -> None:
    """Limits between the least memory and what the quickest plan takes."""
    graph, mesh = graph_of(kind), Mesh((2,))
    options = replace(options, batch_size=256 if options.training else 4)  # enough to split the batch, not the weights
    on = device(mesh, rate=1e5)
    free = make_plan(graph, mesh, on, options, compare=False, folded=False)
    tight = 0
    for share in (0.6, 0.75, 0.9, 0.97, 0.99):
        less = replace(on, memory=free.memory * share)
        expected, _ = enumerated(graph, mesh, less, options)
        if math.isinf(expected):
            with pytest.raises(OptionsError, match="needs at least"):
                make_plan(graph, mesh, less, options, compare=False, folded=False)
            continue
        plan = make_plan(graph, mesh, less, options, compare=False, folded=False)
        assert plan.seconds == pytest.approx(expected, rel=1e-6)
        assert plan.memory <= less.memory * (1 + 1e-6)
        tight += 1
    assert tight or (kind is Tied and options.training)  # where the quickest plan is the smallest


@pytest.mark.parametrize("options", [SMALL, TRAINING], ids=["forward", "training"])
@pytest.mark.parametrize("kind", [Pair, Residual, Tied, Convolutions])
@pytest.mark.parametrize("shape", [(2,), (4,), (2, 2), (1, 2)])
def test_never_dearer_than_a_baseline(kind: type[nn.Module], shape: tuple[int, ...], options: ShardPlanOptions) -> None:
    """Of those that fit."""
    mesh = Mesh(shape)
    for rate in (1e4, 1e6, 1e9):
        plan = make_plan(graph_of(kind), mesh, device(mesh, rate=rate), options)
        assert list(plan.baselines) == list(BASELINES)
        others = [b for b in plan.baselines.values() if isinstance(b, Plan)]
        assert len(others) >= 3
        assert all(plan.seconds <= b.seconds * (1 + 1e-9) for b in others)
        assert plan.seconds >= plan.bound * (1 - 1e-9)


def test_megatron_by_hand() -> None:
    """x whole, up by columns, down by rows, one all-reduce of 4 × 8 floats forward and one backward."""
    graph, mesh = graph_of(Pair), Mesh((2,))
    plan = baseline("megatron", graph, mesh, device(mesh), TRAINING)
    up, act, down = (plan.shardings[n].ports for n in ("up", "act", "down"))
    assert (up["data_in"], up["weight"], up["bias"], up["data_out"]) == (("R",), ("S0",), ("S0",), ("S1",))
    assert (act["data_in"], act["data_out"]) == (("S1",), ("S1",))
    assert (down["weight"], down["bias"], down["data_out"]) == (("S1",), ("R",), ("P",))
    sums = [c for m in plan.moves for c in m.collectives]
    assert {c.kind for c in sums} <= {"all_reduce", "reduce_scatter", "all_gather"}
    assert sum(c.bytes for m in plan.moves for c in m.forward if not m.stored) == 4 * 8 * 4


def test_data_parallel_by_hand() -> None:
    """Gradients of all weights are reduced once: 4 bytes × (8·16 + 16 + 16·8 + 8)."""
    graph, mesh = graph_of(Pair), Mesh((2,))
    plan = baseline("data", graph, mesh, device(mesh), TRAINING)
    assert plan.shardings["x"].ports["data_out"] == ("S0",)
    assert plan.bytes == 4 * (8 * 16 + 16 + 16 * 8 + 8)
    assert plan.state == (4 + 4 + 8) * (8 * 16 + 16 + 16 * 8 + 8)
    fsdp = baseline("fsdp", graph, mesh, device(mesh), TRAINING)
    assert fsdp.state == plan.state / 2
    assert fsdp.bytes == 2 * plan.bytes  # half a weight gathered twice, a whole gradient reduced and scattered


def test_replicated_moves_nothing() -> None:
    """Each rank does all."""
    graph, mesh = graph_of(Pair), Mesh((2, 2))
    plan = baseline("replicated", graph, mesh, device(mesh), TRAINING)
    assert (plan.bytes, plan.communication) == (0, 0.0)
    assert set(plan.strategies.values()) == {"replicated"}


def test_tied_weights_lie_once() -> None:
    """An embedding and a head with one weight have one placement of it."""
    graph, mesh = graph_of(Tied), Mesh((2,))
    for name in ("fsdp", "megatron"):
        plan = baseline(name, graph, mesh, device(mesh), TRAINING)
        assert plan.shardings["embed"].ports["weight"] == plan.shardings["head"].ports["weight"]
        assert plan.state == pytest.approx(16 * 12 * 4 / 2)


def test_formats_move_fewer_bytes() -> None:
    """A weight of 4 bits that is gathered, and inputs of 8 bits."""
    graph, mesh = graph_of(Pair), Mesh((2,))
    quick = {"weight": Precision(Integer(4, 2)), "data_in": Precision(Integer(8, 4))}
    graph = graph.replace(*(replace(graph.nodes[n], precision=quick) for n in ("up", "down")))
    plan = baseline("fsdp", graph, mesh, device(mesh), SMALL)
    weights = [m for m in plan.moves if m.source.endswith("weight")]
    assert sum(m.bytes for m in weights) == 4 * 2 * 8 * 16 / 2
    assert sum(m.wire for m in weights) == 2 * 8 * 16 / 2 / 2
    plain = baseline("fsdp", graph, mesh, device(mesh), replace(SMALL, formats=False))
    assert plain.wire == plain.bytes == plan.bytes
    assert plan.communication < plain.communication
    assert plan.state < plain.state


def test_a_batch_norm_in_training_is_synchronised() -> None:
    """Two all-reduces of two statistics of 8 channels cost time where the batch is split."""
    graph, mesh = graph_of(Convolutions), Mesh((2,))
    forward, training = (baseline("data", graph, mesh, device(mesh, rate=1.0), o) for o in (SMALL, TRAINING))
    assert training.node_seconds["norm"] - forward.node_seconds["norm"] > 2 * 2 * 4 * 8 / 1.0 * 0.9


def test_a_mesh_that_divides_nothing() -> None:
    """The sizes that would."""
    graph, mesh = graph_of(Pair), Mesh((5,))
    with pytest.raises(OptionsError, match="axis of 5 devices divides no width") as caught:
        make_plan(graph, mesh, device(mesh), SMALL)
    assert "2, 4, 8 devices" in (caught.value.hint or "")
    with pytest.raises(OptionsError, match="megatron splits nothing"):
        baseline("megatron", graph, mesh, device(mesh), replace(SMALL, batch_size=5))


def test_a_model_that_does_not_fit() -> None:
    """How many devices would do."""
    graph, mesh = graph_of(Pair), Mesh((2,))
    need = make_plan(graph, mesh, device(mesh), TRAINING, compare=False)
    with pytest.raises(OptionsError, match="of each of 2 devices") as caught:
        make_plan(graph, mesh, device(mesh, memory=need.memory * 0.3), TRAINING)
    assert "devices) would do" in (caught.value.hint or "")


def test_presets_name_their_source() -> None:
    """And links by machine: 8 devices share NVLink."""
    assert all(p.source for p in PRESETS.values())
    wide = preset("h100", Mesh((8, 8)))
    assert wide.rate[0] < wide.rate[1]
    assert wide.latency[0] > wide.latency[1]
    assert preset("h100", Mesh((2, 2))).rate[0] == preset("h100", Mesh((2, 2))).rate[1]
    with pytest.raises(OptionsError, match="no device 'h10'"):
        preset("h10", Mesh((2,)))


def test_rates_of_the_links_are_given() -> None:
    mesh = Mesh((2, 4))
    given = preset("h100", mesh, rates="10e9, 100e9")
    assert given.rate == (10e9, 100e9) and given.latency == preset("h100", mesh).latency
    assert "given" in given.source
    for wrong in ("10e9", "a,b", "0,1", "-1,1", "inf,1", "nan,1"):
        with pytest.raises(OptionsError, match="2 axes"):
            preset("h100", mesh, rates=wrong)


def test_this_machine_is_measured() -> None:
    """FLOP/s and bytes/s of this machine, within what machines do."""
    found = measure_device(Mesh((2,)), size=256, seconds=0.05)
    assert 1e8 < found.flops < 1e14
    assert 1e8 < found.bandwidth < 1e13
    assert "measured" in found.source


@pytest.mark.parametrize(("text", "size"), [("16GiB", 16 * 2**30), ("80 GB", 80e9), ("4096", 4096), ("1.5k", 1500)])
def test_amounts(text: str, size: float) -> None:
    """Decimal and binary units."""
    assert memory_of(text) == size


@pytest.mark.parametrize("text", ["", "much", "0", "-3GB", "3 XB"])
def test_no_amounts(text: str) -> None:
    """What is no amount."""
    with pytest.raises(OptionsError):
        memory_of(text)


def opened(tmp_path: Any, spec: str) -> Graph:
    """The graph of a source."""
    return open_any(spec, tmp_path).project.graph


@pytest.mark.slow
def test_blocks_share_their_decisions(tmp_path: Any) -> None:
    """Four layers are planned as one: as many decisions as of two, and the same strategy in each."""
    sizes = "hidden_size=32&num_attention_heads=4&intermediate_size=64&vocab_size=64&weights=none"
    two, four = (opened(tmp_path / str(n), f"config:bert?{sizes}&num_hidden_layers={n}") for n in (2, 4))
    mesh = Mesh((2, 2))
    plans = [make_plan(g, mesh, device(mesh), SMALL) for g in (two, four)]
    assert plans[0].units == plans[1].units
    layers = {plans[1].strategies[f"encoder_layer_{i}_intermediate_dense"] for i in range(4)}
    assert len(layers) == 1
    plan = plans[1]
    assert all(plan.seconds <= b.seconds * (1 + 1e-9) for b in plan.baselines.values() if isinstance(b, Plan))
    assert set(plan.shardings) == set(four.nodes)
    assert all(len(p) == 2 for s in plan.shardings.values() for p in s.ports.values())


def sharded(graph: Graph, plan: Plan) -> Graph:
    """The graph with a plan's placements."""
    return graph.replace(*(replace(n, sharding=plan.shardings[n.id]) for n in graph))


def test_communication_is_a_cost() -> None:
    """What ranks send, as the plan counts it; codes where a port has a format."""
    graph, mesh = graph_of(Pair), Mesh((2,))
    options = replace(SMALL, batch_size=graph.symbols["batch"])
    assert math.isnan(communication(graph))
    for name in ("fsdp", "megatron"):
        plan = baseline(name, graph, mesh, device(mesh), options)
        inner = [c for m in plan.moves for c in m.forward]
        assert communication(sharded(graph, plan)) == sum(c.sent() for c in inner) > 0
    fsdp = baseline("fsdp", graph, mesh, device(mesh), options)
    quick = replace(graph.nodes["up"], precision={"weight": Precision(Integer(4, 2))})
    before, after = sharded(graph, fsdp), sharded(graph.replace(quick), fsdp)
    assert communication(before) - communication(after) == (32 - 4) / 8 * 8 * 16 / 2
    shares = cost("communication").shares
    assert shares is not None
    assert shares.node is not None
    assert sum(shares.node(n, after) for n in after) == communication(after)


def test_an_allocation_spares_the_links() -> None:
    """Under a budget of communication, gathered weights get few bits."""
    graph, mesh = graph_of(Pair), Mesh((2,))
    options = replace(SMALL, batch_size=graph.symbols["batch"])
    graph = sharded(graph, baseline("fsdp", graph, mesh, device(mesh), options))
    budget = communication(graph) / 4
    rows = made_table(graph)
    found = allocate(graph, rows, [parse_budget(f"communication<={budget}")])
    after = configured(graph, found.chosen)
    assert communication(after) <= budget
    assert {p for _, p in found.chosen} == {"weight"}
