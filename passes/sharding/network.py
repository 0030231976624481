"""A graph as decisions over a mesh: strategies of nodes, placements of weights, of shared tensors and of results.

A tensor with several readers has a placement of its own between them, so that it is moved once, and its gradients are
added before they are moved.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Weight
from espalier.model.graph.node import Ref, out_port
from espalier.model.graph.ops import floating, macs
from espalier.model.graph.ports import carriers, weights_of
from espalier.passes.sharding.blocks import classes
from espalier.passes.sharding.collectives import Collective, Placements, collectives, possible, seconds, shards
from espalier.passes.sharding.costs_of_nodes import Sizing, trained
from espalier.passes.sharding.factors import Call, call_of
from espalier.passes.sharding.options import batch_symbols
from espalier.passes.sharding.programme import Floats, Programme
from espalier.passes.sharding.strategies import Strategy, placements, stored_placements, strategies

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Held:
    """A placement of a weight, a shared tensor or a result. `gradient`: that of its gradient."""

    placements: Placements
    gradient: Placements


State = Strategy | Held
Reader = tuple[Key, str, Node]  # a node (or result of the model), its port


@dataclass(slots=True)
class Unit:
    """A decision: `states` to choose from. `count`: how many nodes or weights it decides for. `peak`: bytes of
    activations of one node while it runs, for each state."""

    key: Key
    count: int
    states: Sequence[State]
    call: Call | None = None
    weight: Weight | None = None
    gradients: int = 0
    seconds: Floats = field(default_factory=lambda: np.zeros(0))
    memory: Floats = field(default_factory=lambda: np.zeros(0))
    peak: Floats = field(default_factory=lambda: np.zeros(0))

    def gives(self, state: State, port: str) -> tuple[Placements, Placements]:
        """(placements of a result, placements in which its gradient is wanted)."""
        if isinstance(state, Held):
            return state.placements, state.gradient
        at = state.ports[port]
        return at, tuple("R" if p == "P" else p for p in at)

    def takes(self, state: State, port: str) -> tuple[Placements, Placements]:
        """(placements of an operand, placements in which its gradient arises)."""
        if isinstance(state, Held):
            return state.placements, state.gradient
        return state.ports[port], state.gradients[port]


@dataclass(slots=True)
class Link:
    """An operand of `count` nodes. `size`: bytes of the whole tensor, `coded`: in its format. `backward`: it has a
    gradient. `times`: moves forward (a stored weight is gathered again for the backward pass)."""

    source: int
    out: str
    user: int
    port: str
    size: float
    coded: float | None
    backward: bool
    times: int = 1
    count: int = 0


class Network:
    """Units and links of a graph over a mesh, with all costs. `folded`: equal blocks share their decisions."""

    def __init__(self, sizing: Sizing, folded: bool = True) -> None:
        self.sizing, self.graph, self.mesh = sizing, sizing.graph, sizing.mesh.shape
        self.units: list[Unit] = []
        self.links: dict[tuple[int, str, int, str], Link] = {}
        self.of: dict[Key, int] = {}
        self.instances: list[tuple[Link, Key, Key]] = []  # link, source and reader of each tensor
        self.class_of = classes(self.graph) if folded else {n: n for n in self.graph.nodes}
        self.deciding = carriers(self.graph) & _varying(self.graph)
        self.batches = batch_symbols(self.graph)
        self.calls: dict[str, Call] = {}
        self.weights: dict[str, Key] = {}
        self.moves: dict[tuple[Placements, Placements, float, float | None], tuple[Collective, ...]] = {}
        self._differentiated = differentiated(self.graph) if sizing.options.training else frozenset[str]()
        _Building(self).run()

    @cached_property
    def programme(self) -> Programme:
        """The decisions with their costs."""
        found = Programme()
        for unit in self.units:
            found.vertex(unit.seconds * unit.count, unit.memory * unit.count)
        for link in self.links.values():
            found.edge(link.source, link.user, self._costs(link))
        return found

    def unit(self, key: Key) -> Unit | None:
        """The decision of a key."""
        return self.units[self.of[key]] if key in self.of else None

    def differentiated(self, node: str) -> bool:
        """Whether a node's result has a gradient in training."""
        return node in self._differentiated

    def forward(self, link: Link, given: Placements, taken: Placements) -> tuple[Collective, ...]:
        """The collectives of one move forward."""
        return self._moved(given, taken, link.size, link.coded)

    def backward(self, link: Link, arising: Placements, wanted: Placements) -> tuple[Collective, ...]:
        """The collectives of one move of a gradient."""
        return self._moved(arising, wanted, link.size, None) if link.backward else ()

    def _moved(self, a: Placements, b: Placements, size: float, coded: float | None) -> tuple[Collective, ...]:
        key = (a, b, size, coded)
        if key not in self.moves:
            self.moves[key] = collectives(a, b, self.mesh, size, coded)
        return self.moves[key]

    def _costs(self, link: Link) -> Floats:
        """Seconds of a link for each pair of states."""
        source, user = self.units[link.source], self.units[link.user]
        given = [source.gives(s, link.out) for s in source.states]
        taken = [user.takes(s, link.port) for s in user.states]
        rows, columns = list(dict.fromkeys(given)), list(dict.fromkeys(taken))
        device, costs = self.sizing.device, np.zeros((len(rows), len(columns)))
        runs = self.sizing.accumulated if "weight" in source.key[:2] else 1
        for i, (at, wanted) in enumerate(rows):
            for j, (needed, arising) in enumerate(columns):
                if not possible(at, needed) or (link.backward and not possible(arising, wanted)):
                    costs[i, j] = np.inf
                    continue
                forward = link.times * seconds(self.forward(link, at, needed), device)
                costs[i, j] = forward + seconds(self.backward(link, arising, wanted), device) / runs
        row, column = [rows.index(g) for g in given], [columns.index(t) for t in taken]
        return link.count * costs[np.ix_(row, column)]


