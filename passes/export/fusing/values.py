"""What a value of an ONNX graph is: a constant, a quantised activation, a stored weight; and how nodes are replaced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

Array = NDArray[Any]
CODES = ".stored.codes"  # in the name of a layer's codes, after its path
INTEGERS = {ir.DataType.INT8: (-128, 127), ir.DataType.UINT8: (0, 255),
            ir.DataType.INT16: (-32768, 32767), ir.DataType.UINT16: (0, 65535)}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Grid:
    """The grid of a QuantizeLinear with one scale: (code − zero)·scale for codes of a type."""

    scale: float
    zero: int
    dtype: ir.DataType

    @property
    def ends(self) -> tuple[int, int]:
        """Smallest and largest code − zero."""
        low, high = INTEGERS[self.dtype]
        return low - self.zero, high - self.zero

    def step(self, value: float) -> float:
        """The multiple of the scale that a value is rounded to, before the clip."""
        return float(np.rint(np.float32(value) / np.float32(self.scale)))


def array(value: ir.Value | None) -> Array | None:
    """The constant that a value is; None for computed ones and inputs."""
    if value is None or value.const_value is None or value.is_graph_input():
        return None
    return value.const_value.numpy()


def producer(value: ir.Value | None, *kinds: str) -> ir.Node | None:
    """The node that computes a value, where it is of one of these operators."""
    node = None if value is None else value.producer()
    return node if node is not None and (not kinds or node.op_type in kinds) else None


def operand(node: ir.Node, index: int = 0) -> ir.Value:
    """An input that the operator always has."""
    value = node.inputs[index]
    assert value is not None
    return value


def only_use(value: ir.Value, *kinds: str) -> ir.Node | None:
    """The one node that reads a value, where it is of one of these operators."""
    uses = value.uses()
    if len(uses) != 1 or value.is_graph_output():
        return None
    node = next(iter(uses)).node
    return node if not kinds or node.op_type in kinds else None


def quantiser(node: ir.Node) -> Grid | None:
    """The grid of a QuantizeLinear or DequantizeLinear with one constant scale."""
    if node.op_type not in ("QuantizeLinear", "DequantizeLinear"):
        return None
    scale, zero = array(node.inputs[1]), array(node.inputs[2] if len(node.inputs) > 2 else None)
    held = node.inputs[2] if len(node.inputs) > 2 else node.outputs[0] if node.op_type[0] == "Q" else node.inputs[0]
    if (
        scale is None
        or scale.size != 1
        or held is None
        or held.dtype not in INTEGERS
        or (zero is not None and zero.size != 1)
    ):
        return None
    kind = held.dtype
    assert kind is not None
    return Grid(float(scale.reshape(())), 0 if zero is None else int(zero.reshape(())), kind)


def activation(value: ir.Value | None) -> Grid | None:
    """The grid of a value that a QuantizeLinear and its inverse leave; None for others."""
    back = producer(value, "DequantizeLinear")
    first = producer(back.inputs[0], "QuantizeLinear") if back else None
    return quantiser(first) if first else None


def stored(value: ir.Value | None) -> ir.Node | None:
    """The DequantizeLinear of a stored weight."""
    back = producer(value, "DequantizeLinear")
    return back if back is not None and array(back.inputs[0]) is not None else None


def negated_bias(node: ir.Node | None, minus: ir.Node | None) -> Array | None:
    """What `minus` subtracts from each channel of a product or convolution, float32 [channels]; None for another Sub.

    Its shape is that in which exports write biases: a number of the model's own may broadcast along other axes.
    """
    found = None if minus is None else array(minus.inputs[1])
    if node is None or minus is None or found is None or minus.inputs[0] is not node.outputs[0]:
        return None
    shape = operand(node, 1).shape
    sizes = None if shape is None else tuple(shape.numpy())
    if node.op_type == "MatMul":
        wanted = None if sizes is None else sizes[-1:]
    elif sizes is None:
        return None
    else:
        channels = sizes[0] if node.op_type == "Conv" else sizes[1] * node.attributes.get_int("group", 1)
        wanted = (channels, *[1] * (len(sizes) - 2))
    return np.asarray(found, np.float32).reshape(-1) if found.shape == wanted else None


def layer_of(weight: ir.Node | None) -> str:
    """The module path of the layer whose codes a DequantizeLinear reads; empty where that is not in their name."""
    name = "" if weight is None or weight.inputs[0] is None else weight.inputs[0].name or ""
    return name.partition(CODES)[0] if CODES in name else ""


def read_as(value: ir.Value) -> Grid | None:
    """The grid to which every reader of a value rounds it; None where one does not, or where they differ."""
    readers = [use.node for use in value.uses()]
    if not readers or value.is_graph_output() or any(n.op_type != "QuantizeLinear" for n in readers):
        return None
    grids = {quantiser(n) for n in readers}
    return grids.pop() if len(grids) == 1 else None


class Writer:
    """Adds nodes and constants to a model's main graph under names that it does not have."""

    def __init__(self, graph: ir.Graph) -> None:
        self.graph, self._count = graph, 0

    def constant(self, value: Array, dtype: ir.DataType | None = None, name: str = "c") -> ir.Value:
        """A stored tensor."""
        tensor = ir.Tensor(value, dtype) if dtype is not None else ir.Tensor(value)
        made = ir.Value(name=self._name(name), const_value=tensor, type=ir.TensorType(tensor.dtype), shape=tensor.shape)
        self.graph.register_initializer(made)
        return made

    def node(
        self, before: ir.Node, kind: str, inputs: Sequence[ir.Value | None], given: dict[str, Any] | None = None,
        *, outputs: int = 1, domain: str = "", like: ir.Value | None = None, dtype: ir.DataType | None = None,
    ) -> ir.Value:  # fmt: skip
        """Put a node before another; returns its first result, whose shape is that of `like`."""
        kept = [ir.convenience.convert_attribute(k, v) for k, v in (given or {}).items()]
        node = ir.Node(domain, kind, list(inputs), kept, num_outputs=outputs, name=self._name(kind))
        for i, value in enumerate(node.outputs):
            value.name = self._name(f"{kind}_{i}")
        self.graph.insert_before(before, node)
        result = node.outputs[0]
        if like is not None:
            result.shape = like.shape
            if (held := dtype or like.dtype) is not None:
                result.dtype = held
        return result

    def rounded(self, before: ir.Node, value: ir.Value, grid: Grid) -> ir.Value:
        """The value on a grid, by QuantizeLinear and its inverse."""
        zero = np.array(grid.zero, grid.dtype.numpy())
        scale, zero_ = self.constant(np.array(grid.scale, np.float32), name="scale"), self.constant(zero, name="zero")
        codes = self.node(before, "QuantizeLinear", (value, scale, zero_), like=value, dtype=grid.dtype)
        return self.node(before, "DequantizeLinear", (codes, scale, zero_), like=value)

    def replace(self, old: ir.Value, new: ir.Value) -> None:
        """Let every reader of `old` read `new`."""
        if old.is_graph_output():
            name = old.name
            ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
            old.name, new.name = self._name("old"), name
        else:
            ir.convenience.replace_all_uses_with(old, new)
        _remove(old.producer())

    def _name(self, stem: str) -> str:
        self._count += 1
        return f"{stem}.f{self._count}"


