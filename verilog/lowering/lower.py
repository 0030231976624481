"""Graph → Design: each node is lowered by the rule of its op; casts, changes of width and forks are inserted.

Nodes that depend on host values only and have no formats (embeddings, masks, reshaped inputs) stay on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches

import numpy as np

from espalier.model.errors import EmitError, nearest
from espalier.model.formats.integer import Integer
from espalier.model.formats.mxint import MXInt
from espalier.model.graph.graph import Graph, Node, Ref, out_port
from espalier.model.graph.meta import Parallel
from espalier.model.graph.operands import operands
from espalier.model.graph.ops import spec
from espalier.model.graph.ports import choice, weight_at
from espalier.model.registry import Registry
from espalier.model.store.weights import WeightStore
from espalier.verilog.design.host_part import SHAPE_ONLY, HostNode, constant_value, constants, host_node
from espalier.verilog.design.netlist import Boundary, Design, Wire
from espalier.verilog.design.options import EmitOptions, check_name
from espalier.verilog.design.signal import Signal, rows_and_size
from espalier.verilog.design.stream import Stream
from espalier.verilog.design.template import port
from espalier.verilog.lowering.builder import Builder, expanded
from espalier.verilog.lowering.fusing import Fused, fused
from espalier.verilog.lowering.masking import masked
from espalier.verilog.numbers.fixed import WIDEST, Codes, Fixed, Rounding, clipped_share, fixed_of
from espalier.verilog.numbers.scaled import PRODUCTS, format_of, gives, plain, reads
from espalier.verilog.rtl.library import reserved
from espalier.verilog.templates.fork import Fork
from espalier.verilog.templates.source import Source
from espalier.verilog.timing.buffering import buffered

Sizes = dict[str, tuple[int, int, int]]
Rule = Callable[["Lowering", Node], None]
RULES: Registry[str, Rule] = Registry("hardware rule", EmitError, ("espalier.verilog.rules",))
# Ops that commute with rounding and saturation: they preserve the order and zero.
MONOTONE = ("relu", "max_pool1d", "max_pool2d", "max_pool3d", "where")

MOVING = ("cat", "stack", "where", "masked_fill")  # copy constants, in the format of their result
UNKNOWN = Fixed(1, 0)
OUTLIERS = 0.01  # share of clipped values without a warning: calibration clips a few for finer steps
NAMED = 4  # most names in a warning

RECURRENT = "Each step depends on the one before. Use convolutions or attention, or run it on a processor."
CHOICE = "Leave it out and select on the host."
INSTEAD = {  # hints for ops without hardware
    "scaled_dot_product_attention": "Decompose it first (pass decompose_attention).",
    **dict.fromkeys(("lstm", "gru", "rnn", "rnn_tanh", "rnn_relu"), RECURRENT),
    **dict.fromkeys(("argmax", "argmin", "topk", "sort"), CHOICE),
    "einsum": "Write it with matmul and transpose.", "bilinear": "Write it with matmul.",
}  # fmt: skip


def lowers(*ops: str, replace: bool = False) -> Callable[[Rule], Rule]:
    """Register the rule of some ops; `replace`: override a built-in rule."""
    return RULES.register(*ops, replace=replace)


def lower(graph: Graph, store: WeightStore, options: EmitOptions) -> Design:
    """Lower a graph to a design with FIFOs; raises EmitError, naming the node, for unsupported operations."""
    return buffered(unbuffered(graph, store, options)[0])


def unbuffered(graph: Graph, store: WeightStore, options: EmitOptions) -> tuple[Design, Sizes]:
    """The design without FIFOs, and the sizes of the nodes that support parallelism."""
    work = Lowering(graph, store, options)
    return work.design(), work.sizes


def sizes_of(graph: Graph, store: WeightStore, options: EmitOptions) -> Sizes:
    """Node → (inputs, outputs, rows), the limits of its parallelism, for the nodes that support it."""
    folded = graph.replace(*(replace(n, parallel=None) for n in graph if n.parallel))
    return unbuffered(folded, store, options)[1]


class Lowering(Builder):
    """Lowering context: the design under construction and `signals` by graph node, for the rules to read and extend."""

    def __init__(self, graph: Graph, store: WeightStore, options: EmitOptions) -> None:
        super().__init__()
        check_name(options.name, reserved())
        for name in options.sizes:
            if name not in graph.symbols:
                raise EmitError(f"sizes: the model has no size {name!r}.", nearest(name, graph.symbols))
        self.graph, self.store, self.options = graph, store, options
        self.symbols = {**graph.symbols, **options.sizes, "batch": 1}
        self.host: set[str] = set()
        self.constants = constants(graph)
        self.host_nodes: list[HostNode] = []
        self._values: dict[Ref, np.ndarray] = {}
        self.fused: dict[str, Fused] = {}
        self.signals: dict[Ref, Signal] = {}
        self.sizes: Sizes = {}  # (inputs, outputs, rows) of the nodes that support parallelism
        self.inputs: list[Boundary] = []
        self.remarks: dict[str, str] = {}
        self.clipped: dict[str, float] = {}  # tensor of a layer → share of values that its format clips

    def design(self) -> Design:
        """Lower all nodes in order, then give every wire one reader."""
        self.fused = fused(self.graph, [op for op in RULES if RULES.is_own(op)], self.constants)
        inner = {n: last for last, f in self.fused.items() for n in f.nodes}
        for node in self.graph:
            if node.call == "output" or Ref(node.id) in self.signals:  # lowered together with an earlier node
                continue
            steps = self.fused.get(inner.get(node.id, ""))
            if steps is not None and not self._by_host(steps):
                if inner[node.id] == node.id:
                    RULES["_steps"](self, node)
                continue
            if self._on_host(node):
                self.host.add(node.id)
                if node.id not in self.constants and node.call != "placeholder":
                    self.host_nodes.append(host_node(node, RULES))
            elif node.op in RULES:
                RULES[node.op](self, node)
            else:
                text = f"{node.id} ({node.op}) has no hardware template."
                raise EmitError(text, INSTEAD.get(node.op) or similar_ops(node.op, RULES), node.id)
        return self._netlist()

    def _by_host(self, steps: Fused) -> bool:
        """Whether a fused group stays on the host."""
        chosen = any(self.graph.nodes[n].precision for n in steps.nodes)
        return steps.source.node in self.host and not chosen

    def _on_host(self, node: Node) -> bool:
        fed = all(ref.node in self.host for ref in node.inputs)
        return node.id in self.constants or (fed and (node.op == "embedding" or not node.precision))

    # ---- for rules

    def shape(self, node: Node, name: str = "data_out") -> tuple[int, ...]:
        """Shape of a port's tensor without the batch axis."""
        sizes = node.ports[name].sizes(self.symbols)
        first = node.ports[name].shape[0] if sizes else None
        return sizes[1:] if first == "batch" or (sizes and sizes[0] == 1) else sizes

    def axis(self, node: Node, dim: int, name: str = "data_out") -> int:
        """The axis, without the batch axis, that an op's `dim` names at a port; −1 for the batch axis."""
        shape = node.ports[name].shape
        at = dim % max(len(shape), 1)
        return -1 if shape[at] == "batch" else at - len(shape) + len(self.shape(node, name))

    def chosen(self, node: Node, name: str) -> Fixed | None:
        """Hardware format at a port; None without one, or for blocks, which the layer makes. Raises EmitError."""
        precision = choice(node, name)
        if precision is None or (isinstance(precision.format, MXInt) and node.op in PRODUCTS and name == "data_in"):
            return None
        return format_of(node, name, precision, self.graph, self.store)

    def rounding(self, node: Node, name: str) -> Rounding:
        """Rounding mode of a port's format."""
        precision = choice(node, name)
        return getattr(precision.format if precision else None, "rounding", "nearest_even")

    def weight(self, node: Node, name: str) -> tuple[Codes, Fixed] | None:
        """Codes of a node's masked and quantised tensor, and their format; None without such a tensor."""
        if weight_at(node, name, self.graph) is None:
            return None
        chosen = choice(node, name)
        if chosen is None or not isinstance(chosen.format, Integer):
            text = f"{name} of {node.id} {f'is in {chosen.label}, not `integer`' if chosen else 'has no format'}."
            raise EmitError(text, "Quantise it with `integer` (pass quantize).", node.id)
        fixed, values = fixed_of(chosen.format), masked(node, name, self.graph, self.store)[0]
        self.clipped[f"{name} of {node.id}"] = clipped_share(fixed, values)
        return fixed.encode(values, self.rounding(node, name)), fixed

    def value(self, ref: Ref) -> np.ndarray | None:
        """Values of a constant tensor; None for others."""
        if ref.node not in self.constants:
            return None
        if ref not in self._values:
            self._values[ref] = constant_value(self.graph, self.store, ref, self.symbols)
        return self._values[ref]

    def operand(self, node: Node, ref: Ref, name: str, par: int | None = None, tokens: int = 1) -> Signal:
        """The operand at port `name`: in the port's format, with `par` elements per beat if given."""
        fixed = self.chosen(node, name)
        if ref.node in self.host:
            signal = self.from_host(node, ref, name, par or 1, tokens)
        else:
            signal = self.published(ref)
            if signal.repeated is not None and not (spec(node.op).moves or spec(node.op).category == "matmul"):
                signal = expanded(self, node, signal)
            if fixed is not None and fixed != signal.fixed:
                signal = self.cast(node, signal, fixed, self.rounding(node, name))
        if not (plain(signal.fixed) or spec(node.op).moves or reads(node.op, signal.fixed)):
            text = f"{name} of {node.id} ({node.op}) is in {signal.fixed.label}, which only layers support."
            raise EmitError(text, "Choose `integer` for it.", node.id)
        return self.resize(node, signal, signal.stream.par if par is None else par, tokens)

    def result(self, node: Node, exact: Fixed) -> tuple[Fixed, Rounding]:
        """Output format of a node: its own, else that in which all readers take it, else `exact`."""
        if exact.width > WIDEST:
            text = f"The exact result of {node.id} needs {exact.width} bits; {WIDEST} are supported."
            raise EmitError(text, "Choose narrower formats for its operands or the data_out before them.", node.id)
        chosen = self.chosen(node, "data_out")
        if chosen is not None:
            return (chosen, self.rounding(node, "data_out")) if gives(node.op, chosen) else (exact, "nearest_even")
        formats = set(self._readers(Ref(node.id)))
        if len(formats) == 1 and (only := next(iter(formats))) is not None and gives(node.op, only[0]):
            return only
        return exact, "nearest_even"

    def _readers(self, ref: Ref) -> list[tuple[Fixed, Rounding] | None]:
        """Formats in which `ref` is read, seen through nodes that only move data; None for a reader without one."""
        formats: list[tuple[Fixed, Rounding] | None] = []
        for node in self.graph:
            for source, name in operand_ports(node, self.graph):
                if source != ref or node.op in SHAPE_ONLY:
                    continue
                chosen = self.chosen(node, name) if node.call != "output" else None
                if chosen is not None:
                    formats.append((chosen, self.rounding(node, name)))
                elif (spec(node.op).moves or node.op in MONOTONE) and not node.precision:
                    outs = range(node.outputs or 1)
                    through = [r for k in outs for r in self._readers(Ref(node.id, k))]
                    unchanged = all(r is None or spec(node.op).moves or reads(node.op, r[0]) for r in through)
                    formats += through if unchanged else [None]
                else:
                    formats.append(None)
        return formats

    def give(self, node: Node, wire: Wire, stream: Stream, index: np.ndarray | None = None) -> None:
        """Publish the stream on `wire` as the node's result, in row-major order unless `index` is given."""
        order = np.arange(stream.elements) if index is None else index
        self.publish(node, Signal(wire, stream, self.shape(node), order))

    def published(self, ref: Ref) -> Signal:
        """The signal of a result; raises EmitError where the rule of its node gave none."""
        if ref not in self.signals:
            text = f"The rule of {self.graph.nodes[ref.node].op} gave {ref.node} no result."
            raise EmitError(text, "End the rule with low.publish(node, signal).", ref.node)
        return self.signals[ref]

    def publish(self, node: Node, signal: Signal) -> None:
        """Publish a node's result, cast to the format of its data_out if it has one."""
        chosen = self.chosen(node, "data_out")
        if chosen is not None and chosen != signal.fixed:
            signal = self.cast(node, signal, chosen, self.rounding(node, "data_out"))
        self.signals[Ref(node.id)] = signal

    def parallel(self, node: Node, inputs: int, outputs: int, rows: int = 1) -> tuple[int, int, int]:
        """Parallelism (inputs, outputs, tokens) of a node; raises EmitError unless each divides its size."""
        self.sizes[node.id] = inputs, outputs, rows
        chosen = node.parallel or Parallel()
        requested = chosen.inputs, chosen.outputs, chosen.tokens
        for title, size, want in zip(("inputs", "outputs", "rows"), self.sizes[node.id], requested, strict=True):
            if size % want:
                allowed = ", ".join(str(n) for n in range(1, size + 1) if size % n == 0)
                text = f"{node.id} has {size} {title}, which the parallelism {want} does not divide."
                raise EmitError(text, f"Choose one of {allowed} (pass parallelize).", node.id)
        return requested

    # ---- conversions, host inputs and constants

    def from_host(self, node: Node, ref: Ref, name: str, par: int, tokens: int = 1,
                  index: np.ndarray | None = None) -> Signal:  # fmt: skip
        """An input of the design in a port's format, as rows of its last axis or those of `index`; inputs are shared.

        Constants become sources in the design instead.
        """
        fixed, rounding = self.chosen(node, name), self.rounding(node, name)
        if ref.node in self.constants:
            return constant(self, node, ref, (fixed, rounding), (par, tokens), index)
        if fixed is None:
            text = f"{name} of {node.id} comes from the host and has no format."
            raise EmitError(text, "Quantise it with `integer` (pass quantize).", node.id)
        shape = self.shape(self.graph.nodes[ref.node], out_port(ref.output))
        rows, size = rows_and_size(shape) if index is None else (index.shape[0], index.shape[1])
        order = np.arange(rows * size) if index is None else index.reshape(-1)
        key = ref.node, ref.output, fixed, rounding
        for k, boundary in enumerate(self.inputs):
            is_same = (boundary.node, boundary.output, boundary.stream.fixed, boundary.rounding) == key
            if is_same and (index is None or np.array_equal(boundary.index, order)):
                return Signal(Wire("", k), boundary.stream, shape, boundary.index)
        added = Boundary(port("x", len(self.inputs)), Stream(rows, size, fixed, par, tokens), ref.node, shape, order,
                         ref.output, rounding, batch_axis(self.graph, ref))  # fmt: skip
        self.inputs.append(added)
        return Signal(Wire("", len(self.inputs) - 1), added.stream, shape, added.index)

    def _netlist(self) -> Design:
        ends, outputs = [], []
        for k, ref in enumerate(self.graph.output.inputs):
            if ref.node in self.host:
                op = self.graph.nodes[ref.node].op
                hint = "Quantise the model first." if op in RULES else f"There is no hardware for {op} yet."
                raise EmitError(f"The output {ref.node} is computed on the host.", hint, ref.node)
            signal = expanded(self, self.graph.nodes[ref.node], self.published(ref))
            ends.append(signal.wire)
            outputs.append(Boundary(port("y", k), signal.stream, ref.node, signal.shape, signal.index, ref.output,
                                    axis=batch_axis(self.graph, ref)))  # fmt: skip
        notes = (*host_layers(self), *fixed_batches(self.graph), *clipping(self.clipped))
        design = Design(self.options.name, tuple(self.inputs), tuple(outputs), tuple(self.instances),
                        self.wires, tuple(ends), self.symbols, host_nodes=tuple(self.host_nodes),
                        remarks=self.remarks, notes=notes)  # fmt: skip
        design = with_forks(design)
        design.check()
        return design


