"""What the units of a set are worth: by their weights, by the activations that reach them, or by the loss."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph
from espalier.passes.base import Context
from espalier.passes.choices.prune_structured import Score
from espalier.passes.structure.axes import Kept, numbers
from espalier.passes.structure.masks import maskable
from espalier.passes.structure.sets import Member, Structure, Units

if TYPE_CHECKING:
    from espalier.model.data.base import Split

WITH_DATA = ("taylor", "activation")
Values = NDArray[np.float64]
Scores = dict[Units, Values]


def scores(
    structure: Structure, sets: Sequence[Units], how: Score, split: Split | None, batch_size: int, context: Context
) -> Scores:
    """A number for each unit of each set; the smallest go first. Raises PassError for weights that are not finite."""
    if any(structure.graph.weights[m.weight].key is None for s in sets for m in s.members):
        raise PassError("The model was opened without weights, so no unit can be chosen.", "Open it with weights.")
    if how == "random":
        return {s: _random(s, context.seed) for s in sets}
    if how == "taylor":
        assert split is not None
        return _taylor(structure, sets, split, batch_size, context)
    if how == "activation":
        assert split is not None
        return _activation(structure, sets, split, batch_size, context)
    return {s: _magnitude(structure, s, how, context) for s in sets}


def _random(held: Units, seed: int) -> Values:
    name = f"{held.first.node}.{held.first.port}.{held.first.dim}"
    return np.random.default_rng([seed % 2**63, zlib.crc32(name.encode())]).random(held.size)


def once(members: Sequence[Member], graph: Graph) -> list[Member]:
    """Members that can be masked, each tensor once."""
    return list({(m.weight, m.dim): m for m in members if maskable(m, graph)}.values())


def per_unit(structure: Structure, held: Units, member: Member, values: NDArray[Any]) -> Values:
    """Sums of a tensor's elements over each unit's places in a member."""
    along = values.sum(axis=tuple(i for i in range(values.ndim) if i != member.dim), dtype=np.float64)
    unit = numbers(structure.dims(member), held.axis)
    found = np.zeros(held.size)
    np.add.at(found, unit[unit >= 0], along[unit >= 0])
    return found


def _magnitude(structure: Structure, held: Units, how: str, context: Context) -> Values:
    """Σ|w|, or √Σw², over all weights and biases that go with a unit (as DepGraph sums over a group)."""
    total = np.zeros(held.size)
    for member in once(held.members, structure.graph):
        key = structure.graph.weights[member.weight].key
        values = context.store.get(key or "").float32()
        total += per_unit(structure, held, member, np.abs(values) if how == "l1" else np.square(values))
    return _finite(np.sqrt(total) if how == "l2" else total, held)


def _finite(values: Values, held: Units) -> Values:
    if not np.isfinite(values).all():
        raise PassError(f"The weights around {held.first.node} are not finite.", "Load a sound checkpoint.",
                        held.first.node)  # fmt: skip
    return values


# -- by data


def _deciding(structure: Structure, held: Units) -> list[Member]:
    """The weights that take a unit in, through which all of it flows; where there is none, those that give it."""
    found = [m for m in once(held.members, structure.graph) if m.role == "columns"]
    return found or [m for m in once(held.members, structure.graph) if m.role == "rows"]


def _activation(structure: Structure, sets: Sequence[Units], split: Split, batch_size: int, context: Context) -> Scores:
    """Σ |w|·‖x‖ over the weights that take a unit in (Wanda, Sun et al. 2023, arXiv:2306.11695, summed by unit)."""
    from espalier.passes.pruning.inputs import energies

    graph = structure.graph
    deciding = {s: _deciding(structure, s) for s in sets}
    layers = {m.weight: [graph.nodes[m.node]] for members in deciding.values() for m in members if m.port == "weight"}
    energy = energies(graph, layers, split, batch_size, context)
    found: Scores = {}
    for held, members in deciding.items():
        total = np.zeros(held.size)
        for member in (m for m in members if m.weight in energy):
            values = context.store.get(graph.weights[member.weight].key or "").float32()
            total += per_unit(structure, held, member, np.abs(values) * energy[member.weight].sqrt().numpy())
        found[held] = _finite(total, held)
    return found


def _taylor(structure: Structure, sets: Sequence[Units], split: Split, batch_size: int, context: Context) -> Scores:
    """Mean over batches of |Σ g·w| over the weights that take a unit in: what the loss does when it is shut.

    Molchanov et al. 2019, arXiv:1906.10771; that sum is the derivative by a gate before those weights.
    """
    deciding = {s: _deciding(structure, s) for s in sets}
    names = list({m.weight for members in deciding.values() for m in members})
    found: Scores = {s: np.zeros(s.size) for s in sets}
    for products, count in gradient_products(structure.graph, names, split, batch_size, context):
        for held, members in deciding.items():
            total = sum((per_unit(structure, held, m, products[m.weight]) for m in members), np.zeros(held.size))
            found[held] += np.abs(total) * count
    return {s: _finite(v / max(len(split), 1), s) for s, v in found.items()}


def gradient_products(
    graph: Graph, names: Sequence[str], split: Split, batch_size: int, context: Context
) -> Iterator[tuple[dict[str, NDArray[np.float32]], int]]:
    """(g·w of each weight, samples) of each batch, in eval mode; g is that of the model's loss."""
    import torch

    from espalier.model.torch.build import build, parameters_of
    from espalier.passes.running.batches import batches, fit_error
    from espalier.passes.running.objective import Objective

    module, seen = build(graph, context.store, context.callables), 0
    objective, every = Objective(module, graph).eval(), parameters_of(module)
    live = {n: every[n].requires_grad_(True) for n in names}
    for inputs, labels in batches(split, graph, batch_size):
        with fit_error(inputs), torch.enable_grad():
            loss = objective(labels, **{k: v for k, v in inputs.items() if k != "labels"})["loss"]
        found = torch.autograd.grad(loss, list(live.values()), materialize_grads=True)
        yield {n: (g * w.detach()).float().numpy() for (n, w), g in zip(live.items(), found, strict=True)}, len(labels)
        seen += len(labels)
        context.progress(seen, len(split), "gradients")


