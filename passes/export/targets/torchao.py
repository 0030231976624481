"""Formats as torchao's tensors (0.18), of those that transformers (5.24) reads and that a processor computes with.

Observed with both on the processor (tests/passes/export/torchao).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from espalier.model.formats.base import Format
from espalier.model.formats.binary_scaled import BinaryScaled
from espalier.model.formats.blocks import PowerBlocks
from espalier.model.formats.integer import Integer
from espalier.model.formats.minifloat_ieee import MinifloatIEEE
from espalier.model.formats.nvfp4 import NVFP4
from espalier.model.formats.scaled_element import ScaledElement
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.formats.ternary import Ternary
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ports import choice
from espalier.passes.export.targets import LEAVE, TARGETS, No, Target, Unheld, activation_formats, stored_name
from espalier.passes.export.targets.onnx import largest_code

MODULES = ("Linear", "Embedding")
DTYPES = ("float32", "bfloat16", "float16")
INT8, INTX, FLOAT8, NV = "Int8Tensor", "IntxUnpackedToInt8Tensor", "Float8Tensor", "NVFP4Tensor"
WIDEST = 8  # bits of a code
SMALL_FLOATS = ("e4m3", "e5m2")
CHOOSE = "Choose scaled_integer(width=8)."
OWN = {"int8 per channel": "scaled_integer(width=8)",
       "int8 in groups of 32": "scaled_integer(width=8, granularity=group, group=32)",
       "int4 in groups of 32": "scaled_integer(width=4, granularity=group, group=32)",
       "float8 per channel": "scaled_element(element=e4m3)", "nvfp4": "nvfp4"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Inputs:
    """How an input is rounded to 8-bit integers: scales from the data, of the `tensor` or of each token (`channel`)."""

    granularity: str
    symmetric: bool


@dataclass(frozen=True, slots=True)
class Scheme:
    """How the weight of a module is stored: the class of the tensor, its scales, and how the input is rounded.

    `element`: of small floats. `group`: elements of a row with a scale, for granularity group.
    """

    tensor: str
    bits: int
    granularity: str
    group: int = 0
    symmetric: bool = True
    element: str = ""
    inputs: Inputs | None = None

    def block(self, shape: tuple[int, ...]) -> list[int]:
        """Rows and columns of a weight that share a scale."""
        rows, columns = shape
        match self.granularity:
            case "tensor":
                return [rows, columns]
            case "channel":
                return [1, columns]
            case _:
                return [1, self.group]


# -- weights


def weight_scheme(fmt: Format, shape: tuple[int, ...], dtype: str) -> Scheme | No:
    """How a weight [rows, columns] is stored without rounding of inputs, or why it cannot be."""
    if fmt.stochastic:
        return No("it rounds at random", "Choose a format without chance.")
    if dtype not in DTYPES:
        return No(f"weights are float32, bfloat16 or float16, not {dtype}", "Open the model in float32.")
    found = _weight_scheme(fmt)
    if isinstance(found, Scheme) and found.group and shape[-1] % found.group:
        why = f"groups of {found.group} do not divide rows of {shape[-1]}"
        return No(why, _dividing(fmt, shape[-1]))
    return found


def _dividing(fmt: Format, columns: int) -> str:
    """What to choose where groups do not divide rows of so many elements."""
    match fmt:
        case NVFP4():  # whose blocks have one size
            return CHOOSE
        case PowerBlocks():
            return f"Choose a block that divides {columns}, or scaled_integer(width=8)."
        case _:
            return f"Choose a group that divides {columns}, or granularity=channel."


def _weight_scheme(fmt: Format) -> Scheme | No:
    match fmt:
        case ScaledInteger():
            return _integer(fmt.width, fmt.granularity, fmt.group, symmetric=fmt.symmetric)
        case ScaledElement() if fmt.integer:
            return _integer(fmt.width, fmt.granularity, fmt.group)
        case ScaledElement() if fmt.element in SMALL_FLOATS:
            return _float(fmt.granularity, fmt.element, fmt.group)
        case Integer():
            return _integer(fmt.width, "tensor", symmetric=fmt.signed)
        case Ternary() | BinaryScaled():
            return _integer(2, fmt.granularity)
        case MinifloatIEEE(width=8) if element := _element(fmt):
            return _float("tensor", element)
        case NVFP4():
            whole = fmt.blocks.block == 16 and fmt.rows == 1
            return Scheme(NV, 4, "group", 16) if whole else No("its blocks are 16 elements of a row", "Set block=16.")
        case PowerBlocks():
            return _blocks(fmt)
        case _:
            return No("its values are no integers of 8 bits, E4M3 or E5M2 times scales", CHOOSE)


def _element(fmt: MinifloatIEEE) -> str:
    """The name of a small float of torch, whatever its exponent's bias; empty for others."""
    return {(4, "nan"): "e4m3", (5, "inf"): "e5m2"}.get((fmt.exponent_width, fmt.reserved), "")


def _blocks(fmt: PowerBlocks) -> Scheme | No:
    """Small floats where they are of 8 bits, else whole numbers."""
    if fmt.blocks.rows != 1:
        return No("its blocks lie in one row", "Set rows=1.")
    element = str(getattr(fmt, "element", ""))  # of MXFP
    if element in SMALL_FLOATS:
        return _float("group", element, fmt.blocks.block)
    largest = largest_code(fmt)
    if largest >= 2 ** (WIDEST - 1):
        return No("its values are no integers of 8 bits times a scale of the block", CHOOSE)
    return _integer(int(largest).bit_length() + 1, "group", fmt.blocks.block)