def similar_ops(op: str, supported: Iterable[str]) -> str:
    """Hint: the supported ops with similar names, and that a plug-in may add one."""
    similar = get_close_matches(op, sorted(k for k in supported if k[0] != "_"), 3, 0.75)
    have = f"{', '.join(similar)} {'has' if len(similar) == 1 else 'have'} one. " if similar else ""
    return f"{have}The guide lists all under Hardware operations, and shows how a plug-in adds one."


def constant(low: Lowering, node: Node, ref: Ref, form: tuple[Fixed | None, Rounding], par: tuple[int, int],
             index: np.ndarray | None) -> Signal:  # fmt: skip
    """A constant as a source, in a port's format, or in the result's for an op that only copies it."""
    fixed, rounding = form
    if fixed is None and node.op in MOVING:
        fixed, rounding = low.result(node, UNKNOWN)
    if fixed is None or fixed is UNKNOWN:
        text = f"{ref.node}, which {node.id} reads, is constant and has no format."
        raise EmitError(text, "Quantise what reads it with `integer` (pass quantize).", node.id)
    values, shape = low.value(ref), low.shape(low.graph.nodes[ref.node], out_port(ref.output))
    assert values is not None
    rows, size = rows_and_size(shape) if index is None else (index.shape[0], index.shape[1])
    order = np.arange(rows * size) if index is None else index.reshape(-1)
    stream = Stream(rows, size, fixed, *par)
    return source(low, node, fixed.encode(values.reshape(-1)[order], rounding), stream, shape, order)


