"""Formats as compressed-tensors' QuantizationArgs (0.20), the form in which vLLM and transformers read folders.

Schema: compressed_tensors.quantization.QuantizationArgs, https://github.com/vllm-project/compressed-tensors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from espalier.model.formats.base import Format
from espalier.model.formats.binary_scaled import BinaryScaled
from espalier.model.formats.block_fp import BlockFP
from espalier.model.formats.integer import Integer
from espalier.model.formats.minifloat_ieee import MinifloatIEEE
from espalier.model.formats.mxfp import MXFP
from espalier.model.formats.mxint import MXInt
from espalier.model.formats.nvfp4 import NVFP4
from espalier.model.formats.scaled_element import ScaledElement
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.formats.ternary import Ternary
from espalier.model.graph.caches import OP
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ports import choice
from espalier.passes.export.targets import LEAVE, TARGETS, No, Target, Unheld, stored_name
from espalier.passes.export.targets.compressed_tensors_args import Args
from espalier.passes.export.targets.kv_cache import unheld_cache

MODULES = ("Linear", "Embedding")
WIDEST = 8  # bits of an integer
HALVES = ("bfloat16", "float16")
FP8 = "minifloat_ieee(width=8, exponent_width=4, reserved=nan)"


@dataclass(frozen=True, slots=True)
class Scheme:
    """QuantizationScheme of a module: how its weight is stored, and how its input is rounded."""

    format: str
    weights: Args
    inputs: Args | None = None

    def to_json(self, targets: list[str]) -> dict[str, Any]:
        """A config group of `config.json`."""
        inputs = self.inputs.to_json() if self.inputs else None
        return {"targets": targets, "format": self.format, "weights": self.weights.to_json(),
                "input_activations": inputs, "output_activations": None}  # fmt: skip


# -- weights


def weight_args(fmt: Format, shape: tuple[int, ...], dtype: str) -> Args | No:
    """The arguments of a weight [rows, columns] that is read in `dtype`."""
    if fmt.stochastic:
        return No("it rounds at random", "Choose a format without chance.")
    found = _weight_args(fmt, dtype)
    if isinstance(found, Args) and found.group_size and shape[-1] % found.group_size:
        why = f"groups of {found.group_size} do not divide rows of {shape[-1]}"
        return No(why, _dividing(fmt, shape[-1], dtype))
    return found


def _dividing(fmt: Format, columns: int, dtype: str) -> str:
    """What to choose where groups do not divide rows of so many elements."""
    match fmt:
        case MXFP() | NVFP4():  # whose blocks have one size
            return _eight(dtype)
        case MXInt() | BlockFP():
            return f"Choose a block that divides {columns}, or {_eight(dtype).removeprefix('Choose ')}"
        case _:
            return f"Choose a group that divides {columns}, or granularity=channel."


def _weight_args(fmt: Format, dtype: str) -> Args | No:
    match fmt:
        case ScaledInteger():
            return _scaled(fmt, dtype)
        case ScaledElement():
            return _element(fmt, dtype)
        case Integer():
            return _narrow(fmt.width, Args(fmt.width, "tensor", symmetric=fmt.signed))
        case Ternary() | BinaryScaled():
            return Args(2, fmt.granularity)
        case MXInt() | BlockFP() if fmt.rows == 1:
            return _narrow(fmt.width, Args(fmt.width, "group", group_size=fmt.block))
        case MinifloatIEEE(width=8, exponent_width=4, reserved="nan"):
            return Args(8, "tensor", "float")
        case MXFP() | NVFP4():
            return _small_float(fmt, dtype)
        case _:
            return No("its values are no integers times scales", _eight(dtype))


def _eight(dtype: str) -> str:
    """A format that any weight of this type can have."""
    return f"Choose scaled_integer(width=8{_scales(dtype)})."


def _scales(dtype: str) -> str:
    """Scales of a weight's own type."""
    return f", scale_dtype={dtype}" if dtype in HALVES else ""


def own(dtype: str) -> dict[str, str]:
    """Its formats by the names of its compressors."""
    group = "scaled_integer(width=4, granularity=group, group={}" + _scales(dtype) + ")"
    return {"int8 per channel": f"scaled_integer(width=8{_scales(dtype)})", "int4 in groups of 128": group.format(128),
            "int4 in groups of 32": group.format(32), "float8": FP8, "nvfp4": "nvfp4",
            "mxfp4": "mxfp(element=e2m1)"}  # fmt: skip


def _narrow(bits: int, args: Args) -> Args | No:
    if 2 <= bits <= WIDEST:
        return args
    return No(f"integers have 2 to {WIDEST} bits, not {bits}", f"Choose a width of 2 to {WIDEST}.")


