"""Emulation of single nodes in a running model: a node is lowered by its rule, and its integer model evaluated.

The evaluated model and the design use the same templates, tables and roundings, so they cannot differ.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from espalier.model.formats.integer import Integer
from espalier.model.graph.graph import Graph, Node, Ref, map_refs, out_port
from espalier.model.graph.meta import Precision, TensorMeta
from espalier.model.graph.node import Arg
from espalier.model.graph.ops import category, spec
from espalier.model.graph.ports import choice
from espalier.model.store.weights import Tensor as Stored
from espalier.model.store.weights import WeightStore
from espalier.model.torch.tensors import to_numpy
from espalier.verilog.design.host_part import MASKED, constants
from espalier.verilog.design.netlist import Boundary, Design
from espalier.verilog.design.options import EmitOptions
from espalier.verilog.lowering.fusing import RmsNorm, fused
from espalier.verilog.lowering.lower import RULES, Lowering, unbuffered
from espalier.verilog.numbers.fixed import Codes, fixed_of
from espalier.verilog.rules.attention import scaled_by

CACHED = 256  # designs of single nodes
MASK, FILLED = "mask__", "filled__"  # nodes inserted before a softmax with masked scores
CONVERTED = "converted__"  # node inserted to convert an input to a format
DROPS = ("dropout", "batch_norm")
PRODUCTS = ("matmul", "bmm", "mm")


@dataclass(frozen=True, slots=True)
class Region:
    """Nodes that hardware computes as one, the last of which gives the result; `sources`: their inputs."""

    nodes: tuple[str, ...]
    first: str
    sources: tuple[Ref, ...]


class Regions:
    """The regions of a graph."""

    def __init__(self, graph: Graph, store: WeightStore) -> None:
        self.graph = graph
        self.constants = constants(graph)
        self.fused = fused(graph, [op for op in RULES if RULES.is_own(op)], self.constants)
        self._low = Lowering(graph, store, EmitOptions())

    def of(self, node: Node) -> Region:
        """The region whose result is the node's."""
        steps = self.fused.get(node.id)
        if steps is not None:
            constant = (steps.gamma,) if isinstance(steps, RmsNorm) and steps.gamma else ()
            return Region(steps.nodes, steps.first, tuple(r for r in (steps.source,) if r not in constant))
        producer = self.graph.nodes[node.inputs[0].node] if node.inputs else None
        nodes = (node.id,)
        if producer is not None and producer.op in PRODUCTS and scaled_by(self._low, producer)[0] is node:
            nodes = (producer.id, node.id)
        refs = (r for n in nodes for r in self.graph.nodes[n].inputs)
        return Region(nodes, nodes[0], tuple(dict.fromkeys(
            r for r in refs if r.node not in nodes and r.node not in self.constants
        )))  # fmt: skip


_last: list[tuple[Graph, Regions]] = []  # of the last graph: a build asks for its nodes one after another


def regions(graph: Graph, store: WeightStore) -> Regions:
    """The regions of a graph, cached for the last one."""
    if not _last or _last[0][0] is not graph:
        _last[:] = [(graph, Regions(graph, store))]
    return _last[0][1]


def emulate(graph: Graph, store: WeightStore, node: Node, tensors: Mapping[str, Tensor]) -> Emulated | None:
    """The emulation of a node; None if its input has no format, so that it runs as in the float model."""
    region = regions(graph, store).of(node)
    if not region.sources:
        return None
    if choice(graph.nodes[region.first], "data_in") is not None:
        return Emulated(graph, store, region, tensors)
    producer = computed_by(graph, region.sources[0])
    chosen = graph.nodes[producer.node].precision.get(out_port(producer.output))
    return None if chosen is None else Emulated(graph, store, region, tensors, chosen)


def computed_by(graph: Graph, ref: Ref) -> Ref:
    """The result whose values `ref` has, seen through nodes that only move data."""
    node = graph.nodes[ref.node]
    while out_port(ref.output) not in node.precision and spec(node.op).moves and node.inputs:
        ref = node.inputs[0]
        node = graph.nodes[ref.node]
    return ref