def source(
    low: Lowering, node: Node, codes: Codes, stream: Stream, shape: tuple[int, ...], index: np.ndarray
) -> Signal:
    """Constant codes, in the order of the stream, as a signal."""
    instance = Source(name=low.free(f"{node.id}_source"), node=node.id, inputs=(), outputs=(stream,), shape=shape,
                      codes=codes.reshape(stream.rows, stream.size))  # fmt: skip
    return Signal(low.add(instance, ()), stream, shape, index)


def stays_folded(low: Lowering, node: Node, reason: str) -> None:
    """Add a remark if a layer is folded although the unrolled engine was chosen."""
    if low.options.engine == "unrolled":
        low.remarks[node.id] = f"folded, not unrolled: {reason}"


def fixed_batches(graph: Graph) -> tuple[str, ...]:
    """A warning for inputs traced with a fixed batch size above 1, which is taken for part of a sample."""
    shapes = {n.id: n.out.shape for n in graph.placeholders if n.out is not None and len(n.out.shape) > 1}
    if any("batch" in str(dim) for shape in shapes.values() for dim in shape):
        return ()
    batches = [f"{name} has {shape[0]}" for name, shape in shapes.items() if isinstance(shape[0], int) and shape[0] > 1]
    text = "The batch size was fixed when the model was traced, so the whole batch is one sample here"
    return (f"{text}: {', '.join(batches)}. Trace it with a dynamic batch, or a batch of 1.",) if batches else ()


