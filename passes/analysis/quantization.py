"""What the chosen formats do to the weights: error, saturation and what falls to zero, per weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from model.errors import PassError
from model.formats.base import Format
from model.graph import Graph, Node
from passes.analysis.statistics import NO_WEIGHTS
from passes.base import Context, NoOptions, Report, Row, analysis

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Difference:
    """Error of a format on one tensor. `sqnr_db` is None when there is no error, or no signal."""

    sqnr_db: float | None
    max_error: float
    mean_error: float
    saturated: float
    zeros: float

    def row(self) -> Row:
        """As columns of a report."""
        return {
            "sqnr_db": self.sqnr_db,
            "max_error": self.max_error,
            "mean_error": self.mean_error,
            "saturated": self.saturated,
            "zeros": self.zeros,
        }


@analysis("quantization", "Quantisation error")
def quantization(graph: Graph, options: NoOptions, context: Context) -> tuple[Graph, Report]:
    """Per quantised weight: format, bits, SQNR, largest and mean error, saturated and zero fraction.

    SQNR = 10·log10(Σx² / Σ(x − q(x))²) dB, of the weight after its mask. It is empty when nothing is lost.
    """
    ports = [(n, p) for n in graph for p in n.precision if p in n.weights]
    rows: list[Row] = []
    for i, (node, port) in enumerate(ports):
        context.progress(i, len(ports), node.id)
        rows.append(_row(node, port, graph, context))
    worst = min((r for r in rows if r["sqnr_db"] is not None), key=lambda r: r["sqnr_db"], default=None)
    summary = {
        "weights": len(rows),
        "worst": worst["node"] if worst else None,
        "worst_sqnr_db": worst["sqnr_db"] if worst else None,
    }
    return graph, Report("quantization", tuple(rows), summary)


def _row(node: Node, port: str, graph: Graph, context: Context) -> Row:
    fmt = node.precision[port].format
    found = compare(fmt, _value(node, port, graph, context))
    return {"node": node.id, "port": port, "format": str(fmt), "bits": fmt.bits, **found.row()}


def _value(node: Node, port: str, graph: Graph, context: Context) -> Tensor:
    from model.layers import unpack_mask
    from model.trace.tensors import to_torch

    weight = graph.weights[node.weights[port]]
    if weight.key is None:
        raise PassError(*NO_WEIGHTS)
    value = to_torch(context.store.get(weight.key))
    held = node.sparsity.get(port)
    if held and held.mask is not None:
        value = value * unpack_mask(to_torch(context.store.get(held.mask)), weight.shape)
    return value


def compare(fmt: Format, x: Tensor) -> Difference:
    """Error of `fmt` on `x` (any shape, floating), summed in float64."""
    import math

    import torch

    if not x.numel():
        return Difference(None, 0.0, 0.0, 0.0, 0.0)
    with torch.no_grad():
        y = fmt.quantize(x)
        error = (y.double() - x.double()).abs()
        noise, signal = float(error.square().sum()), float(x.double().square().sum())
        saturated = 1 - float(fmt.inside(x).double().mean())
        zeros = float((y == 0).double().mean())
    sqnr = 10 * math.log10(signal / noise) if noise > 0 and signal > 0 else None
    return Difference(sqnr, float(error.max()), float(error.mean()), saturated, zeros)
