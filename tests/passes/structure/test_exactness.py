"""The analysis against the models themselves: what is masked as a unit is removed without a change."""

from __future__ import annotations

import numpy as np
import pytest

from espalier.model.graph.check import check
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Sparsity
from espalier.passes.base import Context
from espalier.passes.structure.axes import Kept
from espalier.passes.structure.masks import dead, masked
from espalier.passes.structure.removal import Removal
from espalier.passes.structure.sets import Structure, Units, structure_of
from espalier.passes.structure.shape_check import disagreement
from tests.model.zoo import Case, slow
from tests.passes.structure.cases import differ, named, shaken

LIKE = Sparsity("random", 0.5, "local", None, 0, "units")
ZOO = ("mlp", "bert", "gpt2", "attention", "image", "many", "tied")
SLOW_ZOO = ("bert-eager", "llama", "vit", "resnet", "swin", "t5", "mixtral", "distilbert", "roberta")
RANDOM = [*(f"text-{i}" for i in range(6)), *(f"picture-{i}" for i in range(5))]
MORE = [*(f"text-{i}" for i in range(6, 40)), *(f"picture-{i}" for i in range(5, 30))]


def some(held: Units, rng: np.random.Generator) -> Kept:
    """Some of the units, never all."""
    found = np.zeros(held.size, np.bool_)
    found[rng.choice(held.size, rng.integers(1, held.size), replace=False)] = True
    return found


def removed(structure: Structure, gone: dict[Units, Kept], held: Case) -> tuple[Graph, Graph]:
    """The masked graph, and the one without what its masks say."""
    graph, _ = masked(structure, gone, LIKE, held.store)
    again = structure_of(graph)
    left = {s.axis: dead(again, s, held.store) for s in again.sets if not s.blocked}
    return graph, Removal(again, {a: w for a, w in left.items() if w.any()}, held.store).run()


def exact(structure: Structure) -> list[Units]:
    return [s for s in structure.sets if not s.blocked and not s.norm]


def elements(graph: Graph) -> int:
    return sum(w.elements for w in graph.weights.values())


def holds(name: str) -> int:
    """Mask and remove at random, three times; returns how many units went."""
    held, count = named(name), 0
    graph, rng = shaken(held), np.random.default_rng(1)
    structure = structure_of(graph)
    free = exact(structure)
    for turn, share in enumerate((1.0, 0.5, 0.5)):
        gone = {s: some(s, rng) for s in free if rng.random() < share}
        before, after = removed(structure, gone, held)
        assert not [p for p in check(after) if p.severity == "error"]
        assert turn or disagreement(after, Context(held.store, callables=held.traced.callables)) is None
        assert differ(before, after, held) < 2e-5
        wanted = sum(int(w.sum()) for w in gone.values())
        assert wanted == 0 or elements(after) < elements(before)
        count += wanted
    return count


@pytest.mark.parametrize("name", [*ZOO, *(slow(n) for n in SLOW_ZOO)])
def test_of_the_zoo(name: str) -> None:
    assert (holds(name) > 0) == (name not in ("many", "tied"))


@pytest.mark.sampled(0.3)
@pytest.mark.parametrize("name", [*RANDOM, *(pytest.param(n, marks=pytest.mark.slow) for n in MORE)])
def test_of_random_architectures(name: str) -> None:
    assert holds(name) > 0


@pytest.mark.parametrize("name", ["bert", "gpt2", "attention", "text-1", "picture-1", "image"])
def test_a_unit_too_few_in_the_mask_is_not_removed(name: str) -> None:
    """Where one layer that takes a unit in still reads it, it is alive."""
    held = named(name)
    structure = structure_of(shaken(held))
    for unit in exact(structure)[:3]:
        which = np.zeros(unit.size, np.bool_)
        which[0] = True
        graph, _ = masked(structure, {unit: which}, LIKE, held.store)
        taking = next(m for m in unit.members if m.role == "columns" and graph.nodes[m.node].sparsity)
        bare = graph.replace(_bare(graph, taking.node))
        again = structure_of(bare)
        same = next(s for s in again.sets if [m.node for m in s.members] == [m.node for m in unit.members]
                    and s.size == unit.size)  # fmt: skip
        assert not dead(again, same, held.store)[0]


def _bare(graph: Graph, node: str):
    from dataclasses import replace

    return replace(graph.nodes[node], sparsity={})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "gpt2", "text-0", "text-3"])
def test_a_width_is_removed_and_the_model_runs(name: str) -> None:
    held = named(name)
    structure = structure_of(shaken(held))
    width = next(s for s in structure.sets if s.kind == "width" and not s.blocked)
    which = np.arange(width.size) % 2 == 0
    _, after = removed(structure, {width: which}, held)
    assert disagreement(after, Context(held.store)) is None
    assert next(s for s in structure_of(after).sets if s.kind == "width").size == width.size // 2
    assert differ(after, after, held) == 0.0


def test_the_check_sees_a_wrong_size() -> None:
    """A literal that was not written anew is named by its node."""
    from dataclasses import replace

    held = named("bert")
    structure = structure_of(shaken(held))
    heads = next(s for s in structure.sets if s.kind == "heads")
    _, after = removed(structure, {heads: np.array([True, False])}, held)
    node = next(n for n in after if n.op == "view")
    wrong = after.replace(replace(node, args=(node.args[0], (*node.args[1][:2], 2, 8))))
    fault = disagreement(wrong, Context(held.store))
    assert fault is not None and fault.node == node.id
