"""Graph → Design: each node goes through the rule of its op; casts, changes of width and forks are put between.

Nodes that only host values feed and that have no formats (embeddings, masks, reshaping of the inputs) stay on the host.
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
from espalier.verilog.design.hosting import LOOKS, Hosted, constants, hosted, value_of
from espalier.verilog.design.netlist import Boundary, Design, Wire
from espalier.verilog.design.options import EmitOptions, check_name
from espalier.verilog.design.signal import Signal, arranged
from espalier.verilog.design.stream import Stream
from espalier.verilog.design.template import port
from espalier.verilog.lowering.builder import Builder, written_out
from espalier.verilog.lowering.fusing import Fused, fused
from espalier.verilog.lowering.masking import masked
from espalier.verilog.numbers.fixed import WIDEST, Codes, Fixed, Rounding, beyond, fixed_of
from espalier.verilog.numbers.scaled import PRODUCTS, format_of, gives, plain, reads
from espalier.verilog.rtl.library import reserved
from espalier.verilog.templates.fork import Fork
from espalier.verilog.templates.source import Source
from espalier.verilog.timing.buffering import buffered

Sizes = dict[str, tuple[int, int, int]]
Rule = Callable[["Lowering", Node], None]
RULES: Registry[str, Rule] = Registry("hardware rule", EmitError, ("espalier.verilog.rules",))
# They give the same values before and after rounding and saturation: ops that keep the order and the zero.
MONOTONE = ("relu", "max_pool1d", "max_pool2d", "max_pool3d", "where")

MOVING = ("cat", "stack", "where", "masked_fill")  # which hand on a constant as it is, in the format of their result
UNKNOWN = Fixed(1, 0)
OUTLIERS = 0.01  # share of a tensor that a format may clip without a word: calibration gives up a few for finer steps
NAMED = 4  # of those that it clips

RECURRENT = "Each step of it waits for the one before. Use convolutions or attention, or leave it to a processor."
CHOICE = "Leave it out: the host takes the largest of what comes."
INSTEAD = {  # what to do about ops that have no hardware
    "scaled_dot_product_attention": "Decompose it first (pass decompose_attention).",
    **dict.fromkeys(("lstm", "gru", "rnn", "rnn_tanh", "rnn_relu"), RECURRENT),
    **dict.fromkeys(("argmax", "argmin", "topk", "sort"), CHOICE),
    "einsum": "Write it with matmul and transpose.", "bilinear": "Write it with matmul.",
}  # fmt: skip


def lowers(*ops: str, replace: bool = False) -> Callable[[Rule], Rule]:
    """Register the rule of some ops; `replace`: in the place of a rule of ours."""
    return RULES.register(*ops, replace=replace)


def lower(graph: Graph, store: WeightStore, options: EmitOptions) -> Design:
    """The design of a graph, with its FIFOs; raises EmitError for what has no hardware, with its node."""
    return buffered(unbuffered(graph, store, options)[0])


def unbuffered(graph: Graph, store: WeightStore, options: EmitOptions) -> tuple[Design, Sizes]:
    """The design without FIFOs, and the sizes of the nodes that can be parallel."""
    work = Lowering(graph, store, options)
    return work.design(), work.sizes


def sizes_of(graph: Graph, store: WeightStore, options: EmitOptions) -> Sizes:
    """Node → (inputs, outputs, rows) that can be computed at once, for those that can be parallel."""
    folded = graph.replace(*(replace(n, parallel=None) for n in graph if n.parallel))
    return unbuffered(folded, store, options)[1]


class Lowering(Builder):
    """The design while it is made: `signals` by graph node, for the rules to read and to add to."""

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
        self.hosted: list[Hosted] = []
        self._values: dict[Ref, np.ndarray] = {}
        self.fused: dict[str, Fused] = {}
        self.signals: dict[Ref, Signal] = {}
        self.sizes: Sizes = {}  # inputs, outputs, rows of the nodes that can be parallel
        self.inputs: list[Boundary] = []
        self.remarks: dict[str, str] = {}
        self.clipped: dict[str, float] = {}  # tensors of layers → how many of their numbers lie beyond their format

    def design(self) -> Design:
        """Lower all nodes in order, then give every wire one reader."""
        self.fused = fused(self.graph, [op for op in RULES if RULES.is_own(op)], self.constants)
        inner = {n: last for last, f in self.fused.items() for n in f.nodes}
        for node in self.graph:
            if node.call == "output" or Ref(node.id) in self.signals:  # done together with one before
                continue
            steps = self.fused.get(inner.get(node.id, ""))
            if steps is not None and not self._by_host(steps):
                if inner[node.id] == node.id:
                    RULES["_steps"](self, node)
                continue
            if self._on_host(node):
                self.host.add(node.id)
                if node.id not in self.constants and node.call != "placeholder":
                    self.hosted.append(hosted(node, RULES))
            elif node.op in RULES:
                RULES[node.op](self, node)
            else:
                text = f"{node.id} ({node.op}) has no hardware template."
                raise EmitError(text, INSTEAD.get(node.op) or others(node.op, RULES), node.id)
        return self._finished()

    def _by_host(self, steps: Fused) -> bool:
        """Whether nobody wants what is done as one in hardware."""
        chosen = any(self.graph.nodes[n].precision for n in steps.nodes)
        return steps.source.node in self.host and not chosen

    def _on_host(self, node: Node) -> bool:
        fed = all(ref.node in self.host for ref in node.inputs)
        return node.id in self.constants or (fed and (node.op == "embedding" or not node.precision))

    # ---- what rules ask for

    def shape(self, node: Node, name: str = "data_out") -> tuple[int, ...]:
        """The shape of one sample of a port's tensor, the batch axis left out."""
        sizes = node.ports[name].sizes(self.symbols)
        first = node.ports[name].shape[0] if sizes else None
        return sizes[1:] if first == "batch" or (sizes and sizes[0] == 1) else sizes

    def axis(self, node: Node, dim: int, name: str = "data_out") -> int:
        """Which axis of one sample of a port's tensor an op's `dim` is; −1 for that along which samples lie."""
        shape = node.ports[name].shape
        at = dim % max(len(shape), 1)
        return -1 if shape[at] == "batch" else at - len(shape) + len(self.shape(node, name))

    def chosen(self, node: Node, name: str) -> Fixed | None:
        """The format of what flows through a port; None for none, or for blocks, which a layer makes. Or EmitError."""
        found = choice(node, name)
        if found is None or (isinstance(found.format, MXInt) and node.op in PRODUCTS and name == "data_in"):
            return None
        return format_of(node, name, found, self.graph, self.store)

    def rounding(self, node: Node, name: str) -> Rounding:
        """How values come into a port's format."""
        found = choice(node, name)
        return getattr(found.format if found else None, "rounding", "nearest_even")

    def weight(self, node: Node, name: str) -> tuple[Codes, Fixed] | None:
        """The codes of a node's own tensor after mask and format, and that format; None where it has no such tensor."""
        if weight_at(node, name, self.graph) is None:
            return None
        chosen = choice(node, name)
        if chosen is None or not isinstance(chosen.format, Integer):
            text = f"{name} of {node.id} {f'is in {chosen.label}, not in integers' if chosen else 'has no format'}."
            raise EmitError(text, "Quantise it with `integer` (pass quantize).", node.id)
        fixed, values = fixed_of(chosen.format), masked(node, name, self.graph, self.store)[0]
        self.clipped[f"{name} of {node.id}"] = beyond(fixed, values)
        return fixed.encode(values, self.rounding(node, name)), fixed

    def value(self, ref: Ref) -> np.ndarray | None:
        """The numbers of a tensor that hangs on no input, None for others."""
        if ref.node not in self.constants:
            return None
        if ref not in self._values:
            self._values[ref] = value_of(self.graph, self.store, ref, self.symbols)
        return self._values[ref]

    def operand(self, node: Node, ref: Ref, name: str, par: int | None = None, tokens: int = 1) -> Signal:
        """What a node reads from `ref` at port `name`: in the port's format, `par` elements a beat where given."""
        fixed = self.chosen(node, name)
        if ref.node in self.host:
            signal = self.from_host(node, ref, name, par or 1, tokens)
        else:
            signal = self.signals[ref]
            if signal.repeated is not None and not (spec(node.op).moves or spec(node.op).category == "matmul"):
                signal = written_out(self, node, signal)
            if fixed is not None and fixed != signal.fixed:
                signal = self.cast(node, signal, fixed, self.rounding(node, name))
        if not (plain(signal.fixed) or spec(node.op).moves or reads(node.op, signal.fixed)):
            text = f"{name} of {node.id} ({node.op}) comes in {signal.fixed.label}, which only layers compute with."
            raise EmitError(text, "Choose `integer` for it.", node.id)
        return self.resize(node, signal, signal.stream.par if par is None else par, tokens)

    def result(self, node: Node, exact: Fixed) -> tuple[Fixed, Rounding]:
        """The format in which a node's result leaves: its own, or that in which all readers take it, or `exact`."""
        if exact.width > WIDEST:
            text = f"The exact result of {node.id} needs {exact.width} bits; {WIDEST} are supported."
            raise EmitError(text, "Choose formats for its operands, or for the data_out of those before it.", node.id)
        own = self.chosen(node, "data_out")
        if own is not None:
            return (own, self.rounding(node, "data_out")) if gives(node.op, own) else (exact, "nearest_even")
        wanted = set(self._readers(Ref(node.id)))
        if len(wanted) == 1 and (only := next(iter(wanted))) is not None and gives(node.op, only[0]):
            return only
        return exact, "nearest_even"

    def _readers(self, ref: Ref) -> list[tuple[Fixed, Rounding] | None]:
        """The formats in which the values of `ref` are read, seen through nodes that only move them."""
        found: list[tuple[Fixed, Rounding] | None] = []
        for node in self.graph:
            for source, name in operand_ports(node, self.graph):
                if source != ref or node.op in LOOKS:
                    continue
                chosen = self.chosen(node, name) if node.call != "output" else None
                if chosen is not None:
                    found.append((chosen, self.rounding(node, name)))
                elif (spec(node.op).moves or node.op in MONOTONE) and not node.precision:
                    outs = range(node.outputs or 1)
                    through = [r for k in outs for r in self._readers(Ref(node.id, k))]
                    same = all(r is None or spec(node.op).moves or reads(node.op, r[0]) for r in through)
                    found += through if same else [None]
                else:
                    found.append(None)
        return found

    def give(self, node: Node, wire: Wire, stream: Stream, index: np.ndarray | None = None) -> None:
        """The node's result: what travels on `wire`, in its own order unless `index` says otherwise."""
        order = np.arange(stream.elements) if index is None else index
        self.publish(node, Signal(wire, stream, self.shape(node), order))

    def publish(self, node: Node, signal: Signal) -> None:
        """The node's result, in the format of its data_out where it has one."""
        own = self.chosen(node, "data_out")
        if own is not None and own != signal.fixed:
            signal = self.cast(node, signal, own, self.rounding(node, "data_out"))
        self.signals[Ref(node.id)] = signal

    def parallel(self, node: Node, inputs: int, outputs: int, rows: int = 1) -> tuple[int, int, int]:
        """(inputs, outputs, tokens) that a node computes at once; each must divide its size, else EmitError."""
        self.sizes[node.id] = inputs, outputs, rows
        chosen = node.parallel or Parallel()
        wanted = chosen.inputs, chosen.outputs, chosen.tokens
        for title, size, want in zip(("inputs", "outputs", "rows"), self.sizes[node.id], wanted, strict=True):
            if size % want:
                fits = ", ".join(str(n) for n in range(1, size + 1) if size % n == 0)
                text = f"{node.id} has {size} {title}; {want} at once do not divide them."
                raise EmitError(text, f"Choose one of {fits} (pass parallelize).", node.id)
        return wanted

    def from_host(self, node: Node, ref: Ref, name: str, par: int, tokens: int = 1,
                  index: np.ndarray | None = None) -> Signal:  # fmt: skip
        """An input of the design in a port's format, as rows of its last axis or of `index`'; one that is there.

        What hangs on no input does not come from the host: it is a source of its own.
        """
        fixed, rounding = self.chosen(node, name), self.rounding(node, name)
        if ref.node in self.constants:
            return constant(self, node, ref, (fixed, rounding), (par, tokens), index)
        if fixed is None:
            text = f"{name} of {node.id} comes from the host and has no format."
            raise EmitError(text, "Quantise it with `integer` (pass quantize).", node.id)
        shape = self.shape(self.graph.nodes[ref.node], out_port(ref.output))
        rows, size = arranged(shape) if index is None else (index.shape[0], index.shape[1])
        order = np.arange(rows * size) if index is None else index.reshape(-1)
        mine = ref.node, ref.output, fixed, rounding
        for k, known in enumerate(self.inputs):
            same = (known.node, known.output, known.stream.fixed, known.rounding) == mine
            if same and (index is None or np.array_equal(known.index, order)):
                return Signal(Wire("", k), known.stream, shape, known.index)
        made = Boundary(port("x", len(self.inputs)), Stream(rows, size, fixed, par, tokens), ref.node, shape, order,
                        ref.output, rounding, samples_axis(self.graph, ref))  # fmt: skip
        self.inputs.append(made)
        return Signal(Wire("", len(self.inputs) - 1), made.stream, shape, made.index)

    def _finished(self) -> Design:
        ends, outputs = [], []
        for k, ref in enumerate(self.graph.output.inputs):
            if ref.node in self.host:
                op = self.graph.nodes[ref.node].op
                hint = "Quantise the model first." if op in RULES else f"There is no hardware for {op} yet."
                raise EmitError(f"The output {ref.node} is computed on the host.", hint, ref.node)
            signal = written_out(self, self.graph.nodes[ref.node], self.signals[ref])
            ends.append(signal.wire)
            outputs.append(Boundary(port("y", k), signal.stream, ref.node, signal.shape, signal.index, ref.output,
                                    axis=samples_axis(self.graph, ref)))  # fmt: skip
        notes = (*left_out(self), *fixed_batches(self.graph), *overflows(self.clipped))
        design = Design(self.options.name, tuple(self.inputs), tuple(outputs), tuple(self.instances),
                        self.wires, tuple(ends), self.symbols, hosted=tuple(self.hosted),
                        remarks=self.remarks, notes=notes)  # fmt: skip
        design = forked(design)
        design.check()
        return design


