"""Captions of nodes: name, secondary line, and the width they need.

Widths are estimated from a table, so that the layout needs no Qt and does not depend on formats and masks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import ceil

from espalier.app.theme import NODE_LABEL, SECONDARY
from espalier.model.graph.graph import Node
from espalier.model.graph.meta import TensorMeta
from espalier.model.graph.ops import spec

TITLES: dict[str, str] = {
    "linear": "Linear", "conv1d": "Conv1d", "conv2d": "Conv2d", "conv3d": "Conv3d", "layer_norm": "LayerNorm",
    "group_norm": "GroupNorm", "rms_norm": "RMSNorm", "batch_norm": "BatchNorm", "embedding": "Embedding",
    "instance_norm": "InstanceNorm", "gelu": "GELU", "relu": "ReLU", "silu": "SiLU", "relu6": "ReLU6",
    "tanh": "tanh", "elu": "ELU", "selu": "SELU", "scaled_dot_product_attention": "attention",
    "cross_entropy": "cross-entropy", "__and__": "and", "__or__": "or", "placeholder": "input",
    "get_attr": "constant", "dropout": "Dropout", "identity": "Identity",
    **{f"{kind}_pool{d}d": f"{name}Pool{d}d" for d in (1, 2, 3) for kind, name in (
        ("max", "Max"), ("avg", "Avg"), ("adaptive_avg", "AdaptiveAvg"), ("adaptive_max", "AdaptiveMax"))},
}  # fmt: skip
BADGE_ROOM = 62.0
MULTIPLIES = ("linear", "matmul", "embedding")  # categories with a badge also in float, for which room is reserved
NODE_HEIGHT = 40.0
BESIDE = 25.0  # a node's margins, and the gap between its name and a badge
BADGES_FROM = 8.0  # badges begin right of this
_ADVANCES: dict[str, float] = {
    letter: width
    for width, letters in (
        (0.3, " ',.IJijl·"), (0.35, "-/:;\\f|"), (0.4, "!()[]rt›"), (0.5, "\"*_`sz"), (0.55, "?Lc"),
        (0.6, "FPTYaekovxy"), (0.7, "ABCRVXZ"), (0.75, "DGHNU"), (0.8, "&OQw"), (0.85, "#+<=>M^~×→↳−"), (1.0, "%m@W…"),
    )
    for letter in letters
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Caption:
    """The texts of a node and its width on the canvas; `mute`: they do not contain the output's shape."""

    name: str
    detail: str
    category: str
    width: float
    mute: bool = False


def text_width(text: str, size: float, bold: bool = False) -> float:
    """Estimated width of `text` at `size` px in a wide UI font (DejaVu Sans; most others are narrower)."""
    return size * sum(map(_advance, text)) * (1.13 if bold else 1.0)


def _advance(letter: str) -> float:
    return _ADVANCES.get(letter, 0.65)


def leaves_name(name: float, badge: float, width: float) -> bool:
    """Whether a name and a badge of these widths fit a node of `width`."""
    return name <= width - BESIDE - badge


def adapter_text(label: str, room: float, wide: Callable[[str], float]) -> str:
    """Text of the adapter's badge that fits `room`: the label, its rank alone, or nothing."""
    return next((t for t in (label, label.removeprefix("LoRA ")) if wide(t) + 10 <= room), "")


def shape_text(meta: TensorMeta | None) -> str:
    """Format a shape: `batch × seq × 128`, or `scalar`."""
    if meta is None:
        return ""
    return " × ".join(str(d).replace("*", "·") for d in meta.shape) or "scalar"


def tail(path: str) -> str:
    """The last part of a dotted path, with the part before it if it is a number."""
    head, _, last = path.rpartition(".")
    return f"{head.rpartition('.')[2]}.{last}" if last.isdigit() and head else last


def title(op: str) -> str:
    """Display name of an op."""
    return TITLES.get(op, op)


def caption(node: Node, lone: bool = False) -> Caption:
    """The caption of `node`, cached; `lone`: the node is its module's only one and takes the module's name."""
    call = node.call
    if node.annotation.title:
        name = node.annotation.title
    elif lone and call == "call_function":
        name = tail(node.module_path)
    elif lone or call in _NAMED:
        name = tail(node.target)
    else:
        name = ""
    weight, out = node.ports.get("weight"), node.ports.get("data_out")
    return _caption(
        node.op,
        call,
        name,
        weight.shape if weight else None,
        out.shape if out else None,
        out.dtype if out else "",
    )


_NAMED = frozenset(("call_module", "placeholder", "get_attr"))


@lru_cache(maxsize=100_000)
def _caption(
    op: str,
    call: str,
    name: str,
    weight: tuple[int | str, ...] | None,
    out: tuple[int | str, ...] | None,
    dtype: str,
) -> Caption:
    row = spec(op)
    detail = _detail(op, call, bool(name), weight, out, dtype)
    name = name or title(op)
    badge = BADGE_ROOM if row.quantisable and row.category in MULTIPLIES else 0.0
    need = max(text_width(name, NODE_LABEL) + badge, text_width(detail, SECONDARY) + badge * 0.6)
    width = min(max(8 * ceil((need + 27) / 8), 104), 272)
    mute = (
        row.category in ("linear", "embedding") and out is not None and shape_text(TensorMeta(out, dtype)) not in detail
    )
    return Caption(name, detail, row.category, float(width), mute)


def _detail(
    op: str,
    call: str,
    named: bool,
    weight: tuple[int | str, ...] | None,
    out: tuple[int | str, ...] | None,
    dtype: str,
) -> str:
    shape = shape_text(TensorMeta(out, dtype)) if out is not None else ""
    if op == "linear" and weight and len(weight) == 2:
        transposed = bool(out) and out[-1] == weight[1] != weight[0]  # stored transposed, as in GPT-2
        return f"Linear {weight[0]} → {weight[1]}" if transposed else f"Linear {weight[1]} → {weight[0]}"
    if op.startswith("conv") and weight and len(weight) > 2:
        return f"{title(op)} {weight[1]} → {weight[0]}, {'×'.join(map(str, weight[2:]))}"
    if op == "embedding" and weight and len(weight) == 2:
        return f"Embedding {weight[0]} × {weight[1]}"
    if weight and spec(op).category == "norm":
        return f"{title(op)} {' × '.join(map(str, weight))}"
    if call == "placeholder":
        return f"{shape} {dtype}".strip()
    return f"{title(op)} · {shape}" if named and shape else shape or title(op)
