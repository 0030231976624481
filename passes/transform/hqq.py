"""HQQ: zero points of weights with a small l_p norm of the rounding error, without data."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from espalier.model.errors import OptionsError
from espalier.model.formats.offset_integer import OffsetInteger
from espalier.model.formats.scaled import ROW, TENSOR
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Weight
from espalier.passes.base import Context, Report, Row, transform
from espalier.passes.choices.scale_names import scale_name
from espalier.passes.observed.stored_tensors import weight_in_view
from espalier.passes.recovery.layers import Layer, layers_of
from espalier.passes.select import Select, chosen

if TYPE_CHECKING:
    from torch import Tensor

    from espalier.passes.recovery.half_quadratic import Solver


@dataclass(frozen=True, slots=True)
class HqqOptions:
    """The norm, and how the solver goes; defaults are those of the authors' code."""

    lp_norm: float = field(default=0.7, metadata={"min": 0.1, "max": 0.99, "help": "p of the error's norm"})
    beta: float = field(default=10.0, metadata={"min": 1e-6, "max": 1e6, "help": "weight of the squared error"})
    kappa: float = field(default=1.01, metadata={"min": 1.0, "max": 10.0, "help": "factor of beta in each round"})
    iterations: int = field(default=20, metadata={"min": 1, "max": 1000, "help": "maximum number of rounds"})
    select: Select = field(default=Select(), metadata={"help": "layers to work on"})

    def __post_init__(self) -> None:
        if not 0.1 <= self.lp_norm < 1:
            raise OptionsError(f"lp_norm is {self.lp_norm:g}.", "It must be at least 0.1 and below 1, such as 0.7.")


@transform("hqq", "HQQ", HqqOptions)
def hqq(graph: Graph, options: HqqOptions, context: Context) -> tuple[Graph, Report]:
    """Choose the zero points of weights that minimise φ(W − Ŵ) by half-quadratic splitting; φ is an l_p norm, p < 1.

    Without data: rounds of e = shrink(W − Ŵ, β), z = mean(q − (W − e)/s) of each group, under the scale of the range
    (Badri & Shaji 2023, https://mobiusml.github.io/hqq_blog/). For weights in `offset_integer`, whose zero point −m/s
    is real, as in the authors' code. A layer keeps plain rounding where the mean error is no smaller.
    """
    from espalier.passes.recovery.half_quadratic import Solver

    first = "Give weights the format offset_integer first; HQQ chooses real zero points."
    nodes = chosen(graph, options.select, _able, "rounded by HQQ", no_node_hint=first)
    layers, skipped = layers_of(nodes, graph)
    solver = Solver(options.lp_norm, options.beta, options.kappa, options.iterations)
    rows: list[Row] = []
    after = graph
    for i, layer in enumerate(layers):
        context.progress(i, len(layers), f"HQQ: {layer.nodes[0].id}")
        after, row = _solved(after, layer, solver, context)
        rows.append(row)
    changed = [r for r in rows if r["changed"]]
    ratios = [r["error"] / r["error_rounded"] for r in changed]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None
    summary: Row = {"layers": len(changed), "left": len(rows) - len(changed), "skipped": len(skipped),
                    "mean_error_ratio": mean}  # fmt: skip
    return after, Report("hqq", (*rows, *({"node": n.id, "skipped": why} for n, why in skipped)), summary)


def _able(node: Node) -> bool:
    chosen_ = node.precision.get("weight")
    return chosen_ is not None and node.op != "embedding" and isinstance(chosen_.format, OffsetInteger)


def _solved(graph: Graph, layer: Layer, solver: Solver, context: Context) -> tuple[Graph, Row]:
    """(the graph with the layer's zero points if its mean error falls, a row of the report)."""
    import torch

    from espalier.model.torch.leaf_builder import effective
    from espalier.model.torch.tensors import to_numpy

    node = layer.nodes[0]
    precision = node.precision["weight"]
    fmt = cast("OffsetInteger", precision.format)
    matrix = weight_in_view(node, "weight", graph, context.store).float()
    held = effective(node, "weight", graph, context.store).scale
    before = fmt.forward(matrix) if held is None else fmt.forward_with(matrix, held.detach())
    scale = _scale(fmt, matrix, solver)
    rounded, error = (float((v - matrix).abs().mean()) for v in (before, fmt.forward_with(matrix, scale)))
    changed = error < rounded
    row: Row = {"node": node.id, "changed": changed, "error_rounded": rounded, "error": min(error, rounded)}
    if not changed:
        return graph, row
    name, value = precision.scale or scale_name(node, "weight", graph.weights), to_numpy(torch.clone(scale))
    weight = Weight(context.store.hold(value), value.shape, value.dtype, "buffer", False)
    nodes = (graph.nodes[n.id] for n in layer.nodes)
    choice = {"weight": replace(precision, scale=name)}
    graph = graph.replace(*(replace(n, precision={**n.precision, **choice}) for n in nodes))
    return graph.with_weights({name: weight}), row


def _scale(fmt: OffsetInteger, matrix: Tensor, solver: Solver) -> Tensor:
    """The given scale (2, …) of the solution: s and the value of code 0."""
    import torch

    from espalier.passes.recovery.half_quadratic import optimised

    rows, columns = (1, matrix.numel()) if fmt.per == TENSOR else (matrix.numel() // matrix.shape[-1], matrix.shape[-1])
    flat = matrix.reshape(rows, columns)
    size = columns if fmt.per in (TENSOR, ROW) else fmt.per
    # Of a short last group the mean is taken over its own elements.
    parts = (flat[:, : columns // size * size].reshape(-1, size), flat[:, columns // size * size :])
    found = [optimised(part, fmt.top, solver)[:2] for part in parts if part.numel()]
    per_row = [torch.stack([1 / inverse, zero], 0).reshape(2, rows, -1) for inverse, zero in found]
    s, zero = torch.cat(per_row, -1)
    return torch.stack([s, -zero * s]).reshape(fmt.scale_shape(tuple(matrix.shape)))