def others(op: str, known: Iterable[str]) -> str:
    """The ops with a template that are called nearly so, or all."""
    every = sorted(k for k in known if k[0] != "_")
    near = get_close_matches(op, every, 3, 0.75)
    return f"{', '.join(near or every)} {'has' if len(near) == 1 else 'have'} one."


def constant(low: Lowering, node: Node, ref: Ref, form: tuple[Fixed | None, Rounding], par: tuple[int, int],
             index: np.ndarray | None) -> Signal:  # fmt: skip
    """What hangs on no input, in a port's format, or in that of the result of an op that only moves it."""
    fixed, rounding = form
    if fixed is None and node.op in MOVING:
        fixed, rounding = low.result(node, UNKNOWN)
    if fixed is None or fixed is UNKNOWN:
        text = f"{ref.node}, which {node.id} reads, is constant and has no format."
        raise EmitError(text, "Quantise what reads it with `integer` (pass quantize).", node.id)
    values, shape = low.value(ref), low.shape(low.graph.nodes[ref.node], out_port(ref.output))
    assert values is not None
    rows, size = arranged(shape) if index is None else (index.shape[0], index.shape[1])
    order = np.arange(rows * size) if index is None else index.reshape(-1)
    stream = Stream(rows, size, fixed, *par)
    return held(low, node, fixed.encode(values.reshape(-1)[order], rounding), stream, shape, order)


