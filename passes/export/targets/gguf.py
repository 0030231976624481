"""Formats as the block types of ggml, which llama.cpp reads: whole numbers with a float16 scale for 32 of a row.

Types: https://github.com/ggml-org/ggml, ggml-common.h (block_q8_0, block_q5_0, block_q4_0, block_mxfp4).
"""

from __future__ import annotations

from collections.abc import Iterator

from espalier.model.formats.base import Format
from espalier.model.formats.block_fp import BlockFP
from espalier.model.formats.integer import Integer
from espalier.model.formats.mxfp import MXFP
from espalier.model.formats.mxint import MXInt
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ports import choice
from espalier.model.graph.views import view_at
from espalier.passes.export.llama_cpp.architectures import ARCHITECTURES
from espalier.passes.export.targets import LEAVE, TARGETS, No, Target, Unheld, stored_name

BLOCK = 32  # elements that share a scale
MODULES = ("Linear", "Embedding", "Conv1D")
Q8 = "scaled_integer(width=8, granularity=group, group=32, scale_dtype=float16)"
_GROUPS = "scaled_integer(width={}, granularity=group, group=32, scale_dtype=float16)"
OWN = {"Q8_0": Q8, "Q5_0": _GROUPS.format(5), "Q4_0": _GROUPS.format(4), "MXFP4": "mxfp(element=e2m1)"}
CHOOSE = f"Choose {Q8} for Q8_0, with width=4 for Q4_0."


def type_of(fmt: Format, columns: int) -> str | No:
    """The narrowest type that holds rows of `columns` in a format: Q4_0, Q5_0, Q8_0 or MXFP4."""
    if columns % BLOCK:
        return No(f"rows of {columns} are no multiple of {BLOCK}", LEAVE)
    if fmt.stochastic:
        return No("it rounds at random", CHOOSE)
    match fmt:
        case ScaledInteger():
            return _scaled(fmt)
        case Integer():
            # One bit fewer where there is no sign: codes are signed.
            return _integer(fmt.width + (not fmt.signed))
        case MXInt() | BlockFP() if fmt.rows == 1 and not fmt.block % BLOCK:
            return _integer(fmt.width)
        case MXFP(element="e2m1", block=32, rows=1):
            return "MXFP4"
        case _:
            return No(f"it is no whole number with a float16 scale for {BLOCK} of a row", CHOOSE)


def _scaled(fmt: ScaledInteger) -> str | No:
    if not fmt.symmetric:
        return No("codes have no zero point", CHOOSE)
    if fmt.granularity == "group" and fmt.group % BLOCK:
        return No(f"groups of {fmt.group} are no multiple of {BLOCK}", CHOOSE)
    if fmt.scale_dtype != "float16":
        return No(f"scales are float16, not {fmt.scale_dtype}", CHOOSE)
    return _integer(fmt.width)


def _integer(bits: int) -> str | No:
    if bits > 8:
        return No(f"codes have at most 8 bits, not {bits}", CHOOSE)
    return "Q4_0" if bits <= 4 else "Q5_0" if bits == 5 else "Q8_0"


def weight_type(node: Node, graph: Graph) -> str | No | None:
    """The type of a module's weight; None for one without a format, and for vectors, which stay float."""
    chosen = choice(node, "weight")
    name = stored_name(node, "weight", graph) if chosen else None
    if chosen is None or name is None or len(graph.weights[name].shape) < 2:
        return None
    module = str(node.attrs.get("class", "")) if node.call == "call_module" else ""
    if module not in MODULES:
        return No(f"{module or node.op} is no {', '.join(MODULES[:-1])} or {MODULES[-1]} module", LEAVE)
    view, shape = view_at(node, "weight"), graph.weights[name].shape
    return type_of(chosen.format, (view.shape(shape) if view else shape)[-1])


def check(node: Node, graph: Graph) -> Iterator[Unheld]:
    """The choices of a node that a GGUF file has no equal of."""
    if node.adapters:
        yield Unheld(
            node.id, "weight", "LoRA adapter", "the file holds one model", "Fuse the adapters first.", firm=True
        )
    held = weight_type(node, graph)
    if isinstance(held, No):
        yield held.at(node, "weight")
    for port in node.precision:
        if port.startswith("data"):
            yield No("the file says nothing of activations", LEAVE).at(node, port)
    for port, sparsity in node.sparsity.items():
        if sparsity.flows:
            yield Unheld(node.id, port, "pruned activation", "activations are not pruned", "Remove it.", True)


def refuses(architecture: str, head: str) -> str:
    """Why no file of a model is written: `ARCHITECTURES` with a head that predicts the next token."""
    if architecture not in ARCHITECTURES:
        return f"no file of {architecture or 'this model'} is written, only of {', '.join(ARCHITECTURES)}"
    return "" if head == "causal-lm" else "the file has a head for the next token, and this model has another"


TARGETS.add("gguf", Target(check, lambda _: OWN, refuses))
