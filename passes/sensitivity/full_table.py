"""Predictions of all candidates at all ports, and of the candidates chosen in a configuration."""

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
from espalier.passes.sensitivity.combined import packed
from espalier.passes.sensitivity.correction import Correction
from espalier.passes.sensitivity.gradient_statistics import Floats, GradientStatistics, LowRank
from espalier.passes.sensitivity.port_predictor import (
    Mask,
    PortPredictor,
    Prediction,
    Rounding,
    WeightEffect,
    as_rows,
    port_predictor,
)
from espalier.passes.sensitivity.ports import FormatPort
from espalier.passes.sensitivity.table import Candidate, Sensitivity

THREADS = min(os.cpu_count() or 1, 8)
ALONE = 1 << 17  # values up to which one thread is faster


def fast_rounded(fmt: Format, x: Floats) -> Floats:
    """Round `x` by the format's fast version; needs torch."""
    import torch

    with torch.no_grad():
        return fmt.forward(torch.from_numpy(x)).numpy()


def make_projected_effect(piece: LowRank) -> WeightEffect:
    """Effect function of a weight by projected gradients."""
    from espalier.passes.sensitivity.low_rank_gradients import project_gradients, projected_effect

    return partial(projected_effect, project_gradients(piece))


def rows_of_table(
    evidence: GradientStatistics, places: Sequence[FormatPort], run: Graph, store: WeightStore,
    formats: Sequence[Format], sparsities: Sequence[float] = (), rounded: Rounding = fast_rounded,
) -> Iterator[Sensitivity]:  # fmt: skip
    """A row for each port with statistics, formats fitted to its values; the model is not run.

    Sparsities apply to weights and inputs of linear layers.
    """
    from espalier.model.torch.threads import torch_threads

    with torch_threads(1), ThreadPoolExecutor(THREADS) as pool:
        for place in places:
            predictor = port_predictor(place, evidence, run, store, thin=make_projected_effect)
            if predictor is None:
                continue
            choices = candidates(predictor, run, formats, sparsities, rounded)
            many = pool.map if sum(p.x.size for p in predictor.parts) > ALONE else map
            each = list(many(lambda c, p=predictor: p.predict(c, rounded), choices))
            yield Sensitivity(
                place.node, place.port, predictor.elements, choices, tuple(t.kl for t in each),
                tuple(t.noise for t in each), (None,) * len(choices), tuple(packed(t.kl, t.along) for t in each),
            )  # fmt: skip


def candidates(
    predictor: PortPredictor,
    run: Graph,
    formats: Sequence[Format],
    sparsities: Sequence[float],
    rounded: Rounding = Format.rounded,
) -> tuple[Candidate, ...]:
    """Each format, each sparsity, and each combination of both."""
    fitted = [predictor.fitted(f, rounded) for f in formats]
    shares = sparsities if prunable(run[predictor.place.tensors[0][0]], predictor.place.port) else ()
    both = [Candidate(f, s) for s in shares for f in (None, *fitted) if s]
    return (*(Candidate(f) for f in fitted), *both)


def prunable(node: Node, port: str) -> bool:
    """Whether a sparsity can be chosen for a port."""
    return category(node) == "linear" and port in ("weight", "data_in")


# -- the configuration of a graph


def chosen(node: Node, port: str) -> Candidate:
    """The candidate chosen at a node's port."""
    precision, pruned = node.precision.get(port), node.sparsity.get(port)
    return Candidate(
        precision.format if precision else None, pruned.ratio if pruned else 0.0, pruned.method if pruned else "l1"
    )


def changed(graph: Graph, places: Sequence[FormatPort], run: Graph) -> list[tuple[FormatPort, Candidate, Node]]:
    """(port, candidate, node of `graph`) for each port of `run` that has a choice in `graph`, whose attentions may be
    decomposed."""
    changes: list[tuple[FormatPort, Candidate, Node]] = []
    for place in places:
        node = graph.nodes.get(place.node) or graph.nodes.get(place.tensors[-1][0])
        if node is None:
            continue
        now, before = chosen(node, place.port), chosen(run[place.tensors[-1][0]], place.port)
        if now != before and now != Candidate():
            changes.append((place, now, node))
    return changes


def mask_of(node: Node, place: FormatPort, store: WeightStore, shape: tuple[int, ...]) -> Mask | None:
    """A node's mask of a stored tensor, in the format's view."""
    sparsity = node.sparsity.get(place.port)
    if place.weight is None or sparsity is None or sparsity.mask is None:
        return None
    bits = np.unpackbits(store.get(sparsity.mask).array, count=int(np.prod(shape)))
    return as_rows(bits.reshape(shape), view_at(node, place.port)) > 0


def configured(
    graph: Graph, places: Sequence[FormatPort], run: Graph, evidence: GradientStatistics, store: WeightStore,
    correction: Correction | None = None, quick: int = 0, rounded: Rounding = Format.rounded,
) -> dict[tuple[str, str], Prediction]:  # fmt: skip
    """(node, port) → predicted effect of its choice in `graph` alone; see `combined.together` for all of them.

    `places`, `run`: of the reference graph.
    """
    predictions: dict[tuple[str, str], Prediction] = {}
    for place, candidate, node in changed(graph, places, run):
        predictor = port_predictor(place, evidence, run, store, quick)
        if predictor is None:
            continue
        mask = None if place.weight is None else mask_of(node, place, store, run.weights[place.weight].shape)
        scale = _scale(node, place.port, graph, store)
        rounding = rounded if scale is None else partial(_with_scale, scale, rounded)
        predictions[place.node, place.port] = fixed(predictor.predict(candidate, rounding, mask), correction)
    return predictions


def fixed(prediction: Prediction, by: Correction | None) -> Prediction:
    """A corrected prediction, its signed changes scaled accordingly."""
    if not 0 < prediction.kl < math.inf:
        return prediction
    kl = by.of(prediction.kl, prediction.noise) if by else prediction.kl
    return replace(prediction, kl=kl, along=prediction.along * (kl / prediction.kl) ** 0.5)


def _scale(node: Node, port: str, graph: Graph, store: WeightStore) -> Floats | None:
    """The calibrated scale of a port, if it has one."""
    precision = node.precision.get(port)
    weight = graph.weights.get(precision.scale) if precision is not None and precision.scale else None
    return None if weight is None or weight.key is None else store.get(weight.key).float32()


def _with_scale(scale: Floats, rounded: Rounding, fmt: Format, x: Floats) -> Floats:
    """Round `x` with a given scale, if its shape fits the format."""
    if not isinstance(fmt, ScaledFormat) or scale.shape != fmt.scale_shape(x.shape):
        return rounded(fmt, x)
    return fmt.decode(fmt.encode_with(x, scale))
