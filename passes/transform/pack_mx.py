"""MX weights: Linears store their weights as codes and exponents when the model runs, and compute from these."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Precision
from espalier.passes.base import Context, Report, Row, transform
from espalier.passes.select import Select, chosen


@dataclass(frozen=True, slots=True)
class PackMXOptions:
    """Selected Linears, and their MX format."""

    select: Select = field(default=Select(), metadata={"help": "which Linear layers hold packed weights"})
    width: Literal["as it is", "8", "4"] = field(
        default="as it is", metadata={"help": "bits of MXINT; else the format of the weight"}
    )
    block: int = field(default=32, metadata={"min": 1, "max": 65536, "help": "weights that share an exponent"})


@transform("pack_mx", "MX weights", PackMXOptions)
def pack_mx(graph: Graph, options: PackMXOptions, context: Context) -> tuple[Graph, Report]:
    """Store the weights of Linears as packed MXINT8 or MXINT4 when the model runs, and compute from them by kernels.

    A weight takes 8.25 or 4.25 bits (blocks of 32). On a CPU results equal those of the fake-quantised model bit for
    bit; on a GPU except for the order of sums. Training and other passes use the float weights.
    """
    from espalier.model.torch.mx_weights import why_unpacked

    linears = chosen(graph, options.select, lambda n: n.op == "linear", "packed")
    if graph.runs == "module":
        raise PassError("A recorded model runs its own code, so its weights cannot be packed.",
                        "Open a model that can be exported.")  # fmt: skip
    formatted = [_formatted(node, options) for node in linears]
    packed = [replace(n, packed=True) for n in formatted if not why_unpacked(n)]
    if not packed:
        raise PassError(f"No weight can be packed: {linears[0].id}: {why_unpacked(formatted[0])}.",
                        "Choose a width of 8 or 4, or give the weights mxint first.", linears[0].id)  # fmt: skip
    after = graph.replace(*packed)
    rows = [_row(n, graph, why_unpacked(n)) for n in formatted]
    before, now = (sum(r[key] for r in rows if not r["skipped"]) for key in ("bytes_before", "bytes"))
    summary = {"packed": len(packed), "skipped": len(rows) - len(packed), "bytes_before": before, "bytes": now,
               "saved": 1 - now / before if before else 0.0}  # fmt: skip
    return after, Report("pack_mx", tuple(rows), summary)


def _formatted(node: Node, options: PackMXOptions) -> Node:
    """The node with the weight format of the options."""
    from espalier.model.formats.mxint import MXInt

    if options.width == "as it is" or "weight" not in node.weights:
        return node
    fmt = MXInt(int(options.width), options.block)
    return replace(node, precision={**node.precision, "weight": Precision(fmt)})


def _row(node: Node, graph: Graph, skipped: str) -> Row:
    """A row with the bytes of the weight before and after."""
    weight = graph.weights[node.weights["weight"]] if "weight" in node.weights else None
    before = weight.elements * weight.float_bits // 8 if weight else 0
    now = packed_bytes(node, weight.shape) if weight and not skipped else before
    return {"node": node.id, "format": _label(node), "bytes_before": before, "bytes": now, "skipped": skipped}


def _label(node: Node) -> str:
    return node.precision["weight"].label if "weight" in node.precision else "float"


def packed_bytes(node: Node, shape: tuple[int, ...]) -> int:
    """Bytes of a packed weight of this shape as model.torch.mx_weights stores it, with rows padded to bytes."""
    fmt = cast("Any", node.precision["weight"].format)
    rows, columns = shape
    return rows * (-(-columns * fmt.width // 8) + -(-columns // fmt.block))