def held(low: Lowering, node: Node, codes: Codes, stream: Stream, shape: tuple[int, ...], index: np.ndarray) -> Signal:
    """Constant codes, in the order of the stream, as a signal."""
    made = Source(name=low.free(f"{node.id}_source"), node=node.id, inputs=(), outputs=(stream,), shape=shape,
                  codes=codes.reshape(stream.rows, stream.size))  # fmt: skip
    return Signal(low.add(made, ()), stream, shape, index)


def stays_folded(low: Lowering, node: Node, why: str) -> None:
    """Remark that a layer is folded where adders were asked for."""
    if low.options.engine == "unrolled":
        low.remarks[node.id] = f"folded, not unrolled: {why}"


def fixed_batches(graph: Graph) -> tuple[str, ...]:
    """A word for inputs traced with a batch that is a number: the design cannot know that as samples."""
    shapes = {n.id: n.out.shape for n in graph.placeholders if n.out is not None and len(n.out.shape) > 1}
    if any("batch" in str(dim) for shape in shapes.values() for dim in shape):
        return ()
    many = [f"{name} has {shape[0]}" for name, shape in shapes.items() if isinstance(shape[0], int) and shape[0] > 1]
    text = "Its batch was fixed when the model was traced, so that all of it is one sample here"
    return (f"{text}: {', '.join(many)}. Trace it with a batch that is free, or of 1.",) if many else ()


