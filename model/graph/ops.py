"""The ops table: what each operation is called, its kind, how it is coloured and counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from espalier.model.graph import products as count
from espalier.model.graph.meta import TensorMeta
from espalier.model.graph.node import Node
from espalier.model.graph.products import Product, Symbols

Kind = Literal["module_related_func", "module", "builtin_func", "implicit_func", "placeholder", "get_attr", "output",
               "opaque"]  # fmt: skip
Category = Literal["linear", "matmul", "activation", "norm", "embedding", "add", "shape", "io", "other"]


@dataclass(frozen=True, slots=True)
class OpSpec:
    """One row: name, kind, colour category, ports that can be quantised, and multiply–accumulates.

    `macs` gives the number of multiply–accumulates, or each Product where operands are multiplied in several pairs;
    None for what it cannot count. `moves`: its result holds values of its first input as they are, in another place or
    shape.
    """

    name: str
    kind: Kind = "builtin_func"
    category: Category = "other"
    quantisable: tuple[str, ...] = ()
    macs: Callable[[Node, Symbols], int | tuple[Product, ...] | None] | None = None
    moves: bool = False


_DENSE = ("data_in", "weight", "bias", "data_out")
_PAIR = ("data_in", "weight", "data_out")
_THROUGH = ("data_in", "data_out")

RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")
CELLS = tuple(f"{n}_cell" for n in RECURRENT)
# torch's product with a matrix for each group of rows, and its form in transformers (experts of a mixture).
GROUPED = ("_grouped_mm", "grouped_mm_fallback")

_ROWS: tuple[OpSpec, ...] = (
    OpSpec("placeholder", "placeholder", "io"),
    OpSpec("get_attr", "get_attr", "io"),
    OpSpec("output", "output", "io"),
    OpSpec("opaque", "opaque", "other"),
    OpSpec("linear", "module_related_func", "linear", _DENSE, count.contract_last),
    *(OpSpec(f"conv{d}d", "module_related_func", "linear", _DENSE, count.conv) for d in (1, 2, 3)),
    *(OpSpec(f"conv_transpose{d}d", "module_related_func", "linear", _DENSE, count.conv_transposed) for d in (1, 2, 3)),
    *(OpSpec(n, "builtin_func", "matmul", _PAIR, count.contract_last) for n in ("matmul", "bmm", "mm")),
    *(OpSpec(n, "builtin_func", "matmul", _DENSE, count.contract_last) for n in ("addmm", "baddbmm")),
    OpSpec("einsum", "builtin_func", "matmul", _PAIR, count.einsum),
    # What takes formats are the matmuls that it is decomposed into.
    OpSpec("scaled_dot_product_attention", "module_related_func", "matmul", (), count.attention),
    *(OpSpec(n, "builtin_func", "other", _PAIR, count.recurrent) for n in RECURRENT),
    *(OpSpec(n, "builtin_func", "other", _DENSE, count.cell) for n in CELLS),
    OpSpec("bilinear", "module_related_func", "other", _DENSE, count.bilinear),
    *(OpSpec(n, "builtin_func", "other", _DENSE, count.grouped) for n in GROUPED),
    *(OpSpec(n, "builtin_func", "other", _THROUGH, count.contract_last) for n in (
        "mv", "dot", "vdot", "inner", "linalg_matmul", "linalg_vecdot", "addmv", "_int_mm", "_scaled_mm")),
    *(OpSpec(n, "builtin_func", "other", _THROUGH, count.outer) for n in ("outer", "ger", "addr")),
    OpSpec("addbmm", "builtin_func", "other", _THROUGH, count.summed_products),
    OpSpec("tensordot", "builtin_func", "other", _THROUGH, count.tensordot),
    *(OpSpec(n, "module_related_func", "activation", _THROUGH) for n in (
        "relu", "gelu", "silu", "tanh", "sigmoid", "softmax", "log_softmax", "leaky_relu", "elu", "hardtanh",
        "hardswish", "hardsigmoid", "softplus", "relu6", "mish", "selu", "celu", "glu", "logsigmoid")),
    OpSpec("prelu", "module_related_func", "activation", _PAIR),
    OpSpec("dropout", "module_related_func", "other", moves=True),
    *(OpSpec(n, "module_related_func", "norm", _DENSE) for n in (
        "layer_norm", "group_norm", "rms_norm", "instance_norm")),
    OpSpec("batch_norm", "module", "norm", _DENSE),
    OpSpec("embedding", "module_related_func", "embedding", ("weight", "data_out")),
    OpSpec("identity", "module", "shape", moves=True),
    OpSpec("kv_cache", "builtin_func", "other", ("data_out",), moves=True),  # keys or values as a cache holds them
    *(OpSpec(n, "module_related_func", "shape", _THROUGH) for n in (
        "max_pool1d", "max_pool2d", "avg_pool1d", "avg_pool2d", "adaptive_avg_pool1d", "adaptive_avg_pool2d",
        "adaptive_max_pool2d", "pad", "interpolate")),
    *(OpSpec(n, "module_related_func", "shape", moves=True) for n in ("unfold", "pixel_shuffle")),
    OpSpec("one_hot", "module_related_func", "shape"),
    *(OpSpec(n, "module_related_func", "other") for n in (
        "cross_entropy", "mse_loss", "nll_loss", "binary_cross_entropy_with_logits")),
    OpSpec("normalize", "module_related_func", "other", _THROUGH),
    *(OpSpec(n, "builtin_func", "add", _THROUGH) for n in ("add", "sub", "rsub", "mul", "div")),
    *(OpSpec(n, "builtin_func", "shape", _THROUGH) for n in ("cat", "stack")),
    *(OpSpec(n, "builtin_func", "shape", moves=True) for n in (
        "view", "reshape", "transpose", "permute", "t", "chunk", "split", "split_with_sizes", "slice",
        "select", "index", "gather", "expand", "squeeze", "unsqueeze", "flatten", "contiguous", "clone", "to", "roll",
        "repeat", "unbind", "unflatten", "detach", "alias", "lift_fresh_copy", "index_select", "movedim", "narrow",
        "expand_as", "view_as", "repeat_interleave", "flip", "tril", "triu", "masked_fill")),
    # They choose, compare, look or make: nothing is computed with the values that they take.
    *(OpSpec(n) for n in (
        "where", "eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isneginf", "logical_not", "logical_and",
        "logical_or", "any", "all", "argmax", "argmin", "topk", "sort", "fill", "copy", "index_put", "scatter",
        "slice_scatter", "select_scatter", "zeros_like", "ones_like", "full_like", "empty_like", "rand_like",
        "randn_like", "new_zeros", "new_ones", "new_full", "new_empty", "_assert_tensor_metadata")),
    *(OpSpec(n, "implicit_func", "shape") for n in ("sym_size", "sym_scalar", "getitem", "item")),
)  # fmt: skip
OPS: dict[str, OpSpec] = {row.name: row for row in _ROWS}

# ATen names that mean the same operation for a person.
_SAME: dict[str, str] = {
    "add_": "add", "mul_": "mul", "div_": "div", "sub_": "sub", "relu_": "relu", "_softmax": "softmax",
    "_log_softmax": "log_softmax", "cross_entropy_loss": "cross_entropy", "_unsafe_view": "view", "silu_": "silu",
    "_to_copy": "to", "type_as": "to", "_convolution": "conv2d", "convolution": "conv2d",
    "native_layer_norm": "layer_norm",
    "_native_batch_norm_legit_no_training": "batch_norm", "hardswish_": "hardswish", "hardtanh_": "hardtanh",
    "dropout_": "dropout", "feature_dropout": "dropout", "alpha_dropout": "dropout", "where_": "where", "concat": "cat",
    "_scaled_dot_product_flash_attention_for_cpu": "scaled_dot_product_attention", "true_divide": "div",
    "leaky_relu_": "leaky_relu", "elu_": "elu", "nll_loss_nd": "nll_loss", "upsample_bilinear2d": "interpolate",
    "upsample_nearest2d": "interpolate", "upsample_bicubic2d": "interpolate", "constant_pad_nd": "pad",
    "linalg_vector_norm": "norm", "masked_fill_": "masked_fill", "im2col": "unfold", "_safe_softmax": "softmax",
}  # fmt: skip


_KEEPING = {"dropout", "identity", "kv_cache", "clone", "contiguous", "detach", "alias", "to"}


def keeps_shape(name: str) -> bool:
    """Whether an op's result has the shape of its first input, whatever its arguments are."""
    row = spec(name)
    return name in _KEEPING or row.category == "norm" or (row.category == "activation" and name != "glu")


