"""GPTQ: rounds weights column by column, and corrects later columns for the errors of earlier ones."""

from __future__ import annotations

import math
from dataclasses import replace

from espalier.model.formats.base import Format
from espalier.model.formats.scaled import ScaledFormat
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Weight
from espalier.passes.base import Context, Report, Row, transform
from espalier.passes.choices.gptq import GptqOptions
from espalier.passes.choices.scale_names import scale_name
from espalier.passes.observed.stored_tensors import weight_in_view
from espalier.passes.recovery.layers import Layer, layers_of
from espalier.passes.running.splits import calibration_split
from espalier.passes.select import chosen


@transform("gptq", "GPTQ", GptqOptions, lasting=True)
def gptq(graph: Graph, options: GptqOptions, context: Context) -> tuple[Graph, Report]:
    """Round the weights of Linears and convolutions to their formats with a small ‖(W − Ŵ)X‖², on calibration data.

    Layer by layer, with inputs from the already quantised layers: H = 2XXᵀ, then by column w_q = format(w), and later
    columns get −(w − w_q)/[H⁻¹]_qq·[H⁻¹]_q,: (Frantar et al. 2023, arXiv:2210.17323). Pruned weights stay 0; scales
    are fixed before their columns are rounded. A layer keeps plain rounding if that is no worse.
    """
    from espalier.model.torch.build import build, read_back
    from espalier.passes.recovery.rounding import Rounding
    from espalier.passes.recovery.walk import reporting, samples_of, walk

    layers, skipped = layers_to_round(graph, options)
    split = calibration_split(options, context)
    prepared = with_scales(graph, layers, options, context)
    module = build(prepared, context.store, context.callables)
    work = Rounding(prepared, module, layers, options, context.store)
    order = {n.id for x in layers for n in x.nodes}
    ids = [i for i in graph.nodes if i in order]
    samples = samples_of(split, graph, options.batch_size)
    walk(module, prepared, samples, ids, reporting(work.visit, len(ids), context, "GPTQ:"))
    after = with_better(graph, prepared, read_back(module, prepared, context.store), work.better)
    rows = [*work.rows, *({"node": n.id, "skipped": why} for n, why in skipped)]
    return after, Report("gptq", tuple(rows), _summary(work.rows, len(skipped), len(split)))


def layers_to_round(graph: Graph, options: GptqOptions) -> tuple[list[Layer], list[tuple[Node, str]]]:
    """(layers whose weights GPTQ rounds, other selected nodes with the reason); raises PassError for none selected."""
    able, first = (lambda n: "weight" in n.precision and n.op != "embedding"), "Give weights of Linears a format first."
    nodes = chosen(graph, options.select, able, "rounded by GPTQ", no_node_hint=first)
    layers, skipped = layers_of(nodes, graph)
    skipped += [(x.nodes[0], "its format rounds at random") for x in layers if _format(x).stochastic]
    return [x for x in layers if not _format(x).stochastic], skipped


def _format(layer: Layer) -> Format:
    return layer.nodes[0].precision["weight"].format


def _summary(rows: list[Row], skipped: int, samples: int) -> Row:
    """The numbers of changed, unchanged and skipped layers; the geometric mean of their error ratios."""
    ratios = [r["error"] / r["error_rounded"] for r in rows if r["error"] and r["error_rounded"]]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None
    changed = sum(r["changed"] for r in rows)
    return {"layers": changed, "left": len(rows) - changed, "skipped": skipped, "samples": samples,
            "mean_error_ratio": mean}  # fmt: skip


# -- scales


def with_scales(graph: Graph, layers: list[Layer], options: GptqOptions, context: Context) -> Graph:
    """The graph with a stored scale for each layer's format that would take its scale from the tensor."""
    from espalier.model.torch.tensors import to_numpy

    weights: dict[str, Weight] = {}
    nodes: list[Node] = []
    for layer in layers:
        first = layer.nodes[0]
        precision = first.precision["weight"]
        matrix = weight_in_view(first, "weight", graph, context.store)  # raises without weights
        if precision.scale is not None or not isinstance(precision.format, ScaledFormat):
            continue
        value = to_numpy(precision.format.scale_of(matrix).clone())
        name = scale_name(first, "weight", {**graph.weights, **weights})
        weights[name] = Weight(context.store.hold(value), value.shape, value.dtype, "buffer", False)
        nodes += [replace(n, precision={**n.precision, "weight": replace(precision, scale=name)}) for n in layer.nodes]
    return graph.replace(*nodes).with_weights(weights)


def with_better(graph: Graph, prepared: Graph, rounded: Graph, better: list[Layer]) -> Graph:
    """`graph` with the weights and scales of the improved layers."""
    nodes = [prepared.nodes[n.id] for layer in better for n in layer.nodes]
    names = {x.name for x in better} | {n.precision["weight"].scale for n in nodes}
    return graph.replace(*nodes).with_weights({k: w for k, w in rounded.weights.items() if k in names})