# -- which go


@dataclass(frozen=True, slots=True)
class Amount:
    """How many units go. Of n units round(ratio·n), or `count` of each set; what is left is raised to a `multiple`,
    and never less than that or one unit. `scope` global: the least worth of all sets together, each set's scores over
    their mean unless they are `absolute`.
    """

    ratio: float
    count: int = 0
    multiple: int = 1
    scope: Literal["local", "global"] = "local"
    absolute: bool = False


def fewest(worth: Scores, gone: Mapping[Units, Kept], amount: Amount) -> dict[Units, Kept]:
    """The units that go: those that are gone already and then the least worth, ties by number."""
    ranked = {s: np.where(gone[s], -np.inf, v) for s, v in worth.items()}
    local = {s: amount.count or round(amount.ratio * s.size) for s in worth}
    wanted = _global(ranked, worth, amount) if amount.scope == "global" else local
    found: dict[Units, Kept] = {}
    for held, values in ranked.items():
        left = held.size - min(wanted[held], held.size - 1)
        left = min(-(-left // amount.multiple) * amount.multiple, held.size)
        which = gone[held].copy()
        which[np.argsort(values, kind="stable")[: held.size - left]] = True
        found[held] = which
    return found


def _global(ranked: Scores, worth: Scores, amount: Amount) -> dict[Units, int]:
    """How many of each set are among the least worth of all."""
    means = {s: 1.0 if amount.absolute else float(np.mean(v)) or 1.0 for s, v in worth.items()}
    every = [(float(x) / means[s], s) for s, v in ranked.items() for x in v]
    total = amount.count * len(ranked) or round(amount.ratio * len(every))
    found = dict.fromkeys(ranked, 0)
    for _, held in sorted(every, key=lambda e: e[0]):
        if total and found[held] < held.size - 1:
            found[held] += 1
            total -= 1
    return found
