"""What an operation can be split along: the dimensions of its tensors that are the same index, as in an einsum.

Splitting an index splits every tensor that has it; a tensor without it is whole. An index that no result has is summed,
so that each rank's result is a partial sum. Source: L. Zheng et al., "Alpa", OSDI 2022, and torch's DTensor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Dim
from espalier.model.graph.node import Ref
from espalier.model.graph.operands import named_op, operands

Shapes = dict[str, tuple[int, ...]]
REPLICATED = "replicated"


@dataclass(slots=True)
class Factors:
    """`ports`: the index of each dimension, "" for one that cannot be split. `sizes`: what a split of an index must
    divide. `names`: of the strategy that splits an index. `summed`: indices of a sum. `linear`: sets of inputs that may
    be partial sums together, whose result is one too. `synchronised`: a split of them needs statistics of all ranks.
    """

    ports: dict[str, tuple[str, ...]]
    sizes: dict[str, int]
    names: dict[str, str]
    summed: frozenset[str] = frozenset()
    linear: tuple[frozenset[str], ...] = ()
    synchronised: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Call:
    """A node with its tensors: (port, source) of its inputs in order, and the sizes of all ports."""

    node: Node
    inputs: tuple[tuple[str, Ref], ...]
    shapes: Shapes
    stored: frozenset[str] = frozenset()  # input ports that hold a stored weight
    batches: frozenset[str] = frozenset({"batch"})  # symbols of the batch

    @property
    def outs(self) -> list[str]:
        """The ports of the results."""
        return [p for p in self.shapes if p.startswith("data_out")]

    def name(self, port: str, dim: int) -> str:
        """The strategy that splits a dimension of an activation."""
        return dim_name(self.node.ports[port].shape, dim, self.batches)

    def integer(self, position: int, name: str, default: int | None = None) -> int | None:
        """An integer argument, by position or name, or the module's."""
        args = self.node.args
        value = args[position] if position < len(args) else self.node.kwargs.get(name, self.node.attrs.get(name))
        if isinstance(value, tuple) and len(value) == 1:
            value = value[0]
        return value if isinstance(value, int) and not isinstance(value, bool) else default


def dim_name(shape: tuple[Dim, ...], dim: int, batches: frozenset[str]) -> str:
    """data, sequence, heads or width, from what the sizes are called."""
    size = shape[dim]
    if isinstance(size, str):
        return "data" if any(b in size for b in batches) else "sequence"
    if dim == 0 and not batches and len(shape) > 1:
        return "data"
    return "heads" if len(shape) == 4 and dim == 1 else "width" if dim == len(shape) - 1 else "dimension"


def call_of(node: Node, graph: Graph, sizes: dict[str, int], batches: frozenset[str]) -> Call | None:
    """The call of a node; None where a size is unknown."""
    found = list[tuple[str, Ref]]()
    ports = operands(named_op(node), node.args, node.kwargs, graph.nodes)
    for ref, operand in zip(node.inputs, ports, strict=True):
        if operand is not None and operand[0] in node.ports:
            found.append((operand[0], ref))
    try:
        shapes = {p: m.sizes(sizes) for p, m in node.ports.items()}
    except (KeyError, ValueError):
        return None
    stored = {p for p, ref in found if graph.nodes[ref.node].call == "get_attr"} | set(node.weights)
    return Call(node, tuple(found), shapes, frozenset(stored), batches)


Rule = Callable[[Call], Factors | None]
RULES: dict[str, Rule] = {}


def rule(*ops: str) -> Callable[[Rule], Rule]:
    """Register the factors of operations."""

    def add(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(ops, function))
        return function

    return add


# -- element by element


def aligned(call: Call, but: frozenset[int] = frozenset()) -> Factors | None:
    """Inputs that are broadcast to the result, aligned at the last dimension. `but`: dimensions that stay whole."""
    out = call.shapes["data_out"]
    sizes = {f"d{i}": n for i, n in enumerate(out) if n > 1 and i not in but}
    ports: dict[str, tuple[str, ...]] = {}
    for port, shape in call.shapes.items():
        lead = len(out) - len(shape)
        if lead < 0:
            return None
        ports[port] = tuple(f"d{i + lead}" if n == out[i + lead] and f"d{i + lead}" in sizes else ""
                            for i, n in enumerate(shape))  # fmt: skip
    return Factors(ports, sizes, {f"d{i}": call.name("data_out", i) for i in range(len(out))})


