"""Allocation on real graphs: budgets hold in the true score, recipes give what was planned, refusals name the least."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from espalier.model.document.recipe import Recipe
from espalier.model.errors import OptionsError
from espalier.model.graph.graph import Graph
from espalier.model.graph.ops import decomposable
from espalier.model.opening import Opened, open_any
from espalier.model.trust import Origin
from espalier.passes.allocation.decisions import column
from espalier.passes.allocation.plan import configured, steps
from espalier.passes.allocation.solve import Competing, allocate, front, problem_of
from espalier.passes.base import Context
from espalier.passes.costs.base import figures
from espalier.passes.costs.limits import Limit, parse_budget
from espalier.passes.recipes.config import load_recipe, recipe_to_dict
from espalier.passes.recipes.replay import replay
from espalier.passes.score import static_score
from espalier.passes.sensitivity.combined import CombinedDivergences, packed
from espalier.passes.sensitivity.table import Candidate, Sensitivity
from tests.passes.allocation.cases import fitted, made_table

SPEC = (
    "config:bert?num_hidden_layers=2&hidden_size=32&num_attention_heads=2&intermediate_size=64&vocab_size=60"
    "&max_position_embeddings=32"
)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return open_any(f"{SPEC}&task=sequence-classification", tmp_path_factory.mktemp("bert"), origin=Origin.TYPED)


@pytest.fixture(scope="module")
def graph(opened: Opened) -> Graph:
    return opened.project.graph


BUDGETS = [
    ("weight_bits<=12",),
    ("size_bytes<=50KiB",),
    ("size_bytes<=80KiB",),
    ("activation_bits<=12",),
    ("bitops<=130M",),
    ("memory_density>=2.2",),
    ("sparsity>=0.4",),
    ("weight_bits<=14", "activation_bits<=10"),
    ("bitops<=150M", "size_bytes<=90KiB", "sparsity>=0.2"),
]


@pytest.mark.slow
@pytest.mark.parametrize("budgets", BUDGETS, ids=" ".join)
def test_budgets_hold_in_the_true_score(opened: Opened, budgets: tuple[str, ...]) -> None:
    graph, limits = opened.project.graph, [parse_budget(b) for b in budgets]
    table = made_table(graph, ("weight", "data_in"), sparsities=(0.3, 0.5, 0.8))
    found = allocate(graph, table, limits)
    ports = {"weight": "weight" in {p for _, p in found.chosen}, "data_in": "data_in" in {p for _, p in found.chosen}}
    flowing = any(limit.figure in ("activation_bits", "bitops") for limit in limits)
    stored = any(limit.figure != "activation_bits" for limit in limits)
    assert ports == {"weight": stored, "data_in": flowing}, "what no budget looks at stays as it is"
    assert set(found.chosen) == {(r.node, r.port) for r in table if ports[r.port]} and found.predicted > 0
    recipe = Recipe(steps(graph, found.chosen))
    after = replay(graph, recipe, Context(opened.store)).graph
    true = figures(after, static_score(after))
    for limit in limits:
        assert limit.violation(true[limit.figure]) <= 1e-9, "what the recipe really gives holds the budget"
    assert min(abs(limit.violation(true[limit.figure])) for limit in limits) < 0.12, "and most of a budget is used"
    assert {k: true[k] for k in ("weight_bits", "activation_bits", "bitops", "sparsity")} == pytest.approx(
        {k: found.figures[k] for k in ("weight_bits", "activation_bits", "bitops", "sparsity")})  # fmt: skip
    assert len(recipe) <= 2 and recipe.steps[-1].pass_name in ("quantize", "prune")
    assert load_recipe(recipe_to_dict(recipe)) == recipe


@pytest.mark.slow
def test_fitted_parameters_and_sparsities_arrive(opened: Opened) -> None:
    graph = opened.project.graph
    table = made_table(graph, sparsities=(0.25, 0.5))
    chosen = {(r.node, "weight"): r.candidates[i % len(r.candidates)] for i, r in enumerate(table)}
    after = replay(graph, Recipe(steps(graph, chosen)), Context(opened.store)).graph
    for (node, port), wanted in chosen.items():
        held = after[node].precision.get(port)
        assert (held.format if held else None) == wanted.format
        assert after[node].sparsity["weight"].ratio == wanted.sparsity if wanted.sparsity else not after[node].sparsity


def test_float_takes_a_format_away(opened: Opened) -> None:
    graph = opened.project.graph
    node = next(n.id for n in graph if n.op == "linear")
    formatted = configured(graph, {(node, "weight"): Candidate(fitted(4))})
    made = steps(formatted, {(node, "weight"): Candidate()})
    after = replay(formatted, Recipe(made), Context(opened.store)).graph
    assert not after[node].precision
    assert steps(graph, {(node, "weight"): Candidate()}) == (), "nothing is said of what is float already"


def test_the_least_possible_is_told(graph: Graph) -> None:
    table = made_table(graph)
    least = front(graph, table, "weight_bits", 2)[0].figure
    with pytest.raises(OptionsError) as caught:
        allocate(graph, table, [parse_budget("weight_bits<=1")])
    assert f"the least possible is {least:.6g} bits" in caught.value.message
    with pytest.raises(OptionsError, match="No candidate changes sparsity"):
        allocate(graph, table, [parse_budget("sparsity>=0.1")])
    both = [parse_budget("weight_bits<=40"), parse_budget("size_bytes<=1")]
    with pytest.raises(OptionsError, match="size_bytes<=1 cannot be held"):
        allocate(graph, table, both)


def test_budgets_that_fight_are_told_together(graph: Graph) -> None:
    """Pruning alone makes zeros and quantising alone takes few bits, so both at once are impossible here."""
    table = made_table(graph, sparsities=(0.5,))
    limits = [parse_budget("sparsity>=0.45"), parse_budget("weight_bits<=12")]
    for limit in limits:
        allocate(graph, table, [limit])
    with pytest.raises(OptionsError, match=r"the least possible under sparsity>=0.45 is"):
        allocate(graph, table, limits)


def test_a_tighter_budget_of_one_cost_holds_for_both(graph: Graph) -> None:
    limits = [parse_budget("weight_bits<=14"), parse_budget("weight_bits<=12")]
    assert allocate(graph, made_table(graph), limits).figures["weight_bits"] <= 12


def test_a_front_falls_and_its_points_are_what_they_say(graph: Graph) -> None:
    table = made_table(graph, ("weight", "data_in"))
    for name in ("weight_bits", "bitops", "activation_bits"):
        found = front(graph, table, name, 16)
        assert 8 <= len(found) <= 16 and found[-1].predicted == 0
        assert sorted(found, key=lambda p: p.figure) == sorted(found, key=lambda p: -p.predicted)
        for point in (found[0], found[len(found) // 2]):
            after = configured(graph, point.chosen)
            assert point.figure == pytest.approx(figures(after, static_score(after))[name], rel=1e-9)


def test_only_what_competes_is_chosen(graph: Graph) -> None:
    table = made_table(graph, ("weight", "data_in"), (2, 4, 8), (0.5,))
    four = column(Candidate(fitted(4)))
    limit = [parse_budget("weight_bits<=16")]
    found = allocate(graph, table, limit, Competing((four,), whole=True, ports=("weight",)))
    assert {p for _, p in found.chosen} == {"weight"}
    assert {column(c) for c in found.chosen.values()} == {four, column(Candidate())}
    whole = allocate(graph, table, limit, Competing((four,), whole=False))
    assert {column(c) for c in whole.chosen.values()} == {four}
    with pytest.raises(OptionsError, match="No candidate fits"):
        allocate(graph, table, limit, Competing((column(Candidate(fitted(5))),), whole=False))


def test_tied_nodes_take_the_same(graph: Graph) -> None:
    table = made_table(graph)
    linears = [r.node for r in table]
    ties = (tuple(linears[:4]), tuple(linears[4:8]))
    found = allocate(graph, table, [parse_budget("weight_bits<=13")], Competing(tied=ties))
    for tie in ties:
        assert len({column(found.chosen[n, "weight"]) for n in tie}) == 1
    assert len({column(c) for c in found.chosen.values()}) > 1
    with pytest.raises(OptionsError, match="no node 'nobody'"):
        allocate(graph, table, [parse_budget("weight_bits<=13")], Competing(tied=(("nobody",),)))


def test_a_measured_figure_stands_above_a_predicted_one(graph: Graph) -> None:
    table = made_table(graph, widths=(3, 8))
    limit = [parse_budget("weight_bits<=9")]
    first = allocate(graph, table, limit)
    low = next(r for r in table if first.chosen[r.node, r.port].format == r.candidates[0].format)
    worse = replace(low, measured=(9.0, None))
    again = allocate(graph, [worse if r is low else r for r in table], limit)
    assert again.chosen[low.node, low.port].format != low.candidates[0].format


def test_what_breaks_the_outputs_is_no_choice(graph: Graph) -> None:
    table = [replace(r, predicted=(float("nan"), *r.predicted[1:])) for r in made_table(graph)]
    found = allocate(graph, table, [parse_budget("weight_bits<=13")])
    assert all(c.format != r.candidates[0].format for r, c in zip(table, found.chosen.values(), strict=True))


def test_a_shared_weight_is_decided_once(tmp_path: Path) -> None:
    path = tmp_path / "tied.py"
    path.write_text(
        "import torch\n"
        "class Tied(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.a = torch.nn.Linear(32, 32)\n        self.b = torch.nn.Linear(32, 32)\n"
        "        self.c = torch.nn.Linear(32, 32)\n        self.b.weight = self.a.weight\n"
        "    def forward(self, x):\n        return self.c(self.b(self.a(x)))\n"
        "def make():\n    return Tied(), {'x': torch.ones(2, 32)}\n"
    )
    graph = open_any(f"{path}:make", tmp_path / "work", origin=Origin.TYPED).project.graph
    table = made_table(graph)
    problem = problem_of(graph, table, ["weight_bits"])
    assert [len(s.places) for g in problem.groups for s in g.slots] == [2, 1]
    for text in ("weight_bits<=8", "weight_bits<=6", "size_bytes<=3KiB"):
        found = allocate(graph, table, [parse_budget(text)])
        assert column(found.chosen["a", "weight"]) == column(found.chosen["b", "weight"])


def test_an_attention_is_planned_as_its_matmuls_are(opened: Opened) -> None:
    graph = opened.project.graph
    attention = next(n for n in graph if decomposable(n))
    kl = tuple(1e-3 * 4.0**-w for w in (2, 4, 8))
    candidates = tuple(Candidate(fitted(w)) for w in (2, 4, 8))
    table = [Sensitivity(attention.id, p, 1, candidates, kl, kl, (None,) * 3) for p in ("data_in", "weight")]
    limit = parse_budget("activation_bits<=31")
    found = allocate(graph, table, [limit], Competing(whole=False))
    after = replay(graph, Recipe(steps(graph, found.chosen)), Context(opened.store)).graph
    assert attention.id not in after.nodes
    assert static_score(after).activation_bits == pytest.approx(found.figures["activation_bits"])


def test_a_table_of_another_model_is_told(graph: Graph) -> None:
    table = [replace(r, node="nobody") for r in made_table(graph)]
    with pytest.raises(OptionsError, match="no sensitivities"):
        allocate(graph, table, [parse_budget("weight_bits<=4")])


def test_ports_that_no_budget_looks_at_take_what_changes_least(graph: Graph) -> None:
    """As biases under a budget of tables: asked for, and float is no choice."""
    table, limits = made_table(graph, ("data_in", "bias")), [parse_budget("activation_bits<=12")]
    ports = ("data_in", "bias")
    found = allocate(graph, table, limits, Competing(whole=False, ports=ports))
    biases = {n: c for (n, p), c in found.chosen.items() if p == "bias"}
    assert biases.keys() == {r.node for r in table} and found.figures["activation_bits"] <= 12
    for row in (r for r in table if r.port == "bias"):
        assert biases[row.node] is row.candidates[row.known.index(min(row.known))]
    alone = allocate(graph, table, limits, Competing(whole=False, ports=("data_in",)))
    assert found.predicted >= alone.predicted and not any(p == "bias" for _, p in alone.chosen)
    free = allocate(graph, table, limits, Competing(ports=ports))
    assert not any(p == "bias" for _, p in free.chosen), "where float competes it is the best"


def _cancelling(rows: tuple[Sensitivity, ...]) -> tuple[Sensitivity, ...]:
    """The errors of every other layer undo those of the others."""
    unit = np.full(32, (2 / 32) ** 0.5)
    return tuple(replace(r, along=tuple(packed(kl, unit * kl**0.5 * (-1) ** i) for kl in r.predicted))
                 for i, r in enumerate(rows))  # fmt: skip


def test_a_front_falls_also_as_a_whole(graph: Graph) -> None:
    table = _cancelling(made_table(graph))
    tell = CombinedDivergences(table).of
    sums = [tell(p.chosen) for p in front(graph, table, "weight_bits", 64)]
    assert any(b > a for a, b in itertools.pairwise(sums)), "where errors cancel, more bits may be worse"
    kept = [(p.figure, tell(p.chosen)) for p in front(graph, table, "weight_bits", 64, tell=tell)]
    assert len(kept) > 3 and all(a[0] < b[0] and a[1] > b[1] for a, b in itertools.pairwise(kept))


@pytest.mark.slow
def test_a_budget_takes_what_is_best_as_a_whole(graph: Graph) -> None:
    table = _cancelling(made_table(graph))
    tell = CombinedDivergences(table).of
    points = [(p.figure, tell(p.chosen)) for p in front(graph, table, "weight_bits", 64, tell=tell)]
    gained = False
    for bits in np.linspace(points[0][0], points[-1][0], 24):
        limit = Limit("weight_bits", "<=", float(bits))
        summed, whole = allocate(graph, table, [limit]), allocate(graph, table, [limit], tell=tell)
        assert limit.violation(whole.figures["weight_bits"]) <= 1e-9
        assert tell(whole.chosen) <= min(tell(summed.chosen), *(k for c, k in points if c <= bits))
        gained |= tell(whole.chosen) < tell(summed.chosen)
    assert gained
