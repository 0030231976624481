"""The ops table: what each operation is called, which kind the labs give it, how it is coloured and counted."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from model.graph import Node
    from model.meta import TensorMeta

Kind = Literal["module_related_func", "module", "builtin_func", "implicit_func", "placeholder", "get_attr", "output",
               "opaque"]  # fmt: skip
Category = Literal["linear", "matmul", "activation", "norm", "embedding", "add", "shape", "io", "other"]
Symbols = dict[str, int]


@dataclass(frozen=True, slots=True)
class OpSpec:
    """One row: name, kind, colour category, ports that can be quantised, and multiply–accumulates."""

    name: str
    kind: Kind = "builtin_func"
    category: Category = "other"
    quantisable: tuple[str, ...] = ()
    macs: Callable[[Node, Symbols], int] | None = None


def _sizes(node: Node, port: str, symbols: Symbols) -> tuple[int, ...]:
    meta: TensorMeta | None = node.ports.get(port)
    return meta.sizes(symbols) if meta else ()


def _contract_last(node: Node, symbols: Symbols) -> int:
    return math.prod(_sizes(node, "data_out", symbols)) * (_sizes(node, "data_in", symbols) or (0,))[-1]


def _conv(node: Node, symbols: Symbols) -> int:
    weight = _sizes(node, "weight", symbols)
    return math.prod(_sizes(node, "data_out", symbols)) * math.prod(weight[1:])


def _conv_transposed(node: Node, symbols: Symbols) -> int:
    weight = _sizes(node, "weight", symbols)
    return math.prod(_sizes(node, "data_in", symbols)) * math.prod(weight[1:])


def _addmm(node: Node, symbols: Symbols) -> int:
    return math.prod(_sizes(node, "data_out", symbols)) * (_sizes(node, "data_in_1", symbols) or (0,))[-1]


def _attention(node: Node, symbols: Symbols) -> int:
    query, key, value = (_sizes(node, p, symbols) for p in ("data_in", "data_in_1", "data_in_2"))
    if not (query and key and value):
        return 0
    return math.prod(query[:-1]) * key[-2] * (query[-1] + value[-1])


_DENSE = ("data_in", "weight", "bias", "data_out")
_PAIR = ("data_in", "weight", "data_out")

_ROWS: tuple[OpSpec, ...] = (
    OpSpec("placeholder", "placeholder", "io"),
    OpSpec("get_attr", "get_attr", "io"),
    OpSpec("output", "output", "io"),
    OpSpec("opaque", "opaque", "other"),
    OpSpec("linear", "module_related_func", "linear", _DENSE, _contract_last),
    *(OpSpec(f"conv{d}d", "module_related_func", "linear", _DENSE, _conv) for d in (1, 2, 3)),
    *(OpSpec(f"conv_transpose{d}d", "module_related_func", "linear", (), _conv_transposed) for d in (1, 2, 3)),
    *(OpSpec(n, "builtin_func", "matmul", _PAIR, _contract_last) for n in ("matmul", "bmm", "mm")),
    *(OpSpec(n, "builtin_func", "matmul", (), _addmm) for n in ("addmm", "baddbmm")),
    OpSpec("einsum", "builtin_func", "matmul"),
    OpSpec("scaled_dot_product_attention", "module_related_func", "matmul", (), _attention),
    *(OpSpec(n, "module_related_func", "activation") for n in (
        "relu", "gelu", "silu", "tanh", "sigmoid", "softmax", "log_softmax", "leaky_relu", "elu", "hardtanh",
        "hardswish", "hardsigmoid", "softplus", "relu6", "mish", "prelu", "selu", "celu", "glu", "logsigmoid")),
    OpSpec("dropout", "module_related_func", "other"),
    *(OpSpec(n, "module_related_func", "norm") for n in ("layer_norm", "group_norm", "rms_norm", "instance_norm")),
    OpSpec("batch_norm", "module", "norm"),
    OpSpec("embedding", "module_related_func", "embedding"),
    OpSpec("identity", "module", "shape"),
    *(OpSpec(n, "module_related_func", "shape") for n in (
        "max_pool1d", "max_pool2d", "avg_pool1d", "avg_pool2d", "adaptive_avg_pool1d", "adaptive_avg_pool2d",
        "adaptive_max_pool2d", "pad", "interpolate", "unfold", "pixel_shuffle", "one_hot")),
    *(OpSpec(n, "module_related_func", "other") for n in (
        "cross_entropy", "mse_loss", "nll_loss", "binary_cross_entropy_with_logits", "normalize")),
    *(OpSpec(n, "builtin_func", "add") for n in ("add", "sub", "rsub", "mul", "div")),
    *(OpSpec(n, "builtin_func", "shape") for n in (
        "view", "reshape", "transpose", "permute", "t", "cat", "stack", "chunk", "split", "split_with_sizes", "slice",
        "select", "index", "gather", "expand", "squeeze", "unsqueeze", "flatten", "contiguous", "clone", "to", "roll",
        "repeat", "unbind", "unflatten", "detach", "alias", "lift_fresh_copy", "index_select", "movedim", "narrow")),
    *(OpSpec(n, "implicit_func", "shape") for n in ("sym_size", "sym_scalar", "getitem", "item")),
)  # fmt: skip
OPS: dict[str, OpSpec] = {row.name: row for row in _ROWS}

# ATen names that mean the same operation for a person.
_SAME: dict[str, str] = {
    "add_": "add", "mul_": "mul", "div_": "div", "sub_": "sub", "relu_": "relu", "_softmax": "softmax",
    "_log_softmax": "log_softmax", "cross_entropy_loss": "cross_entropy", "_unsafe_view": "view", "silu_": "silu",
    "_to_copy": "to", "_convolution": "conv2d", "convolution": "conv2d", "native_layer_norm": "layer_norm",
    "_native_batch_norm_legit_no_training": "batch_norm", "hardswish_": "hardswish", "hardtanh_": "hardtanh",
    "dropout_": "dropout", "feature_dropout": "dropout", "alpha_dropout": "dropout", "where_": "where", "concat": "cat",
    "_scaled_dot_product_flash_attention_for_cpu": "scaled_dot_product_attention", "true_divide": "div",
    "leaky_relu_": "leaky_relu", "elu_": "elu", "nll_loss_nd": "nll_loss", "upsample_bilinear2d": "interpolate",
    "upsample_nearest2d": "interpolate", "upsample_bicubic2d": "interpolate", "constant_pad_nd": "pad",
    "linalg_vector_norm": "norm", "masked_fill_": "masked_fill", "im2col": "unfold",
}  # fmt: skip


def op_of(target: str) -> str:
    """The op's name of a function target: `aten.add.Tensor` → add, `_operator.mul` → sym_scalar."""
    namespace, _, rest = target.partition(".")
    if namespace != "aten":
        return "sym_scalar" if namespace in ("_operator", "math", "torch") else rest.split(".")[0] or namespace
    base = rest.split(".")[0]
    return _SAME.get(base, base)


def spec(op: str) -> OpSpec:
    """The row of `op`; an unknown op is a builtin_func without ports to quantise."""
    return OPS.get(op) or OpSpec(op)


def kind(node: Node) -> Kind:
    """The labs' kind of a node."""
    return spec(node.op).kind


def category(node: Node) -> Category:
    """The colour category of a node."""
    return spec(node.op).category


_ARG_PORTS: dict[str, tuple[str, ...]] = {
    **{op: _DENSE[:3] for op in ("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d")},
    **{op: _PAIR[:2] for op in ("matmul", "bmm", "mm")},
}  # fmt: skip


def arg_port(op: str, position: int) -> str | None:
    """The port's own name of a function's argument number `position`, where the op has one."""
    names = _ARG_PORTS.get(op, ())
    return names[position] if position < len(names) else None


def macs(node: Node, symbols: Symbols) -> int:
    """Multiply–accumulates of one run at the sizes `symbols`."""
    count = spec(node.op).macs
    return count(node, symbols) if count else 0


def quantisable(node: Node) -> tuple[str, ...]:
    """The ports of a node that can be given a precision (those that it has); none of foreign code."""
    return () if node.call == "opaque" else tuple(p for p in spec(node.op).quantisable if p in node.ports)
