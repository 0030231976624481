"""Clips weights by a grid search of static scales and shifts for the least squared error."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from espalier.model.errors import OptionsError, PassError
from espalier.model.formats.base import Format
from espalier.model.formats.scaled import ScaledFormat
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Precision, Weight
from espalier.model.graph.ports import weight_at
from espalier.passes.base import Context, Report, Row, transform
from espalier.passes.choices.recovery import RecoveryOptions
from espalier.passes.choices.scale_names import scale_name
from espalier.passes.observed.stored_tensors import weight_in_view
from espalier.passes.recovery.layers import Layer, check_inputs, layers_of, plain, rows_of
from espalier.passes.running.splits import calibration_split
from espalier.passes.select import chosen

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class MseClipOptions(RecoveryOptions):
    """The grid of scales, and data that weight the errors."""

    data: str = field(default="", metadata={"help": "data to weigh errors by the inputs' energy; empty: none",
                                            "edit": "data"})  # fmt: skip
    steps: int = field(default=100, metadata={"min": 2, "max": 1000, "help": "number of scales tried"})
    least: float = field(
        default=0.2, metadata={"min": 0.01, "max": 0.99, "help": "smallest fraction of the range tried"}
    )

    def __post_init__(self) -> None:
        if not 0 < self.least < 1 or self.steps < 2:
            raise OptionsError(f"least is {self.least:g}, steps is {self.steps}.",
                               "least must be above 0 and below 1, steps at least 2.")  # fmt: skip


@transform("mse_clip", "Clip weights by MSE", MseClipOptions)
def mse_clip(graph: Graph, options: MseClipOptions, context: Context) -> tuple[Graph, Report]:
    """Set the scale c·s of weights with the least Σ_j E[x_j²]·(w_j − ŵ_j)², for 100 values of c from 1 to 0.2; static.

    Each tensor, row or group has its own c (OMSE, Choukroun et al. 2019, arXiv:1902.06822; the clipping of AWQ, Lin et
    al. 2024, arXiv:2306.00978). Integers and small floats with a fixed range get the best shift instead. Without data
    all inputs have equal weight.
    """
    import torch

    first = "Give weights a format with a scale, an integer, a minifloat or log first; blocks set their own range."
    nodes = chosen(graph, options.select, lambda n: _is_clippable(n, graph), "clipped", no_node_hint=first)
    layers, skipped = layers_of(nodes, graph)
    if not layers:
        raise PassError(f"None of the {len(nodes)} selected layers can be clipped: {skipped[0][1]}.",
                        "Select others.", nodes[0].id)  # fmt: skip
    energy = _energies(graph, layers, options, context)
    after, rows = graph, list[Row]()
    for i, layer in enumerate(layers):
        context.progress(i, len(layers), f"clipping {layer.nodes[0].id}")
        matrix = weight_in_view(layer.nodes[0], "weight", graph, context.store).float().flatten(1)
        weights = energy.get(layer.name, torch.ones(matrix.shape[0 if layer.transposed else 1]))
        after, row = _clip(after, layer, matrix, weights[:, None] if layer.transposed else weights, options, context)
        rows.append(row)
    rows += [{"node": n.id, "skipped": why} for n, why in skipped]
    changed = sum(bool(r.get("changed")) for r in rows)
    summary = {"layers": changed, "left": len(layers) - changed, "skipped": len(skipped), "weighted": bool(energy)}
    return after, Report("mse_clip", tuple(rows), summary)


def _is_clippable(node: Node, graph: Graph) -> bool:
    fmt = node.precision["weight"].format if "weight" in node.precision else None
    has_range = fmt is not None and (isinstance(fmt, ScaledFormat) or fmt.shift is not None)
    return has_range and weight_at(node, "weight", graph) is not None


def _energies(graph: Graph, layers: list[Layer], options: MseClipOptions, context: Context) -> dict[str, Tensor]:
    """Weight → [inputs] Σ x_j² over samples and calls in the float model, relative to its mean; empty without data."""
    if not options.data:
        return {}
    from espalier.passes.running.observing import observe

    names = {n.id: x.name for x in layers for n in x.nodes}
    sums: dict[str, Tensor] = {}

    def add(node: str, _: str, x: Tensor) -> None:
        part = rows_of(graph.nodes[node], x).double().square().sum(0)
        sums[names[node]] = sums[names[node]] + part if names[node] in sums else part

    split = calibration_split(options, context)
    observe(plain(graph), split, options.batch_size, {i: ("data_in",) for i in names}, add, context)
    for layer in layers:
        if layer.name in sums:
            check_inputs(sums[layer.name], layer.nodes[0])
    return {k: v / max(float(v.mean()), 1e-30) for k, v in sums.items()}


def _clip(
    graph: Graph, layer: Layer, x: Tensor, energy: Tensor, options: MseClipOptions, context: Context
) -> tuple[Graph, Row]:
    """(the graph with the layer clipped if that lowers the error, a row of the report)."""
    from espalier.model.torch.leaf_builder import effective
    from espalier.model.torch.tensors import to_numpy
    from espalier.passes.recovery.clipping import clipped_share, error_of, scaled_clipping, shift_clipping

    first = layer.nodes[0]
    precision = first.precision["weight"]
    fmt, scale = precision.format, effective(first, "weight", graph, context.store).scale
    clipping = scaled_clipping(fmt, x, energy, options.steps, options.least) if isinstance(fmt, ScaledFormat) \
        else shift_clipping(fmt, x, energy)  # fmt: skip
    before = error_of(_value(fmt, scale, x), x, energy)
    after = error_of(_value(clipping.format, clipping.scale, x), x, energy)
    changed = after < before
    row: Row = {
        "node": first.id, "format": clipping.format.label if changed else precision.label, "changed": changed,
        "mean_factor": clipping.factor if changed else 1.0,
        "clipped": clipped_share(clipping.format, clipping.scale, x) if changed else None,
        "error_before": _relative(before, x, energy), "error": _relative(min(before, after), x, energy),
    }  # fmt: skip
    if not changed:
        return graph, row
    name = None
    if clipping.scale is not None:
        name, value = precision.scale or scale_name(first, "weight", graph.weights), to_numpy(clipping.scale.clone())
        key = context.store.hold(value)
        graph = graph.with_weights({name: Weight(key, value.shape, value.dtype, "buffer", False)})
    return _with_precision(graph, layer, replace(precision, format=clipping.format, scale=name)), row


def _with_precision(graph: Graph, layer: Layer, chosen_: Precision) -> Graph:
    nodes = (graph.nodes[n.id] for n in layer.nodes)
    return graph.replace(*(replace(n, precision={**n.precision, "weight": chosen_}) for n in nodes))


def _value(fmt: Format, scale: Tensor | None, x: Tensor) -> Tensor:
    scaled = isinstance(fmt, ScaledFormat) and scale is not None
    return fmt.forward_with(x, scale.detach()) if scaled else fmt.forward(x)  # pyright: ignore


def _relative(error: float, x: Tensor, energy: Tensor) -> float | None:
    power = float((x.double().square() * energy).sum())
    return error / power if power else None