def op_of(target: str) -> str:
    """The op's name of a function target: `aten.add.Tensor` → add, `_operator.mul` → sym_scalar."""
    namespace, _, rest = target.partition(".")
    if namespace != "aten":
        return "sym_scalar" if namespace in ("_operator", "math", "torch") else rest.split(".")[0] or namespace
    base = rest.split(".")[0]
    return _SAME.get(base, base)


def spec(op: str) -> OpSpec:
    """The row of `op`; an unknown op is a builtin_func that computes."""
    return OPS.get(op) or OpSpec(op, quantisable=_THROUGH)


def kind(node: Node) -> Kind:
    """The kind of a node's operation, as MASE names it."""
    return spec(node.op).kind


def category(node: Node) -> Category:
    """The colour category of a node."""
    return spec(node.op).category


_NORM = ("data_in", "weight", "bias", "running_mean", "running_var")
_ARG_PORTS: dict[str, tuple[str | tuple[str, ...], ...]] = {
    **{op: _DENSE[:3] for op, row in OPS.items() if row.category == "linear"},
    **dict.fromkeys(("batch_norm", "instance_norm"), _NORM),
    **dict.fromkeys(("layer_norm", "group_norm", "rms_norm"), ("data_in", "", "weight", "bias")),
    **dict.fromkeys(("matmul", "bmm", "mm", "prelu"), _PAIR[:2]),
    **dict.fromkeys(("addmm", "baddbmm"), ("bias", "data_in", "weight")),
    **dict.fromkeys(RECURRENT, ("data_in", "", "weight")),
    **dict.fromkeys(CELLS, ("data_in", "", "weight", "weight_1", "bias", "bias_1")),
    **dict.fromkeys(GROUPED, ("data_in", "weight", "", "bias")),
    "bilinear": ("data_in", "", "weight", "bias"),
    **dict.fromkeys(("addmv", "addbmm", "addr"), ("bias", "data_in")),
    "einsum": ("", ("data_in", "weight")),
    "embedding": ("weight", "data_in"),
    "scaled_dot_product_attention": ("data_in", "weight", "weight_1"),
}  # fmt: skip