def _integer(bits: int, granularity: str, group: int = 0, *, symmetric: bool = True) -> Scheme | No:
    """8 bits with a zero point of 0 are torchao's Int8Tensor; its products leave other zero points of rows out."""
    if not 2 <= bits <= WIDEST:
        return No(f"integers have 2 to {WIDEST} bits, not {bits}", f"Choose a width of 2 to {WIDEST}.")
    tensor = INT8 if bits == WIDEST and symmetric else INTX
    return Scheme(tensor, bits, granularity, group if granularity == "group" else 0, symmetric)


def _float(granularity: str, element: str, group: int = 0) -> Scheme:
    return Scheme(FLOAT8, 8, granularity, group if granularity == "group" else 0, element=element)


# -- activations


def with_inputs(weights: Scheme, fmt: Format, scale: str | None) -> Scheme | No:
    """The scheme of a module whose input is rounded, too, or why it cannot be; `scale`: of a calibrated one."""
    inputs = _inputs(fmt, scale)
    if isinstance(inputs, No):
        return inputs
    if weights.tensor not in (INT8, INTX):
        return No("inputs are rounded beside weights of integers alone", "Leave inputs in float.")
    bits, grouped = weights.bits, weights.granularity == "group"
    if weights.symmetric and not grouped:
        return Scheme(INT8, bits, weights.granularity, inputs=inputs)
    if inputs == Inputs("channel", symmetric=False):
        return Scheme(INTX, bits, weights.granularity, weights.group, weights.symmetric, inputs=inputs)
    what = "in groups" if grouped else "with zero points"
    return No(f"beside weights {what}, inputs have zero points of each token",
              "Choose scaled_integer(width=8, granularity=channel, symmetric=false) for inputs.")  # fmt: skip


def _inputs(fmt: Format, scale: str | None) -> Inputs | No:
    match fmt:
        case ScaledInteger(width=8, granularity="tensor" | "channel"):
            found = Inputs(fmt.granularity, fmt.symmetric)
        case ScaledElement(element="int8", granularity="tensor" | "channel"):
            found = Inputs(fmt.granularity, symmetric=True)
        case _:
            return No("inputs are rounded to 8-bit integers with a scale from the data, of the tensor or of each token",
                      "Choose scaled_integer(width=8, granularity=channel).")  # fmt: skip
    if scale is not None:
        return No("scales of inputs are taken from the data, as transformers reads no stored ones of torchao",
                  "Choose the format anew, without a calibrated scale.")  # fmt: skip
    return found


def rounding(fmt: Format) -> str:
    """What torchao (0.18) does otherwise with an input."""
    match fmt:
        case ScaledInteger(symmetric=True):
            return f"the scale is max|x|/{fmt.top + 0.5:g} there and max|x|/{fmt.top} here"
        case ScaledElement():
            return (
                "x·(1/s) is rounded there and x/s here, which differ where the lowest value has the largest magnitude"
            )
        case _:
            return "x·(1/s) is rounded there and x/s here, which differ at ties"


# -- a node


def scheme_of(node: Node, graph: Graph) -> Scheme | None:
    """The scheme of a module, with no more than what can be held; None for a module without a format of its weight."""
    weights = _weights(node, graph)
    if not isinstance(weights, Scheme):
        return None
    chosen = node.precision.get("data_in")
    if chosen is None or _module(node) != "Linear":
        return weights
    found = with_inputs(weights, chosen.format, chosen.scale)
    return found if isinstance(found, Scheme) else weights


def _module(node: Node) -> str:
    return str(node.attrs.get("class", "")) if node.call == "call_module" else ""


def _weights(node: Node, graph: Graph) -> Scheme | No | None:
    chosen = choice(node, "weight")
    name = stored_name(node, "weight", graph) if chosen else None
    if chosen is None or name is None or len(graph.weights[name].shape) < 2:
        return None
    module = _module(node)
    if module not in MODULES:
        return No(f"{module or node.op} is no {' or '.join(MODULES)} module", LEAVE)
    weight = graph.weights[name]
    found = weight_scheme(chosen.format, weight.shape, weight.dtype)
    if isinstance(found, Scheme) and found.tensor == NV and module == "Embedding":
        return No("torchao looks no rows up in NVFP4", CHOOSE)
    return found


def check(node: Node, graph: Graph) -> Iterator[Unheld]:
    """The choices of a node that torchao has no equal of."""
    if node.adapters:
        yield Unheld(node.id, "weight", "LoRA adapter", "a folder has no adapters beside integers",
                     "Fuse the adapters first.", firm=True)  # fmt: skip
    weights = _weights(node, graph)
    if isinstance(weights, No):
        yield weights.at(node, "weight")
    for port, chosen in activation_formats(node, graph).items():
        if stored_name(node, port, graph):
            continue
        found: Scheme | No = No("only inputs of Linear modules are rounded", LEAVE)
        if port == "data_in" and _module(node) == "Linear":
            found = No("inputs are rounded where the weight has a format as well", "Choose one for the weight.")
            if isinstance(weights, Scheme):
                found = with_inputs(weights, chosen.format, chosen.scale)
        if isinstance(found, No):
            yield found.at_activation(node, port)
    for port, sparsity in node.sparsity.items():
        if sparsity.flows:
            yield Unheld(node.id, port, "pruned activation", "activations are not pruned", "Remove it.", True)


def refuses(architecture: str, _: str) -> str:
    """Why no folder of a model is written: transformers is to open it."""
    return "" if architecture else "the model is none of transformers' own classes"


TARGETS.add("torchao", Target(check, lambda _: OWN, refuses))