UNARY = (
    "relu", "gelu", "silu", "tanh", "sigmoid", "leaky_relu", "elu", "hardtanh", "hardswish", "hardsigmoid", "softplus",
    "relu6", "mish", "selu", "celu", "logsigmoid", "dropout", "exp", "log", "log1p", "expm1", "pow", "sqrt", "rsqrt",
    "abs", "sin", "cos", "erf", "clamp", "clamp_min", "clamp_max", "reciprocal", "square", "sign", "floor", "ceil",
    "round", "isnan", "isinf", "logical_not", "bitwise_not", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge",
    "logical_and", "logical_or", "__and__", "__or__", "remainder", "floor_divide", "where", "masked_fill", "fmod",
    "zeros_like", "ones_like", "full_like", "fill", "nan_to_num", "lerp",
)  # fmt: skip
SUMS, MOVES = (
    ("add", "sub", "rsub"),
    ("to", "clone", "contiguous", "detach", "alias", "identity", "kv_cache", "neg", "type_as"),
)


@rule(*UNARY)
def pointwise(call: Call) -> Factors | None:
    """One result per element."""
    return aligned(call)


@rule(*SUMS)
def additive(call: Call) -> Factors | None:
    """Partial sums add up, unless a number is added, which would count once per rank."""
    found = aligned(call)
    if found and len(call.inputs) == 2:
        found.linear = (frozenset(p for p, _ in call.inputs),)
    return found


@rule("mul")
def product(call: Call) -> Factors | None:
    """One operand may be a partial sum."""
    found = aligned(call)
    if found:
        found.linear = tuple(frozenset({p}) for p, _ in call.inputs)
    return found


@rule("div")
def quotient(call: Call) -> Factors | None:
    """The dividend may be a partial sum."""
    found = aligned(call)
    if found:
        found.linear = (frozenset({call.inputs[0][0]}),) if call.node.args[:1] and call.inputs else ()
    return found


@rule(*MOVES)
def passing(call: Call) -> Factors | None:
    """Copies and signs."""
    found = aligned(call)
    if found and "data_in" in found.ports:
        found.linear = (frozenset({"data_in"}),)
    return found


@rule("softmax", "log_softmax", "cumsum", "normalize", "sort", "topk", "argmax", "argmin", "glu")
def along(call: Call) -> Factors | None:
    """Rows along a dimension stay whole."""
    shape, position = call.shapes["data_in"], {"topk": 2, "normalize": 2, "sort": 1}.get(call.node.op, 1)
    dim = call.integer(position, "dim", -1)
    if dim is None or any(len(call.shapes[p]) != len(shape) for p in call.outs):
        return None
    return same_dims(call, {dim % len(shape)})


def same_dims(call: Call, whole: set[int]) -> Factors:
    """Inputs and results with the same dimensions, of which `whole` are not split."""
    shape = call.shapes["data_in"]
    sizes = {f"d{i}": n for i, n in enumerate(shape) if n > 1 and i not in whole}
    ports = {p: tuple(f"d{i}" if f"d{i}" in sizes and n == shape[i] else "" for i, n in enumerate(s))
             for p, s in call.shapes.items() if len(s) == len(shape)}  # fmt: skip
    ports |= {p: ("",) * len(s) for p, s in call.shapes.items() if p not in ports}
    return Factors(ports, sizes, {f"d{i}": call.name("data_in", i) for i in range(len(shape))})


@rule("layer_norm", "rms_norm")
def norm(call: Call) -> Factors | None:
    """Rows stay whole."""
    rank = len(call.shapes["data_in"])
    over = call.node.args[1] if len(call.node.args) > 1 else call.node.attrs.get("normalized_shape")
    count = len(over) if isinstance(over, tuple) else len(call.shapes.get("weight", (0,)))
    return same_dims(call, set(range(rank - count, rank))) if count < rank else None


@rule("max_pool1d", "max_pool2d", "avg_pool1d", "avg_pool2d", "adaptive_avg_pool1d", "adaptive_avg_pool2d",
      "adaptive_max_pool2d", "interpolate", "instance_norm")  # fmt: skip