def left_out(low: Lowering) -> tuple[str, ...]:
    """A word for layers that the host computes: the design is not the whole model."""
    layers = [n for n in low.graph if n.op != "embedding" and any(
        p.startswith("weight") and weight_at(n, p, low.graph) is not None for p in n.ports)]  # fmt: skip
    beside = [n for n in layers if n.id in low.host and n.id not in low.constants]
    if not beside:
        return ()
    named = ", ".join(f"{n.id} ({n.op})" for n in beside[:NAMED])
    more = f" and {len(beside) - NAMED} more" if len(beside) > NAMED else ""
    text = f"The design is not the whole model: the host computes {named}{more}"
    return (f"{text}, {len(beside)} of {len(layers)} layers with weights.",)


def overflows(clipped: Mapping[str, float]) -> tuple[str, ...]:
    """A word for formats that hold too little of a tensor, the worst first."""
    worst = sorted((n for n, share in clipped.items() if share >= OUTLIERS), key=lambda name: -clipped[name])
    if not worst:
        return ()
    named = ", ".join(f"{100 * clipped[name]:.0f} % of {name}" for name in worst[:NAMED])
    more = f" and of {len(worst) - NAMED} more" if len(worst) > NAMED else ""
    return (f"Beyond their format, and so clipped, are {named}{more}: calibrate them, or leave more bits "
            "before the point.",)  # fmt: skip