def _scaled(fmt: ScaledInteger, dtype: str) -> Args | No:
    if dtype in HALVES and fmt.scale_dtype != dtype:
        return No(f"scales are read in the weight's {dtype}, not in {fmt.scale_dtype}", f"Set scale_dtype={dtype}.")
    group = fmt.group if fmt.granularity == "group" else None
    return _narrow(fmt.width, Args(fmt.width, fmt.granularity, symmetric=fmt.symmetric, group_size=group))


def _element(fmt: ScaledElement, dtype: str) -> Args | No:
    if dtype in HALVES and fmt.scale_dtype != dtype:
        return No(f"scales are read in the weight's {dtype}, not in {fmt.scale_dtype}", f"Set scale_dtype={dtype}.")
    if fmt.integer:
        group = fmt.group if fmt.granularity == "group" else None
        return Args(fmt.width, fmt.granularity, group_size=group)
    if fmt.element != "e4m3" or fmt.granularity == "group":
        return No("its small floats are e4m3 with a scale of the tensor or of each row",
                  "Choose scaled_element(element=e4m3, granularity=channel).")  # fmt: skip
    return Args(8, fmt.granularity, "float")


def _small_float(fmt: MXFP | NVFP4, dtype: str) -> Args | No:
    """FP4 and MX: their blocks are fixed, and readers compute them in bfloat16."""
    four, size = isinstance(fmt, NVFP4), 16 if isinstance(fmt, NVFP4) else 32
    if fmt.rows != 1 or fmt.block != size:
        return No(f"its blocks are {size} elements of a row", f"Set block={size} and rows=1.")
    if not four and fmt.element not in ("e2m1", "e4m3"):
        return No("its elements are e2m1 or e4m3", "Choose mxfp(element=e2m1), or e4m3.")
    if dtype != "bfloat16":
        return No(f"readers make bfloat16 of it, and the weight is {dtype}",
                  "Convert the model to bfloat16 before it is opened, or choose mxint(width=8).")  # fmt: skip
    if isinstance(fmt, NVFP4):
        return Args(4, "tensor_group", "float", group_size=16, scale_dtype="float8_e4m3fn")
    return Args(4 if fmt.element == "e2m1" else 8, "group", "float", group_size=32, scale_dtype="uint8")


# -- activations


def input_args(fmt: Format, scale: str | None) -> Args | No:
    """The arguments of a module's input; `scale`: the name of a calibrated scale, None for one from the data."""
    match fmt:
        case Integer(rounding="nearest_even"):
            return _narrow(fmt.width, Args(fmt.width, "tensor", symmetric=fmt.signed))
        case ScaledInteger(granularity="tensor") if scale:
            return _narrow(fmt.width, Args(fmt.width, "tensor", symmetric=fmt.symmetric))
        case ScaledInteger(granularity="tensor" | "channel") if not scale:
            strategy = "tensor" if fmt.granularity == "tensor" else "token"
            return _narrow(fmt.width, Args(fmt.width, strategy, symmetric=fmt.symmetric, dynamic=True))
        case MinifloatIEEE(width=8, exponent_width=4, reserved="nan"):
            return Args(8, "tensor", "float")
        case ScaledElement() if fmt.integer or fmt.element == "e4m3":
            return _element_input(fmt, scale)
        case MXFP(element="e2m1" | "e4m3", block=32, rows=1):
            bits = 4 if fmt.element == "e2m1" else 8
            return Args(bits, "group", "float", group_size=32, dynamic=True, scale_dtype="uint8")
        case NVFP4():
            return No("the scale of the whole input is taken from the data, and a calibrated one is read",
                      "Choose mxfp(element=e2m1), or leave inputs in float.")  # fmt: skip
        case _:
            return No("inputs are rounded to integers with a scale of the tensor or of each token, or to E4M3",
                      f"Choose scaled_integer(width=8, granularity=channel), or {FP8}.")  # fmt: skip


def _element_input(fmt: ScaledElement, scale: str | None) -> Args | No:
    kind = "int" if fmt.integer else "float"
    if scale and fmt.granularity == "tensor":
        return Args(fmt.width, "tensor", kind)
    if scale or fmt.granularity == "group":
        return No("inputs have a scale of the tensor or of each token", "Choose granularity=channel or tensor.")
    return Args(fmt.width, "tensor" if fmt.granularity == "tensor" else "token", kind, dynamic=True)