def channels(call: Call) -> Factors | None:
    """Samples and channels are independent."""
    rank = len(call.shapes["data_in"])
    spatial = 1 if "1d" in call.node.op else rank - 2 if call.node.op == "instance_norm" else 2
    found = same_dims(call, set(range(rank - spatial, rank)))
    if call.node.op == "instance_norm":
        _per_channel(found, call)
    return _renamed(found, rank - spatial - 1, "channels")


@rule("group_norm", "pixel_shuffle")
def samples(call: Call) -> Factors | None:
    """Samples are independent."""
    return same_dims(call, set(range(1, len(call.shapes["data_in"]))))


@rule("batch_norm")
def batch_norm(call: Call) -> Factors | None:
    """Element by element with constants per channel; in training the statistics are those of the whole batch."""
    rank = len(call.shapes["data_in"])
    found = same_dims(call, set())
    _per_channel(found, call)
    found.synchronised = frozenset(f"d{i}" for i in range(rank) if i != 1)
    return _renamed(found, 1, "channels")


def _per_channel(found: Factors, call: Call) -> None:
    for port, shape in call.shapes.items():
        if not port.startswith("data") and len(shape) == 1 and shape[0] == call.shapes["data_in"][1]:
            found.ports[port] = ("d1" if "d1" in found.sizes else "",)


def _renamed(found: Factors, dim: int, name: str) -> Factors:
    if dim >= 0:
        found.names[f"d{dim}"] = name
    return found


# -- products


@rule("linear")
def linear(call: Call) -> Factors | None:
    """y[…, n] = Σ_k x[…, k] · w[n, k] + b[n]; the weight of a Conv1D is transposed."""
    x, weight = call.shapes["data_in"], call.shapes.get("weight", ())
    if len(weight) != 2 or not x:
        return None
    lead = tuple(f"d{i}" if n > 1 else "" for i, n in enumerate(x[:-1]))
    ports: dict[str, tuple[str, ...]] = {"data_in": (*lead, "k"), "data_out": (*lead, "n"),
             "weight": ("k", "n") if call.node.attrs.get("class") == "Conv1D" else ("n", "k")}  # fmt: skip
    if "bias" in call.shapes:
        ports["bias"] = ("n",)
    sizes = {f"d{i}": n for i, n in enumerate(x[:-1]) if n > 1} | {"k": x[-1], "n": call.shapes["data_out"][-1]}
    names = {f"d{i}": call.name("data_in", i) for i in range(len(lead))} | {"k": "row", "n": "column"}
    return Factors(ports, sizes, names, frozenset({"k"}))


@rule("matmul", "bmm", "mm", "addmm", "baddbmm")
def matmul(call: Call) -> Factors | None:
    """y[…, m, n] = Σ_k a[…, m, k] · b[…, k, n], with broadcast leading dimensions."""
    a, b, out = (call.shapes.get(p, ()) for p in ("data_in", "weight", "data_out"))
    if len(a) < 2 or len(b) < 2 or len(out) != max(len(a), len(b)):
        return None
    lead = [f"d{i}" if n > 1 else "" for i, n in enumerate(out[:-2])]

    def batch(shape: tuple[int, ...]) -> list[str]:
        skip = len(out) - len(shape)
        return [x if n == out[i + skip] else "" for i, (x, n) in enumerate(zip(lead[skip:], shape[:-2], strict=True))]

    ports: dict[str, tuple[str, ...]] = {
        "data_in": (*batch(a), "m", "k"),
        "weight": (*batch(b), "k", "n"),
        "data_out": (*lead, "m", "n"),
    }
    if "bias" in call.shapes:
        bias = call.shapes["bias"]
        full = (*lead, "m", "n")[len(out) - len(bias) :]
        ports["bias"] = tuple(x if n > 1 else "" for x, n in zip(full, bias, strict=True))
    sizes = {f"d{i}": n for i, n in enumerate(out[:-2]) if n > 1} | {"m": out[-2], "n": out[-1], "k": a[-1]}
    experts = "weight" in call.stored and len(b) == 3
    names = {f"d{i}": "expert" if experts else call.name("data_out", i) for i in range(len(out) - 2)}
    names |= {"m": call.name("data_out", len(out) - 2), "n": "column", "k": "row"}
    return Factors(ports, sizes, names, frozenset({"k"}))