def host_layers(low: Lowering) -> tuple[str, ...]:
    """A warning for layers with weights that the host computes."""
    layers = [n for n in low.graph if n.op != "embedding" and any(
        p.startswith("weight") and weight_at(n, p, low.graph) is not None for p in n.ports)]  # fmt: skip
    by_host = [n for n in layers if n.id in low.host and n.id not in low.constants]
    if not by_host:
        return ()
    names = ", ".join(f"{n.id} ({n.op})" for n in by_host[:NAMED])
    rest_text = f" and {len(by_host) - NAMED} more" if len(by_host) > NAMED else ""
    text = f"The design is not the whole model: the host computes {names}{rest_text}"
    return (f"{text}, {len(by_host)} of {len(layers)} layers with weights.",)


def clipping(clipped: Mapping[str, float]) -> tuple[str, ...]:
    """A warning for formats that clip much of a tensor, the worst first."""
    worst = sorted((n for n, share in clipped.items() if share >= OUTLIERS), key=lambda name: -clipped[name])
    if not worst:
        return ()
    names = ", ".join(f"{100 * clipped[name]:.0f} % of {name}" for name in worst[:NAMED])
    rest_text = f" and of {len(worst) - NAMED} more" if len(worst) > NAMED else ""
    return (f"Their formats clip {names}{rest_text}: calibrate them, or leave more integer bits.",)