def rounding(fmt: Format, scale: str | None, rank: int = 3, dtype: str = "float32") -> str:
    """What compressed-tensors (0.20) does otherwise with an input of `rank` axes; nothing where it is the same."""
    match fmt:
        case ScaledInteger(granularity="channel") | ScaledElement(granularity="channel") if rank < 3 and not scale:
            return "an input of two axes has one scale there, and one for each row here"
        case ScaledInteger(symmetric=True) if scale:
            return f"the lowest code is {-fmt.top - 1} there and {-fmt.top} here"
        case ScaledInteger(symmetric=True):
            return f"the scale is max|x|/{fmt.top + 0.5:g} there and max|x|/{fmt.top} here"
        case ScaledElement() if dtype in HALVES:
            return f"x/s is rounded to {dtype} there and is float32 here"
        case MXFP():
            return "the scale is twice as large there where a block's largest magnitude is at least 1.75·2^k"
        case ScaledInteger() | Integer(signed=False):
            return "x/s + zero point is rounded there, x/s here, which differ at ties"
        case _:
            return ""


def storage(weights: Args, inputs: Args | None, module: str) -> str:
    """The compression format of a weight. Readers (0.20) take neither packed embeddings nor packed zero points of rows
    and groups: those are stored in whole bytes.
    """
    if weights.type == "float":
        if weights.num_bits == 4:
            return "nvfp4-pack-quantized" if weights.strategy == "tensor_group" else "mxfp4-pack-quantized"
        return "mxfp8-quantized" if weights.strategy == "group" else "float-quantized"
    zeros = not weights.symmetric and weights.strategy != "tensor"
    whole = module == "Embedding" or zeros or (inputs is not None and weights.num_bits == WIDEST)
    return "int-quantized" if whole else "pack-quantized"


def _without_zero(args: Args) -> Args:
    """Codes less their zero points, in one bit more: readers (0.20) take no packed zero points of rows and groups."""
    if args.symmetric or args.strategy == "tensor" or args.num_bits == WIDEST:
        return args
    return replace(args, num_bits=args.num_bits + 1, symmetric=True)


# -- a node


def scheme_of(node: Node, graph: Graph, *, shared: bool = False) -> Scheme | None:
    """The scheme of a module, with no more than what can be held; None for a module without a format of its weight.

    `shared`: in whole bytes, as an embedding that may have the same tensor.
    """
    args = _weights(node, graph)
    if not isinstance(args, Args):
        return None
    chosen = node.precision.get("data_in")
    inputs = input_args(chosen.format, chosen.scale) if chosen else None
    inputs = inputs if isinstance(inputs, Args) and _module(node) == "Linear" else None
    args = args if shared or _module(node) == "Embedding" else _without_zero(args)
    return Scheme(storage(args, inputs, "Embedding" if shared else _module(node)), args, inputs)


def _module(node: Node) -> str:
    return str(node.attrs.get("class", "")) if node.call == "call_module" else ""


def _weights(node: Node, graph: Graph) -> Args | No | None:
    chosen = choice(node, "weight")
    name = stored_name(node, "weight", graph) if chosen else None
    if chosen is None or name is None or len(graph.weights[name].shape) < 2:
        return None
    module = _module(node)
    if module not in MODULES:
        return No(f"{module or node.op} is no {' or '.join(MODULES)} module", LEAVE)
    weight = graph.weights[name]
    args = weight_args(chosen.format, weight.shape, weight.dtype)
    if isinstance(args, Args) and args.type == "float" and args.num_bits == 4 and module == "Embedding":
        return No("transformers reads no embedding of packed floats", _eight(weight.dtype))
    return args


def check(node: Node, graph: Graph) -> Iterator[Unheld]:
    """The choices of a node that compressed-tensors has no equal of."""
    if node.adapters:
        yield Unheld(node.id, "weight", "LoRA adapter", "a folder has no adapters beside integers",
                     "Fuse the adapters first.", firm=True)  # fmt: skip
    held = _weights(node, graph)
    if isinstance(held, No):
        yield held.at(node, "weight")
    yield from _unheld_inputs(node, isinstance(held, Args))
    if node.op == OP and (no := unheld_cache(node, graph)):
        yield no.at(node, "data_out")
    for port, sparsity in node.sparsity.items():
        if sparsity.flows:
            yield Unheld(node.id, port, "pruned activation", "activations are not pruned", "Remove it.", True)


def _unheld_inputs(node: Node, weighted: bool) -> Iterator[Unheld]:
    """Formats of inputs that a folder cannot hold; `weighted`: the weight has one that it holds."""
    for port, chosen in node.precision.items():
        if not port.startswith("data") or node.op == OP:
            continue
        found: Args | No = No("only inputs of Linear modules are rounded", LEAVE)
        if port == "data_in" and _module(node) == "Linear":
            found = input_args(chosen.format, chosen.scale)
            if isinstance(found, Args) and not weighted:
                found = No("inputs are rounded where the weight has a format as well", "Choose one for the weight.")
        if isinstance(found, No):
            yield found.at(node, port)


def refuses(architecture: str, _: str) -> str:
    """Why no folder of a model is written: transformers is to open it."""
    return "" if architecture else "the model is none of transformers' own classes"


TARGETS.add("compressed-tensors", Target(check, own, refuses))
