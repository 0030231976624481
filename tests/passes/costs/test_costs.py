"""Costs: they agree with the score, their shares add up to them, and a plug-in's file adds one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from espalier.model.errors import OptionsError, RegistryError
from espalier.model.formats.base import parse_format
from espalier.model.graph.graph import Graph
from espalier.model.opening import open_any
from espalier.model.packed.layout import users_of
from espalier.model.trust import Origin
from espalier.passes.base import Context, run_step
from espalier.passes.costs.base import COSTS, Cost, cost, figures, separable, table, with_candidates
from espalier.passes.costs.limits import Limit, parse_budget, parse_limit, violations
from espalier.passes.plugins.plugins import load_plugin, unload_plugins
from espalier.passes.score import static_score
from espalier.passes.sensitivity.table import Candidate
from tests.passes.costs.cases import mixed

FORMATS = ("integer(width=3, frac_width=2)", "mxint(width=4)", "scaled_integer(width=8)")


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    spec = "config:bert?num_hidden_layers=1&hidden_size=32&num_attention_heads=2&intermediate_size=64&vocab_size=50"
    return open_any(
        f"{spec}&task=sequence-classification", tmp_path_factory.mktemp("bert"), origin=Origin.TYPED
    ).project.graph


def total(of: Cost, graph: Graph) -> float:
    """The cost as the sum of its shares says it."""
    shares = of.shares
    assert shares is not None
    users = users_of(graph)
    added = sum(shares.node(n, graph) for n in graph) if shares.node else 0.0
    added += sum(shares.weight(k, w, users[k]) for k, w in graph.weights.items()) if shares.weight else 0.0
    return shares.figure(added, graph)


@pytest.mark.slow
def test_costs_are_the_figures_of_the_score(graph: Graph) -> None:
    after = mixed(graph)
    score = static_score(after)
    found = figures(after, score)
    assert found["parameters"] == sum(w.elements for w in after.weights.values() if w.role == "parameter")
    for name in ("weight_bits", "activation_bits", "size_bytes", "bitops", "memory_density", "sparsity"):
        assert found[name] == getattr(score, name)
    assert "latency" not in found, "it has to be measured"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["weight_bits", "activation_bits", "bitops", "memory_density", "sparsity"])
def test_shares_add_up(graph: Graph, name: str) -> None:
    for state in (graph, mixed(graph)):
        found = cost(name).of
        assert found is not None
        assert total(cost(name), state) == pytest.approx(found(state, static_score(state)), rel=1e-12)


def test_shares_of_the_size_are_near(graph: Graph) -> None:
    after = mixed(graph)
    added = total(cost("size_bytes"), after)
    assert added <= static_score(after).size_bytes <= added + 20_000, "what they lack is the compressed graph"


def test_amount_and_figure_are_inverse(graph: Graph) -> None:
    for each in separable():
        assert each.shares is not None
        assert each.shares.figure(each.shares.amount(0.7, graph), graph) == pytest.approx(0.7)


def test_a_grid_is_what_one_by_one_gives(graph: Graph) -> None:
    shares = cost("bitops").shares
    assert shares is not None and shares.node is not None
    node = next(n for n in graph if n.op == "linear")
    candidates = [[Candidate(), *(Candidate(parse_format(f)) for f in FORMATS)]] * 2
    found = table(shares, node, graph, ("data_in", "weight"), candidates)
    for i, a in enumerate(candidates[0]):
        for j, b in enumerate(candidates[1]):
            alone = shares.node(with_candidates(node, {"data_in": a, "weight": b}), graph)
            assert found[i, j] == pytest.approx(alone, rel=1e-12)


def test_latency_is_measured(tmp_path: Path) -> None:
    from espalier.passes.running.splits import EvaluateOptions

    opened = open_any("demo:digits-mlp", tmp_path)
    measure = cost("latency").measure
    assert measure is not None and cost("latency").of is None
    context = Context(opened.store)
    graph = opened.project.graph
    few = measure(graph, EvaluateOptions("demo:digits", batch_size=1), context)
    many = measure(graph, EvaluateOptions("demo:digits", batch_size=256), context)
    assert 0 < few < many < 5


# -- limits


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("weight_bits<=4.5", Limit("weight_bits", "<=", 4.5)),
        (" size_bytes ≤ 1.5 MiB ", Limit("size_bytes", "<=", 1.5 * 2**20)),
        ("sparsity>=50%", Limit("sparsity", ">=", 0.5)),
        ("bitops<2.5G", Limit("bitops", "<=", 2.5e9)),
        ("accuracy>0.9", Limit("accuracy", ">=", 0.9)),
        ("latency<=12ms", Limit("latency", "<=", 0.012)),
        ("parameters<=1e6", Limit("parameters", "<=", 1e6)),
    ],
)
def test_limits_are_read(text: str, limit: Limit) -> None:
    found = parse_limit(text)
    assert (found.figure, found.side) == (limit.figure, limit.side) and found.value == pytest.approx(limit.value)
    assert parse_limit(found.text) == found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("weight_bit<=4", "Did you mean 'weight_bits'?"),
        ("weight_bits", "weight_bits<=4.5"),
        ("weight_bits<=", "weight_bits<=4.5"),
        ("weight_bits=4", "exactly"),
        ("weight_bits<=4 furlongs", "no unit"),
        ("weight_bits<=4.5.1", "no number"),
        ("", "not a constraint"),
    ],
)
def test_what_is_no_limit_is_told(text: str, words: str) -> None:
    with pytest.raises(OptionsError) as caught:
        parse_limit(text)
    assert words in f"{caught.value.message} {caught.value.hint}"


def test_a_budget_is_a_sum_on_its_good_side() -> None:
    assert parse_budget("memory_density>=8").value == 8
    for text, words in (("weight_bits>=4", "Write weight_bits<=4"), ("sparsity<=0.5", "Write sparsity>=0.5"),
                        ("latency<=1ms", "not a sum over layers"), ("accuracy>=0.9", "not a sum")):  # fmt: skip
        with pytest.raises(OptionsError) as caught:
            parse_budget(text)
        assert words in f"{caught.value.message} {caught.value.hint}"


def test_violations_are_shares_of_the_limit() -> None:
    limits = [parse_limit("weight_bits<=4"), parse_limit("accuracy>=0.9"), parse_limit("loss<=1")]
    found = violations(limits, {"weight_bits": 5.0, "accuracy": 0.99})
    assert found["weight_bits<=4"] == pytest.approx(0.25) and found["accuracy>=0.9"] == pytest.approx(-0.1)
    assert found["loss<=1"] == math.inf, "what is not known is not held"


# -- a cost of a plug-in

PLUGIN = '''
"""Area: look-up tables of a multiplier, by the bits of both operands."""

from espalier.passes.costs.base import COSTS, Cost, Shares
from espalier.passes.score import one_sample, port_bits


def area(node, graph):
    if node.op != "linear":
        return 0.0
    sizes = one_sample(graph)
    return port_bits(node, "weight", sizes) * port_bits(node, "data_in", sizes)


COSTS.add("area", Cost("area", "Area", "LUT", "low", "look-up tables of one multiplier a layer",
                       lambda graph, score: sum(area(n, graph) for n in graph), Shares(area, ("data_in", "weight"))))
'''


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "area.py"
    path.write_text(PLUGIN)
    yield path
    unload_plugins()


def test_a_plug_in_adds_a_cost(plugin: Path, graph: Graph) -> None:
    assert load_plugin(plugin).costs == ("area",)
    found = figures(graph, static_score(graph))
    linears = sum(n.op == "linear" for n in graph)
    assert found["area"] == 32 * 32 * linears == total(cost("area"), graph)
    assert parse_budget("area<=100").value == 100
    unload_plugins()
    assert "area" not in COSTS
    with pytest.raises(OptionsError):
        parse_budget("area<=100")


def test_a_cost_does_not_take_the_name_of_another(tmp_path: Path) -> None:
    path = tmp_path / "twice.py"
    path.write_text(PLUGIN.replace('"area", Cost', '"bitops", Cost'))
    both = r"'bitops' is registered twice: by passes/costs/bitops.py:\d+ and by .*twice.py:\d+"
    with pytest.raises(RegistryError, match=both):
        load_plugin(path)
    assert cost("bitops").unit == "", "ours is untouched"


def test_the_planned_sparsity_is_what_pruning_gives(tmp_path: Path) -> None:
    from espalier.model.document.recipe import Step
    from espalier.passes.choices.prune import PruneOptions
    from espalier.passes.costs.base import with_candidate
    from espalier.passes.select import Select

    opened = open_any("demo:digits-mlp", tmp_path)
    graph = opened.project.graph
    node = next(n for n in graph if n.op == "linear")
    planned = static_score(graph.replace(with_candidate(node, "weight", Candidate(None, 0.37))))
    step = Step("prune", PruneOptions(0.37, select=Select("name", (node.id,))))
    pruned = static_score(run_step(graph, step, Context(opened.store)).graph)
    assert planned.sparsity == pruned.sparsity and planned.weight_bits == pruned.weight_bits
