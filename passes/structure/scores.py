"""Scores of units: by weights, by activations, or by the loss; and the choice of units to prune."""

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
    """A score for each unit of each set; the smallest are pruned first. Raises PassError for non-finite weights."""
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


def _random(units: Units, seed: int) -> Values:
    name = f"{units.first.node}.{units.first.port}.{units.first.dim}"
    return np.random.default_rng([seed % 2**63, zlib.crc32(name.encode())]).random(units.size)


def once(members: Sequence[Member], graph: Graph) -> list[Member]:
    """Maskable members, without repeated tensors."""
    return list({(m.weight, m.dim): m for m in members if maskable(m, graph)}.values())


def per_unit(structure: Structure, units: Units, member: Member, values: NDArray[Any]) -> Values:
    """Sums of a tensor's elements over each unit's slices in a member."""
    along = values.sum(axis=tuple(i for i in range(values.ndim) if i != member.dim), dtype=np.float64)
    unit = numbers(structure.dims(member), units.axis)
    sums = np.zeros(units.size)
    np.add.at(sums, unit[unit >= 0], along[unit >= 0])
    return sums


def _magnitude(structure: Structure, units: Units, how: str, context: Context) -> Values:
    """Σ|w|, or √Σw², over all weights and biases of a unit (as DepGraph sums over a group)."""
    total = np.zeros(units.size)
    for member in once(units.members, structure.graph):
        key = structure.graph.weights[member.weight].key
        values = context.store.get(key or "").float32()
        total += per_unit(structure, units, member, np.abs(values) if how == "l1" else np.square(values))
    return _finite(np.sqrt(total) if how == "l2" else total, units)


def _finite(values: Values, units: Units) -> Values:
    if not np.isfinite(values).all():
        raise PassError(f"The weights around {units.first.node} are not finite.", "Load another checkpoint.",
                        units.first.node)  # fmt: skip
    return values


# -- with data


def _deciding(structure: Structure, units: Units) -> list[Member]:
    """The weights that read a unit or, if there are none, those that produce it."""
    reading = [m for m in once(units.members, structure.graph) if m.role == "columns"]
    return reading or [m for m in once(units.members, structure.graph) if m.role == "rows"]


def _activation(structure: Structure, sets: Sequence[Units], split: Split, batch_size: int, context: Context) -> Scores:
    """Σ |w|·‖x‖ over the weights that read a unit (Wanda, Sun et al. 2023, arXiv:2306.11695, summed by unit)."""
    from espalier.passes.pruning.input_energies import energies

    graph = structure.graph
    deciding = {s: _deciding(structure, s) for s in sets}
    layers = {m.weight: [graph.nodes[m.node]] for members in deciding.values() for m in members if m.port == "weight"}
    energy = energies(graph, layers, split, batch_size, context)
    result: Scores = {}
    for units, members in deciding.items():
        total = np.zeros(units.size)
        for member in (m for m in members if m.weight in energy):
            values = context.store.get(graph.weights[member.weight].key or "").float32()
            total += per_unit(structure, units, member, np.abs(values) * energy[member.weight].sqrt().numpy())
        result[units] = _finite(total, units)
    return result


def _taylor(structure: Structure, sets: Sequence[Units], split: Split, batch_size: int, context: Context) -> Scores:
    """Mean over batches of |Σ g·w| over the weights that read a unit: first-order change of the loss when removed.

    Molchanov et al. 2019, arXiv:1906.10771; the sum is the derivative by a gate before those weights.
    """
    deciding = {s: _deciding(structure, s) for s in sets}
    names = list({m.weight for members in deciding.values() for m in members})
    sums: Scores = {s: np.zeros(s.size) for s in sets}
    for products, count in gradient_products(structure.graph, names, split, batch_size, context):
        for units, members in deciding.items():
            total = sum((per_unit(structure, units, m, products[m.weight]) for m in members), np.zeros(units.size))
            sums[units] += np.abs(total) * count
    return {s: _finite(v / max(len(split), 1), s) for s, v in sums.items()}


def gradient_products(
    graph: Graph, names: Sequence[str], split: Split, batch_size: int, context: Context
) -> Iterator[tuple[dict[str, NDArray[np.float32]], int]]:
    """(g·w of each weight, samples) of each batch, in eval mode; g is the gradient of the model's loss."""
    import torch

    from espalier.model.torch.build import build, parameters_of
    from espalier.passes.running.batches import batches, fit_error
    from espalier.passes.running.objective import Objective
    from espalier.passes.tasks.base import task_of

    module, seen = build(graph, context.store, context.callables), 0
    objective, every = Objective(module, graph, task=task_of(split)).eval(), parameters_of(module)
    live = {n: every[n].requires_grad_(True) for n in names}
    for inputs, labels in batches(split, graph, batch_size):
        with fit_error(inputs, graph), torch.enable_grad():
            loss = objective(labels, **{k: v for k, v in inputs.items() if k != "labels"})["loss"]
        grads = torch.autograd.grad(loss, list(live.values()), materialize_grads=True)
        yield {n: (g * w.detach()).float().numpy() for (n, w), g in zip(live.items(), grads, strict=True)}, len(labels)
        seen += len(labels)
        context.progress(seen, len(split), "gradients")


# -- choice


@dataclass(frozen=True, slots=True)
class Amount:
    """Number of units to prune: round(ratio·n) of n, or `count` of each set; the remaining number is rounded up to a
    `multiple`, at least one. `scope` global: the lowest scores of all sets together, each set's scores divided by
    their mean unless `absolute`.
    """

    ratio: float
    count: int = 0
    multiple: int = 1
    scope: Literal["local", "global"] = "local"
    absolute: bool = False


def fewest(worth: Scores, gone: Mapping[Units, Kept], amount: Amount) -> dict[Units, Kept]:
    """The units to prune: those already masked, then the lowest scores, ties by index."""
    ranked = {s: np.where(gone[s], -np.inf, v) for s, v in worth.items()}
    local = {s: amount.count or round(amount.ratio * s.size) for s in worth}
    wanted = _global(ranked, worth, amount) if amount.scope == "global" else local
    result: dict[Units, Kept] = {}
    for units, values in ranked.items():
        left = units.size - min(wanted[units], units.size - 1)
        left = min(-(-left // amount.multiple) * amount.multiple, units.size)
        which = gone[units].copy()
        which[np.argsort(values, kind="stable")[: units.size - left]] = True
        result[units] = which
    return result


def _global(ranked: Scores, worth: Scores, amount: Amount) -> dict[Units, int]:
    """Number of units of each set among the lowest scores of all."""
    means = {s: 1.0 if amount.absolute else float(np.mean(v)) or 1.0 for s, v in worth.items()}
    every = [(float(x) / means[s], s) for s, v in ranked.items() for x in v]
    total = amount.count * len(ranked) or round(amount.ratio * len(every))
    counts = dict.fromkeys(ranked, 0)
    for _, units in sorted(every, key=lambda e: e[0]):
        if total and counts[units] < units.size - 1:
            counts[units] += 1
            total -= 1
    return counts