def samples_axis(graph: Graph, ref: Ref) -> int:
    """The axis of a tensor along which samples lie; the first where it is the same for all."""
    meta = graph.nodes[ref.node].ports.get(out_port(ref.output))
    shape = meta.shape if meta is not None else ()
    return shape.index("batch") if "batch" in shape else 0


def operand_ports(node: Node, graph: Graph) -> list[tuple[Ref, str]]:
    """(source, port) of the tensors that a node reads."""
    if node.call == "call_module":
        return [(ref, "data_in") for ref in node.inputs[:1]]
    found = operands(node.op, node.args, node.kwargs, graph.nodes)
    return [(ref, got[0]) for ref, got in zip(node.inputs, found, strict=True) if got is not None]


def forked(design: Design) -> Design:
    """The design with a fork behind every wire that has several readers, and a sink behind none."""
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
        made = Fork(name=f"{design.label(wire)}_fork", node=node, inputs=(stream,), outputs=(stream,) * len(those))
        place = next((n for n, i in enumerate(order) if i.name == wire.source), -1) + 1
        order.insert(place, made)
        wires[made.name] = [wire]
        for k, (name, slot) in enumerate(those):
            if name:
                wires[name][slot] = Wire(made.name, k)
            else:
                ends[slot] = Wire(made.name, k)
    return replace(design, instances=tuple(order), wires={n: tuple(ws) for n, ws in wires.items()}, ends=tuple(ends))