def batch_axis(graph: Graph, ref: Ref) -> int:
    """The batch axis of a tensor; 0 if it has none."""
    meta = graph.nodes[ref.node].ports.get(out_port(ref.output))
    shape = meta.shape if meta is not None else ()
    return shape.index("batch") if "batch" in shape else 0


def operand_ports(node: Node, graph: Graph) -> list[tuple[Ref, str]]:
    """(source, port) of a node's tensor operands."""
    if node.call == "call_module":
        return [(ref, "data_in") for ref in node.inputs[:1]]
    ports = operands(node.op, node.args, node.kwargs, graph.nodes)
    return [(ref, at[0]) for ref, at in zip(node.inputs, ports, strict=True) if at is not None]


def with_forks(design: Design) -> Design:
    """The design with a fork behind every wire that has several readers."""
    readers: dict[Wire, list[tuple[str, int]]] = {}
    for name, those in design.wires.items():
        for k, wire in enumerate(those):
            readers.setdefault(wire, []).append((name, k))
    for k, wire in enumerate(design.ends):
        readers.setdefault(wire, []).append(("", k))
    wires = {name: list(ws) for name, ws in design.wires.items()}
    ends, order = list(design.ends), list(design.instances)
    for wire, those in readers.items():
        if len(those) < 2:
            continue
        stream = design.stream(wire)
        node = design.instance(wire.source).node if wire.source else design.inputs[wire.output].node
        fork = Fork(name=f"{design.label(wire)}_fork", node=node, inputs=(stream,), outputs=(stream,) * len(those))
        position = next((n for n, i in enumerate(order) if i.name == wire.source), -1) + 1
        order.insert(position, fork)
        wires[fork.name] = [wire]
        for k, (name, slot) in enumerate(those):
            if name:
                wires[name][slot] = Wire(fork.name, k)
            else:
                ends[slot] = Wire(fork.name, k)
    return replace(design, instances=tuple(order), wires={n: tuple(ws) for n, ws in wires.items()}, ends=tuple(ends))