class Emulated:
    """The region of a node (model.torch.emulators.Emulation). Its weights are read from `tensors` at every run.

    `input_format`: the format of the first input, where the region has none for it.
    """

    def __init__(self, graph: Graph, store: WeightStore, region: Region, tensors: Mapping[str, Tensor],
                 input_format: Precision | None = None) -> None:  # fmt: skip
        self.region, self.sources, self._store = region, region.sources, store
        self._part = _part(graph, region, constants(graph))
        if input_format is not None:
            self._part = _in_format(self._part, self.region, input_format)
        self.trains = not any(n.op in DROPS or category(n) == "linear" for n in self._part)
        names = dict.fromkeys(name for n in self._part for name in n.tensors)
        self._live = {name: tensors[name] for name in names}
        self._stamp: tuple[tuple[Tensor, ...], tuple[str, ...]] | None = None
        self.content: Hashable = (
            repr(list(self._part)), region, tuple(sorted(graph.symbols.items())), self._keys(),
        )  # fmt: skip

    def run(self, like: Tensor, *values: Tensor) -> Tensor:
        """Run the integer model on the inputs; masked scores (such as −∞) get weight 0 in a softmax."""
        inputs = dict(zip(self.sources, (v.detach().cpu().double().numpy() for v in values), strict=True))
        sizes = self._sizes(inputs)
        masked = self._masked(inputs)
        design = self._design(sizes, masked is not None)
        by_node = {_name(ref): value for ref, value in inputs.items()} | ({} if masked is None else {MASK: masked})
        frames = max(by_node[b.node].size // max(int(np.prod(b.shape)), 1) for b in design.inputs)
        codes = tuple(_codes(b, by_node[b.node], frames) for b in design.inputs)
        wire, out = design.ends[0], design.outputs[0]
        result = out.stream.reads(design.stream(wire), design.run(*codes)[wire])
        flat = np.empty((frames, result[0].size), np.float64)
        flat[:, out.index] = out.stream.fixed.values(result).reshape(frames, -1)
        output = torch.from_numpy(flat.reshape(frames, *out.shape))
        output = output.movedim(0, out.axis) if out.axis else output
        return output.reshape(like.shape).to(like.device, like.dtype)

    def _sizes(self, inputs: Mapping[Ref, np.ndarray]) -> dict[str, int]:
        """Sizes of the symbolic dimensions, from the inputs' shapes."""
        sizes: dict[str, int] = {}
        for ref, value in inputs.items():
            shape = self._part.nodes[_name(ref)].ports["data_out"].shape
            sizes |= {dim: size for dim, size in zip(shape, value.shape, strict=False) if dim in self._part.symbols}  # type: ignore[misc]
        return {k: v for k, v in sizes.items() if k != "batch"}

    def _masked(self, inputs: Mapping[Ref, np.ndarray]) -> np.ndarray | None:
        """Which scores of a softmax are masked; None if none is."""
        node = self._part.nodes[self.region.nodes[-1]]
        chosen = choice(node, "data_in")
        if node.op != "softmax" or chosen is None or not isinstance(chosen.format, Integer):
            return None
        fixed = fixed_of(chosen.format)
        bound = float(np.ldexp(max(fixed.high, -fixed.low), -fixed.frac))  # scores may be added to a mask of −10 000
        masked = inputs[self.sources[0]] <= min(MASKED + bound, MASKED / 2)
        return masked if masked.any() else None

    def _keys(self) -> tuple[str, ...]:
        """Content hashes of the current weights."""
        tensors = tuple(self._live.values())
        if self._stamp is None or not all(torch.equal(a, b) for a, b in zip(tensors, self._stamp[0], strict=True)):
            copies = tuple(t.detach().clone() for t in tensors)
            self._stamp = copies, tuple(to_numpy(t).key() for t in copies)
        return self._stamp[1]

    def _design(self, sizes: Mapping[str, int], masked: bool) -> Design:
        key = self.content, self._keys(), tuple(sorted(sizes.items())), masked

        def lower() -> Design:
            part = _with_mask(self._part, self.region.nodes[-1]) if masked else self._part
            live = {w.key: self._live[n] for n, w in part.weights.items() if n in self._live and w.key}
            return unbuffered(part, _LiveStore(self._store, live), EmitOptions(sizes=dict(sizes)))[0]

        return _cached(key, lower)


_designs: OrderedDict[Hashable, Design] = OrderedDict()


def _cached(key: Hashable, make: Callable[[], Design]) -> Design:
    if key in _designs:
        _designs.move_to_end(key)
        return _designs[key]
    design = _designs[key] = make()
    while len(_designs) > CACHED:
        _designs.popitem(last=False)
    return design


class _LiveStore(WeightStore):
    """A weight store with the current values of some tensors."""

    def __init__(self, base: WeightStore, live: Mapping[str, Tensor]) -> None:
        super().__init__(base.folder)
        self._base, self._live = base, live

    def get(self, key: str) -> Stored:
        """The tensor; raises ProjectError if it is missing."""
        return to_numpy(self._live[key].detach()) if key in self._live else self._base.get(key)

    def reader(self) -> Callable[[str], Stored]:
        """As `get`, with writable copies."""
        base = self._base.reader()

        def read(key: str) -> Stored:
            tensor = self.get(key) if key in self._live else base(key)
            return Stored(np.array(tensor.array), tensor.dtype)

        return read


def _part(graph: Graph, region: Region, constant_nodes: frozenset[str]) -> Graph:
    """The region as a graph with its sources as inputs; constants are included."""
    included, todo = set(region.nodes), [r for n in region.nodes for r in graph.nodes[n].inputs]
    inputs = dict.fromkeys(region.sources)
    while todo:
        ref = todo.pop()
        if ref in inputs or ref.node in included:
            continue
        if ref.node not in constant_nodes:  # only its size is read
            inputs[ref] = None
            continue
        included.add(ref.node)
        todo += graph.nodes[ref.node].inputs
    names = {ref: _name(ref) for ref in inputs}
    nodes = {names[ref]: _input(names[ref], graph.nodes[ref.node].ports[out_port(ref.output)]) for ref in inputs}
    for node in graph:
        if node.id in included:
            nodes[node.id] = map_refs(replace(node, arithmetic="float"), lambda r: Ref(names[r]) if r in names else r)
    end = Node("result", "output", "output", "output", (Ref(region.nodes[-1]),))
    used = {name for n in nodes.values() for name in n.tensors}
    weights = {name: graph.weights[name] for name in used}
    return Graph({**nodes, end.id: end}, weights, (), "tensor", graph.symbols)


def _name(ref: Ref) -> str:
    return f"{ref.node}__{ref.output}" if ref.output else ref.node


def _input(name: str, meta: TensorMeta) -> Node:
    return Node(name, "placeholder", "placeholder", name, ports={"data_out": meta})


def _with_mask(part: Graph, softmax: str) -> Graph:
    """The part with a masked_fill before the softmax, the form of masks in hardware."""
    node = part.nodes[softmax]
    scores = node.inputs[0]
    meta = part.nodes[scores.node].ports["data_out"]
    mask = _input(MASK, TensorMeta(meta.shape, "bool"))
    fill: tuple[Arg, ...] = (scores, Ref(MASK), float("-inf"))
    ports = {"data_in": meta, "data_out": meta}
    chosen = choice(node, "data_in")
    assert chosen is not None
    filled = Node(FILLED, "masked_fill", "call_function", "aten.masked_fill.Scalar", fill, ports=ports,
                  precision={"data_in": chosen})  # fmt: skip
    rewired = map_refs(node, lambda r: Ref(FILLED) if r == scores else r)
    others = {k: n for k, n in part.nodes.items() if k != softmax and n.call != "output"}
    return replace(part, nodes={MASK: mask, **others, FILLED: filled, softmax: rewired, part.output.id: part.output})


def _in_format(part: Graph, region: Region, input_format: Precision) -> Graph:
    """The part with its first input converted to a format."""
    name = _name(region.sources[0])
    source = part.nodes[name]
    ports = {"data_in": source.ports["data_out"], "data_out": source.ports["data_out"]}
    converted = Node(CONVERTED, "clone", "call_function", "aten.clone.default", (Ref(name),), ports=ports,
                     precision={"data_in": input_format})  # fmt: skip
    others = {
        k: map_refs(n, lambda r: Ref(CONVERTED) if r == Ref(name) else r) for k, n in part.nodes.items() if k != name
    }
    return replace(part, nodes={name: source, CONVERTED: converted, **others})


def _codes(boundary: Boundary, values: np.ndarray, frames: int) -> Codes:
    """Codes [frames, rows, size]; a tensor without a batch axis is broadcast over the frames."""
    moved = np.moveaxis(values, boundary.axis, 0) if boundary.axis else values
    flat = moved.reshape(-1, max(int(np.prod(boundary.shape)), 1))
    in_order = flat.shape[1] == boundary.index.size and bool((boundary.index == np.arange(boundary.index.size)).all())
    codes = boundary.stream.fixed.encode(flat if in_order else flat[:, boundary.index], boundary.rounding)
    batched: Any = codes if len(codes) == frames else np.broadcast_to(codes, (frames, codes.shape[1]))
    return batched.reshape(frames, boundary.stream.rows, boundary.stream.size)