def _remove(node: ir.Node | None) -> None:
    """Remove a node without readers, and those that only it read."""
    if node is None or node.graph is None or any(v.uses() or v.is_graph_output() for v in node.outputs):
        return
    sources = [v.producer() for v in node.inputs if v is not None]
    node.graph.remove(node, safe=True)
    for source in sources:
        _remove(source)


def clean(graph: ir.Graph) -> None:
    """Remove nodes without readers and constants that nothing reads."""
    for node in reversed(list(graph)):
        _remove(node)
    for name in [n for n, v in graph.initializers.items() if not v.uses() and not v.is_graph_output()]:
        del graph.initializers[name]


def shorten(graph: ir.Graph) -> None:
    """Give short names to nodes and to what is between them, and leave out sizes that the runtime infers."""
    outer = (*graph.inputs, *graph.outputs, *graph.initializers.values())
    kept = {v.name for v in outer}
    for held in (graph, *outer):  # what torch notes of its own way there
        held.metadata_props.clear()
    count = 0
    for number, node in enumerate(graph):
        for value in node.outputs:
            if not value.is_graph_output():
                count += 1
                name = f"v{count}"
                while name in kept:
                    name = f"v{(count := count + 1)}"
                value.name, value.shape, value.type = name, None, None
                value.metadata_props.clear()
        node.name = f"{node.op_type}{number}"
