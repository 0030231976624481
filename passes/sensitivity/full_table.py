"""The whole table: every place under every candidate, and what a whole configuration is predicted to cost."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np

from espalier.model.formats.base import Format
from espalier.model.formats.scaled import ScaledFormat
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ops import category
from espalier.model.graph.views import view_at
from espalier.model.store.weights import WeightStore
from espalier.passes.sensitivity.correct import Correction
from espalier.passes.sensitivity.evidence import Evidence, Floats, Low
from espalier.passes.sensitivity.places import Place
from espalier.passes.sensitivity.subject import Mask, Meeting, Rounding, Subject, Told, as_rows, subject
from espalier.passes.sensitivity.table import Candidate, Sensitivity
from espalier.passes.sensitivity.whole import packed

THREADS = min(os.cpu_count() or 1, 8)
ALONE = 1 << 17  # values up to which threads would wait for each other longer than they work


def quickly(fmt: Format, x: Floats) -> Floats:
    """Values of `x` by the format's fast version; needs torch."""
    import torch

    with torch.no_grad():
        return fmt.forward(torch.from_numpy(x)).numpy()


def thinly(piece: Low) -> Meeting:
    """The way of errors of a whole weight: `thin.met`."""
    from espalier.passes.sensitivity.low_rank_gradients import met, thinned

    return partial(met, thinned(piece))


def rows_of_table(
    evidence: Evidence, places: Sequence[Place], run: Graph, store: WeightStore, formats: Sequence[Format],
    sparsities: Sequence[float] = (), rounded: Rounding = quickly,
) -> Iterator[Sensitivity]:  # fmt: skip
    """A row for each place that something is known of, formats fitted to its values; no model is run.

    Sparsities are tried where they can be chosen: weights of linear layers, and what flows into these.
    """
    from espalier.model.torch.threads import torch_threads

    with torch_threads(1), ThreadPoolExecutor(THREADS) as pool:
        for place in places:
            found = subject(place, evidence, run, store, thin=thinly)
            if found is None:
                continue
            choices = candidates(found, run, formats, sparsities, rounded)
            many = pool.map if sum(p.x.size for p in found.parts) > ALONE else map
            each = list(many(lambda c, s=found: s.told(c, rounded), choices))
            yield Sensitivity(
                place.node, place.port, found.elements, choices, tuple(t.kl for t in each),
                tuple(t.noise for t in each), (None,) * len(choices), tuple(packed(t.kl, t.along) for t in each),
            )  # fmt: skip


def candidates(
    found: Subject,
    run: Graph,
    formats: Sequence[Format],
    sparsities: Sequence[float],
    rounded: Rounding = Format.rounded,
) -> tuple[Candidate, ...]:
    """Each format alone, each sparsity alone, and both."""
    fitted = [found.fitted(f, rounded) for f in formats]
    shares = sparsities if prunable(run[found.place.tensors[0][0]], found.place.port) else ()
    both = [Candidate(f, s) for s in shares for f in (None, *fitted) if s]
    return (*(Candidate(f) for f in fitted), *both)


def prunable(node: Node, port: str) -> bool:
    """Whether a sparsity can be chosen for a port."""
    return category(node) == "linear" and port in ("weight", "data_in")


# -- a configuration that is there


def chosen(node: Node, port: str) -> Candidate:
    """What a node has at a port."""
    held, pruned = node.precision.get(port), node.sparsity.get(port)
    return Candidate(held.format if held else None, pruned.ratio if pruned else 0.0, pruned.method if pruned else "l1")


def changed(graph: Graph, places: Sequence[Place], run: Graph) -> list[tuple[Place, Candidate, Node]]:
    """The places of `run` that have a choice in `graph`, whose attentions may be written out where run's are not yet
    in `places`: each with what it has and the node that has it."""
    found: list[tuple[Place, Candidate, Node]] = []
    for place in places:
        node = graph.nodes.get(place.node) or graph.nodes.get(place.tensors[-1][0])
        if node is None:
            continue
        now, before = chosen(node, place.port), chosen(run[place.tensors[-1][0]], place.port)
        if now != before and now != Candidate():
            found.append((place, now, node))
    return found


def mask_of(node: Node, place: Place, store: WeightStore, shape: tuple[int, ...]) -> Mask | None:
    """The mask that a node has on a stored tensor, as formats see it."""
    held = node.sparsity.get(place.port)
    if place.weight is None or held is None or held.mask is None:
        return None
    count = int(np.prod(shape))
    return as_rows(np.unpackbits(store.get(held.mask).array, count=count).reshape(shape), view_at(node, place.port)) > 0


def configured(
    graph: Graph, places: Sequence[Place], run: Graph, evidence: Evidence, store: WeightStore,
    correction: Correction | None = None, quick: int = 0, rounded: Rounding = Format.rounded,
) -> dict[tuple[str, str], Told]:  # fmt: skip
    """(node, port) → what its choice in `graph` is predicted to do by itself; `whole.together` tells what all do.

    `places`, `run`: of the reference (`kept_places`).
    """
    found: dict[tuple[str, str], Told] = {}
    for place, candidate, node in changed(graph, places, run):
        asked = subject(place, evidence, run, store, quick)
        if asked is None:
            continue
        mask = None if place.weight is None else mask_of(node, place, store, run.weights[place.weight].shape)
        scale = _scale(node, place.port, graph, store)
        told = asked.told(candidate, rounded if scale is None else partial(_under, scale, rounded), mask)
        found[place.node, place.port] = fixed(told, correction)
    return found


def fixed(told: Told, by: Correction | None) -> Told:
    """A prediction put right, and with it what it does to others."""
    kl = by.of(told.kl, told.noise) if by else told.kl
    return replace(told, kl=kl, along=told.along * (kl / told.kl) ** 0.5) if 0 < told.kl < math.inf else told


def _scale(node: Node, port: str, graph: Graph, store: WeightStore) -> Floats | None:
    """A scale that a port is given from outside."""
    held = node.precision.get(port)
    weight = graph.weights.get(held.scale) if held is not None and held.scale else None
    return None if weight is None or weight.key is None else store.get(weight.key).float32()


def _under(scale: Floats, rounded: Rounding, fmt: Format, x: Floats) -> Floats:
    """`x` under a given scale, where it fits."""
    if not isinstance(fmt, ScaledFormat) or scale.shape != fmt.scale_shape(x.shape):
        return rounded(fmt, x)
    return fmt.decode(fmt.encode_with(x, scale))