@rule("einsum")
def einsum(call: Call) -> Factors | None:
    """The indices of the equation."""
    terms, _, result = str(call.node.args[0]).replace(" ", "").partition("->")
    named = dict(zip(("data_in", "weight"), terms.split(","), strict=False)) | {"data_out": result}
    if "." in terms or not result or any(len(named.get(p, "")) != len(s) for p, s in call.shapes.items()):
        return None
    sizes = {x: n for p, term in named.items() if p in call.shapes for x, n in zip(term, call.shapes[p], strict=True)}
    names = {x: "row" for x in sizes if x not in result}
    names |= {x: call.name("data_out", i) for i, x in enumerate(result)}
    ports = {p: tuple(t) for p, t in named.items() if p in call.shapes}
    return Factors(ports, sizes, names, frozenset(x for x in sizes if x not in result))


@rule("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def convolution(call: Call) -> Factors | None:
    """Samples, output channels and, summed, input channels; with groups, the groups."""
    x, weight = call.shapes["data_in"], call.shapes.get("weight", ())
    spatial, transposed = int(call.node.op[-2]), "transpose" in call.node.op
    if len(weight) != spatial + 2 or len(x) != spatial + 2:
        return None
    out = call.shapes["data_out"]
    groups = out[1] // weight[1] if transposed else x[1] // weight[1]
    o, c = ("g", "g") if groups > 1 else ("n", "k")
    first = ("g", "") if groups > 1 else (c, o) if transposed else (o, c)
    rest = ("",) * spatial
    ports: dict[str, tuple[str, ...]] = {
        "data_in": ("d0", c, *rest),
        "data_out": ("d0", o, *rest),
        "weight": (*first, *rest),
    }
    if "bias" in call.shapes:
        ports["bias"] = (o,)
    sizes = {"d0": x[0], "g": groups} if groups > 1 else {"d0": x[0], "n": out[1], "k": x[1]}
    names = {"d0": call.name("data_in", 0), "n": "column", "k": "row", "g": "groups"}
    return Factors(ports, sizes, names, frozenset() if groups > 1 else frozenset({"k"}))


@rule("embedding")
def embedding(call: Call) -> Factors | None:
    """y[…, d] = w[x[…], d]; a rank gives 0 for rows that it does not hold, so that results add up."""
    index, weight = call.shapes["data_in"], call.shapes["weight"]
    lead = tuple(f"d{i}" if n > 1 else "" for i, n in enumerate(index))
    sizes = {f"d{i}": n for i, n in enumerate(index) if n > 1} | {"v": weight[0], "n": weight[1]}
    names = {f"d{i}": call.name("data_in", i) for i in range(len(lead))} | {"v": "vocabulary", "n": "column"}
    return Factors({"data_in": lead, "weight": ("v", "n"), "data_out": (*lead, "n")}, sizes, names, frozenset({"v"}))


@rule("scaled_dot_product_attention")
def attention(call: Call) -> Factors | None:
    """Samples, heads and, where the mask is given, rows of the query."""
    query, key, value, out = (call.shapes.get(p, ()) for p in ("data_in", "weight", "weight_1", "data_out"))
    if len(query) != 4 or not len(key) == len(value) == len(out) == 4 or key[1] != query[1]:
        return None
    rows = "" if call.node.kwargs.get("is_causal") is True or call.node.args[5:6] == (True,) else "m"
    ports: dict[str, tuple[str, ...]] = dict.fromkeys(("weight", "weight_1"), ("d0", "h", "", ""))
    ports |= dict.fromkeys(("data_in", "data_out"), ("d0", "h", rows, ""))
    if "data_in_1" in call.shapes:
        mask = call.shapes["data_in_1"]
        skip = 4 - len(mask)
        ports["data_in_1"] = tuple(x if n > 1 else "" for x, n in zip(("d0", "h", rows, "")[skip:], mask, strict=True))
    sizes = {"d0": query[0], "h": query[1]} | ({"m": query[2]} if rows else {})
    return Factors(ports, sizes, {"d0": call.name("data_in", 0), "h": "heads", "m": "sequence"})


def used(factors: Factors) -> Mapping[str, int]:
    """The indices that can be split, with their sizes."""
    present = {x for dims in factors.ports.values() for x in dims if x}
    return {x: n for x, n in factors.sizes.items() if x in present and n > 1}
