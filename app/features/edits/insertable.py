"""Which operations can be inserted behind a result, and why another one cannot. No Qt, no torch.

All of them give the shape that they take, so that what follows still runs; the pass checks that again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from espalier.app.features.edits.offers import RECORDED, Offer
from espalier.app.figures.captions import shape_text
from espalier.app.translation import tr
from espalier.model.graph.graph import Graph, out_port
from espalier.model.graph.meta import TensorMeta
from espalier.passes.edits.insert_after import InsertAfter
from espalier.passes.edits.leaves import Init

LAST, CHANNELS = -1, 1  # the axis whose size an operation is made for
PADDED = {"kernel_size": 3, "padding": 1}  # a window that keeps the size
SAME = {**PADDED, "stride": 1}


@dataclass(frozen=True, slots=True)
class Operation:
    """What can be inserted: the dimensions that it takes (none: any) and the axis that has to have a fixed size."""

    title: str
    op: str
    family: str
    ranks: tuple[int, ...] = ()
    sized: int | None = None
    attrs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    init: Init = "default"

    @property
    def edit(self) -> InsertAfter:
        """The edit that inserts it behind a node, for all users of its result."""
        return InsertAfter(op=self.op, attrs=dict(self.attrs), init=self.init)


def _simple(family: str, **words: str) -> list[Operation]:
    return [Operation(title, word, family) for word, title in words.items()]


OPERATIONS = (
    *_simple("activation", relu="ReLU", gelu="GELU", silu="SiLU", tanh="Tanh", sigmoid="Sigmoid", relu6="ReLU6",
             leaky_relu="LeakyReLU", prelu="PReLU", elu="ELU", selu="SELU", celu="CELU", mish="Mish",
             hardswish="Hardswish", hardsigmoid="Hardsigmoid", hardtanh="Hardtanh", softplus="Softplus",
             logsigmoid="LogSigmoid", softmax="Softmax", log_softmax="LogSoftmax"),
    Operation("LayerNorm", "layer_norm", "norm", sized=LAST),
    Operation("RMSNorm", "rms_norm", "norm", sized=LAST),
    Operation("BatchNorm1d", "BatchNorm1d", "norm", (2, 3), CHANNELS),
    Operation("BatchNorm2d", "BatchNorm2d", "norm", (4,), CHANNELS),
    Operation("BatchNorm3d", "BatchNorm3d", "norm", (5,), CHANNELS),
    Operation("InstanceNorm1d", "InstanceNorm1d", "norm", (3,), CHANNELS),
    Operation("InstanceNorm2d", "InstanceNorm2d", "norm", (4,), CHANNELS),
    Operation("GroupNorm", "group_norm", "norm", (2, 3, 4, 5), CHANNELS),
    *_simple("shape", dropout="Dropout", identity="Identity"),
    Operation("Dropout2d", "Dropout2d", "shape", (4,)),
    Operation("Linear (identity)", "linear", "layer", sized=LAST, init="identity"),
    Operation("Conv1d 1 (identity)", "Conv1d", "layer", (3,), CHANNELS, init="identity"),
    Operation("Conv2d 1 × 1 (identity)", "Conv2d", "layer", (4,), CHANNELS, init="identity"),
    Operation("Conv2d 3 × 3 (identity)", "Conv2d", "layer", (4,), CHANNELS, PADDED, "identity"),
    Operation("Conv3d 1 (identity)", "Conv3d", "layer", (5,), CHANNELS, init="identity"),
    Operation("MaxPool1d 3, same size", "MaxPool1d", "pooling", (3,), attrs=SAME),
    Operation("MaxPool2d 3 × 3, same size", "MaxPool2d", "pooling", (4,), attrs=SAME),
    Operation("AvgPool1d 3, same size", "AvgPool1d", "pooling", (3,), attrs=SAME),
    Operation("AvgPool2d 3 × 3, same size", "AvgPool2d", "pooling", (4,), attrs=SAME),
)  # fmt: skip


def refusal(graph: Graph, node: str, output: int = 0) -> str:
    """Why nothing can be inserted behind a result; empty where something can."""
    if graph.runs == "module":
        return RECORDED
    if graph[node].call == "output":
        return tr("Nothing follows the output. Select another node.")
    if output:
        return tr("It carries result {} of {}; modules are inserted on first results.", output, node)
    meta = graph[node].ports.get(out_port(output))
    if meta is None:
        return tr("{} gives no tensor. Select a node that does.", node)
    return "" if _floats(meta) else tr("{} gives {}. Select a node that gives floating-point values.", node, meta.dtype)


def operations_after(graph: Graph, node: str) -> list[tuple[Operation, Offer]]:
    """All operations behind a node: the possible ones first, then the others with the reason."""
    meta = graph[node].ports.get(out_port(0))
    blocked = refusal(graph, node)
    offers = [(o, Offer(o.title, o.edit, blocked or _reason(o, meta))) for o in OPERATIONS]
    return sorted(offers, key=lambda pair: bool(pair[1].reason))


def matching(offers: list[tuple[Operation, Offer]], text: str) -> list[tuple[Operation, Offer]]:
    """Those whose title, operation or family holds all words of a text; titles that begin with it come first."""
    words = text.casefold().split()
    found = [
        pair for pair in offers
        if all(w in f"{pair[0].title} {pair[0].op} {pair[0].family}".casefold() for w in words)
    ]  # fmt: skip
    return sorted(found, key=lambda p: (bool(p[1].reason), not p[0].title.casefold().startswith(" ".join(words))))


def _floats(meta: TensorMeta) -> bool:
    return meta.dtype.startswith(("float", "bfloat"))


def _reason(operation: Operation, meta: TensorMeta | None) -> str:
    """Why an operation cannot take a tensor; empty where it can."""
    if meta is None:
        return ""
    rank = len(meta.shape)
    if operation.ranks and rank not in operation.ranks:
        return tr("takes {} dimensions, not {}", _listed(operation.ranks), shape_text(meta))
    if operation.sized is not None:
        axis = rank - 1 if operation.sized == LAST else operation.sized
        size = meta.shape[axis] if 0 <= axis < rank else None
        if not isinstance(size, int):
            return tr("needs a fixed size on axis {}, not {}", axis, size or shape_text(meta))
    return ""


def _listed(ranks: tuple[int, ...]) -> str:
    return " or ".join(map(str, ranks))