def differentiated(graph: Graph) -> frozenset[str]:
    """The nodes whose results depend on a weight that is trained."""
    found: set[str] = set()
    for node in graph:
        own = any(trained(graph.weights[w]) for w in node.tensors if w in graph.weights)
        if own or any(r.node in found for r in node.inputs):
            found.add(node.id)
    return frozenset(found)


def _varying(graph: Graph) -> frozenset[str]:
    """The nodes whose values depend on an input of the model or on a parameter; others, such as angles of
    positions, are made whole on every rank."""
    found: set[str] = set()
    for node in graph:
        own = node.call == "placeholder" or any(graph.weights[w].role == "parameter" for w in node.weights.values())
        if node.op != "sym_size" and (own or any(r.node in found for r in node.inputs)):
            found.add(node.id)
    return frozenset(found)


class _Building:
    """Makes the units and links of a network."""

    def __init__(self, network: Network) -> None:
        self.network, self.graph, self.sizing = network, network.graph, network.sizing
        self.calls = network.calls
        self.sources: dict[Key, Key] = {}

    def run(self) -> None:
        """Make them, in the order of the graph."""
        self._weights()
        self._nodes()
        read = self._reads()
        alike: dict[tuple[Key, str], list[list[Reader]]] = defaultdict(list)
        for (source, out), users in read.items():
            self._results(source, out, users)
            alike[self.sources[source], out].append(users)
        for (of, out), lists in alike.items():
            if any(len(users) > 1 for users in lists):
                self._share(("share", *of, out), of, out, [u for users in lists for u in users])
        for (source, out), users in read.items():
            self._links(source, out, users)
        self._unread()

    def _unread(self) -> None:
        """Weights that no operand is (scales, adapters) are whole on every rank."""
        linked = {link.source for link in self.network.links.values()}
        for number, unit in enumerate(self.network.units):
            if unit.key[0] == "weight" and number not in linked:
                unit.states, unit.memory = unit.states[:1], unit.memory[:1]
                unit.seconds, unit.peak = unit.seconds[:1], unit.peak[:1]

    # -- units

    def _add(self, unit: Unit) -> None:
        self.network.of[unit.key] = len(self.network.units)
        count = len(unit.states)
        for name in ("seconds", "memory", "peak"):
            if not len(getattr(unit, name)):
                setattr(unit, name, np.zeros(count))
        self.network.units.append(unit)

    def _weights(self) -> None:
        """Weights whose users are of the same classes are decided together."""
        users: dict[str, set[str]] = defaultdict(set)
        coded: dict[str, list[float | None]] = defaultdict(list)
        for node in self.graph:
            for port, name in weights_of(node, self.graph):
                users[name].add(f"{self.network.class_of[node.id]}.{port}")
                has = bool(port) and port in node.ports
                coded[name].append(self.sizing.coded(node, port) if has else None)
        alike: dict[tuple[tuple[str, ...], object], list[str]] = defaultdict(list)
        for name, weight in self.graph.weights.items():
            if weight.role != "buffer" or weight.dtype.startswith(("float", "bfloat")):
                alike[tuple(sorted(users[name])), (weight.shape, weight.dtype, trained(weight))].append(name)
        for names in alike.values():
            weight, formats = self.graph.weights[names[0]], coded[names[0]]
            size = max(f for f in formats if f is not None) if formats and None not in formats else None
            states = [Held(p, p) for p in stored_placements(weight.shape, self.network.mesh)]
            whole = self.sizing.weight_bytes(weight, size)
            memory = np.array([whole / shards(s.placements, self.network.mesh) for s in states])
            self._add(Unit(("weight", names[0]), len(names), states, weight=weight, memory=memory))
            self.network.weights.update(dict.fromkeys(names, ("weight", names[0])))
        self.sources.update({("weight", n): key for n, key in self.network.weights.items()})

    def _nodes(self) -> None:
        members = Counter(self.network.class_of.values())
        for node in self.graph:
            if not self._decides(node):
                continue
            call = call_of(node, self.graph, self.sizing.sizes, self.network.batches)
            if call is None:
                continue
            self.calls[node.id] = call
            key = ("node", self.network.class_of[node.id])
            self.sources["node", node.id] = key
            if key not in self.network.of:
                self._add(self._unit(key, call, members[key[1]]))

    def _decides(self, node: Node) -> bool:
        return (node.call not in ("placeholder", "get_attr", "output") and node.id in self.network.deciding
                and floating(node.out))  # fmt: skip

    def _unit(self, key: Key, call: Call, count: int) -> Unit:
        states, sizing = strategies(call, self.network.mesh), self.sizing
        gradients = self._gradients(call)
        return Unit(key, count, states, call, None, gradients, *(np.array([f(s) for s in states]) for f in (
            lambda s: sizing.compute(call, s, gradients),
            lambda s: sizing.saved(call, s) if gradients else 0.0,
            lambda s: 0.0 if sizing.options.training else sizing.transient(call, s),
        )))  # fmt: skip

    def _gradients(self, call: Call) -> int:
        """How many operands get a gradient; of what is no product, one at most counts."""
        if not self.sizing.options.training or not self.network.differentiated(call.node.id):
            return 0
        found = sum(self.network.differentiated(ref.node) for _, ref in call.inputs)
        found += sum(trained(self.graph.weights[w]) for p, w in call.node.weights.items() if p == "weight")
        stored = (self.graph.nodes[ref.node] for _, ref in call.inputs)
        found += sum(n.call == "get_attr" and trained(self.graph.weights[n.weights["value"]]) for n in stored)
        return min(found, 2 if macs(call.node, self.sizing.sizes) else 1)

    # -- links

    def _reads(self) -> dict[tuple[Key, str], list[Reader]]:
        """(source, result) of instances → (user, port, node) that read it."""
        found: dict[tuple[Key, str], list[Reader]] = defaultdict(list)
        for node in self.graph:
            if node.call == "output":
                for i, ref in enumerate(node.inputs):
                    found[self._source(ref)].append((("result", str(i)), "data_in", node))
            elif call := self.calls.get(node.id):
                for port, ref in call.inputs:
                    found[self._source(ref)].append((("node", node.id), port, node))
                for port, name in node.weights.items():
                    if port in call.shapes:
                        found[("weight", name), "data_out"].append((("node", node.id), port, node))
        found.pop(((), ""), None)
        return found

    def _source(self, ref: Ref) -> tuple[Key, str]:
        """The key of a source and its port; empty for one that is whole on every rank."""
        node = self.graph.nodes[ref.node]
        if node.call == "get_attr":
            key: Key = ("weight", node.weights["value"])
            return (key, "data_out") if key in self.sources else ((), "")
        return (("node", node.id), out_port(ref.output)) if node.id in self.calls else ((), "")

    def _links(self, source: Key, out: str, users: list[Reader]) -> None:
        of = self.sources[source]
        share = ("share", *of, out)
        if share in self.network.of:
            self._link(of, out, share, "data_in", source, [(n, p) for _, p, n in users])
            of = share
        for key, port, node in users:
            self._link(of, out, self._of(key), port, source, [(node, port)], key)

    def _results(self, source: Key, out: str, users: list[Reader]) -> None:
        for key, _, _ in users:
            if key[0] == "result":
                self._result(key, source, out)

    def _of(self, key: Key) -> Key:
        return self.sources.get(key, key)

    def _result(self, key: Key, source: Key, out: str) -> None:
        """A result of the model: whole, or split along the batch."""
        call = self.calls.get(source[-1])
        dims: list[int] = []
        shape: tuple[int, ...] = ()
        if call is not None:
            shape = call.shapes[out]
            dims = [0] if shape and call.name(out, 0) == "data" else []
        rank = placements(shape, self.network.mesh, dims) if shape else [("R",) * len(self.network.mesh)]
        self._add(Unit(key, 1, [Held(p, p) for p in rank]))

    def _share(self, key: Key, of: Key, out: str, users: list[Reader]) -> None:
        """The placements of a shared tensor: those that it is made in or read in."""
        source, network = self.network.units[self.network.of[of]], self.network
        found = {source.gives(s, out)[0]: None for s in source.states}
        for user, port, _ in users:
            unit = network.units[network.of[self._of(user)]]
            found.update({unit.takes(s, port)[0]: None for s in unit.states})
        training = self.sizing.options.training
        states = [Held(at, gradient) for at in found for gradient in _gradients(at, training)]
        self._add(Unit(key, 1, states))

    def _link(
        self, source: Key, out: str, user: Key, port: str, instance: Key, readers: list[tuple[Node, str]],
        reader: Key = (),
    ) -> None:  # fmt: skip
        of, to = self.network.of[source], self.network.of[user]
        key = (of, out, to, port)
        if key not in self.network.links:
            node, sizing = self.calls.get(instance[-1]), self.sizing
            weight = self.graph.weights[instance[-1]] if instance[0] == "weight" else None
            if weight is not None:
                size, backward = weight.elements * sizing.element_bytes(weight.dtype), trained(weight)
            else:
                assert node is not None
                size, backward = sizing.port_bytes(node.node, out), self.network.differentiated(node.node.id)
            coded = self._coded(readers)
            again = 2 if weight is not None and sizing.options.training else 1
            self.network.links[key] = Link(of, out, to, port, size, coded, backward and sizing.options.training, again)
        self.network.links[key].count += 1
        self.network.instances.append((self.network.links[key], instance, reader))

    def _coded(self, readers: list[tuple[Node, str]]) -> float | None:
        """Bytes in the format that all readers apply; None where one reads floats."""
        formats = [self.sizing.coded(n, p) if p in n.ports and n.call != "output" else None for n, p in readers]
        found = [f for f in formats if f is not None]
        return max(found) if found and len(found) == len(formats) else None


def _gradients(at: Placements, training: bool) -> Iterator[Placements]:
    """The placements that the gradient of a tensor can have."""
    plain = tuple("R" if p == "P" else p for p in at)
    if not training:
        return iter((plain,))
    options = [(p, "P") if p == "R" else (p,) for p in plain]
    return itertools.product(*options)