def arg_port(op: str, position: int, index: int = 0) -> str | None:
    """The port's own name of the `index`th tensor in a function's argument number `position`, where the op has one."""
    names = _ARG_PORTS.get(op, ())
    name = names[position] if position < len(names) else ""
    if isinstance(name, tuple):
        name, index = name[min(index, len(name) - 1)], max(index - len(name) + 1, 0)
    return (f"{name}_{index}" if index and name else name) or None


def drop_rate(node: Node) -> float | None:
    """The probability with which a node drops values in training; None for one that cannot, 0 for one that does not."""
    if node.op == "dropout":
        given = node.args[1] if node.call == "call_function" and len(node.args) > 1 else 0.0
        rate = node.attrs.get("p", given)
    elif node.attrs.get("train") is True and len(node.args) > 5:  # lstm(input, hx, weights, biases, layers, dropout, …)
        rate = node.args[5]
    else:
        rate = node.attrs.get("dropout_p")
    return float(rate) if isinstance(rate, int | float) else None


def products(node: Node, symbols: Symbols) -> tuple[Product, ...] | None:
    """The multiply–accumulates of one run at the sizes `symbols`, by pair of operands; None where they are unknown."""
    row, first = spec(node.op), _ARG_PORTS.get(node.op, ("data_in",))[0]
    if row.macs is None:
        return ()
    # A recorded function knows its tensors in order alone.
    number = None if node.call == "opaque" and first != "data_in" else row.macs(node, symbols)
    return (Product(number, "data_in", count.second(node)),) if isinstance(number, int) else number


def macs(node: Node, symbols: Symbols) -> int:
    """Multiply–accumulates of one run at the sizes `symbols`; 0 for ops without any or without a count."""
    return sum(p.macs for p in products(node, symbols) or ())


def floating(meta: TensorMeta | None) -> bool:
    """Whether a tensor holds real numbers in a floating format, the only ones that a format is for."""
    return meta is not None and meta.dtype.startswith(("float", "bfloat"))


def quantisable(node: Node) -> tuple[str, ...]:
    """The ports of a node that can be given a precision: those that it has, of floating tensors; none of foreign code.

    `data_in` stands for all operands without a name of their own, `weight` and `data_out` for all that are several.
    """
    if node.call == "opaque":
        return ()
    return tuple(p for p in spec(node.op).quantisable if floating(node.ports.get(p)))


def decomposable(node: Node) -> bool:
    """Whether a node is an attention that can be written as matmuls and a softmax."""
    return node.target == "aten.scaled_dot_product_attention.default" and node.call == "call_function"


def offered(node: Node) -> tuple[str, ...]:
    """The ports that a person can choose a format for; an attention's go to the matmuls that it is decomposed into."""
    return _PAIR if decomposable(node) else quantisable(node)


def base_port(port: str) -> str:
    """data_in_3 → data_in: the port whose choice also holds for `port`."""
    return port.rstrip("0123456789").removesuffix("_") if port[-1:].isdigit() else port
