"""Results inside a model that trials have in common: each is computed once, batch by batch; trials begin behind it.

A result is known by what it is computed from: a node, its choices and tensors, and the results before it. So what is
kept is what the whole model would compute in this trial, and no figure changes by a bit.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from torch import Tensor, fx
from torch.fx.node import map_arg

from espalier.model.graph.graph import Graph
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import build
from espalier.passes.search.head_token import Claim, narrow
from espalier.passes.search.reused_modules import Parts, Wired

MOST = 1 << 29  # bytes that are kept
NAMES = 50_000  # nodes of earlier trials that are remembered by name
Callables = Mapping[str, Callable[..., Any]]
Run = Callable[[int], Any]


@dataclass(frozen=True, slots=True)
class _Step:
    """A node to compute, or one whose value is `there`; `last`: values that nothing needs after it."""

    node: fx.Node
    number: int
    there: bool
    last: tuple[fx.Node, ...]


class Results:
    """For one set of batches; graphs come one after another."""

    def __init__(self, batches: list[dict[str, Tensor]]) -> None:
        self.batches = batches
        self.parts = Parts()
        self.held: OrderedDict[int, dict[int, Any]] = OrderedDict()  # number of a result → batch → value
        self.bytes = 0
        self._numbers: OrderedDict[Hashable, int] = OrderedDict()
        self._next = count()
        self._begun = 0  # numbers below are of earlier trials

    def runner(self, graph: Graph, store: WeightStore, callables: Callables) -> Callable[[int], Any]:
        """Batch number → the graph's result on it."""
        wired = None if graph.runs == "module" else Wired(graph, store, callables, self.parts)
        if wired is None or _writes(wired):
            module = build(graph, store, callables)
            return lambda place: module(**self.batches[place])
        claims = narrow(wired)
        run = self._running(wired)
        if not claims:
            return run
        whole: list[Run] = []

        def all_of_it(place: int) -> Any:
            if not whole:
                whole.append(self._running(Wired(graph, store, callables, self.parts)))
            return whole[0](place)

        return lambda place: (run if self._holds(claims, graph, place) else all_of_it)(place)

    def _holds(self, claims: tuple[Claim, ...], graph: Graph, place: int) -> bool:
        symbols = dict(graph.symbols)
        for node in graph.placeholders:
            value = self.batches[place].get(node.target)
            if value is not None and "data_out" in node.ports:
                pairs = zip(node.ports["data_out"].shape, value.shape, strict=False)
                symbols |= {d: size for d, size in pairs if isinstance(d, str)}
        return all(claim.holds(symbols) for claim in claims)

    def _running(self, wired: Wired) -> Run:
        numbers = self._numbered(wired)
        shared = self._shared(wired, numbers)
        for number in numbers.values():
            if number in self.held:
                self.held.move_to_end(number)
        plans: dict[frozenset[fx.Node], tuple[_Step, ...]] = {}
        return lambda place: self._run(wired, numbers, shared, plans, place)

    # -- what is the same as before

    def _numbered(self, wired: Wired) -> dict[fx.Node, int]:
        """Each node's number: that of an earlier trial's node which computes the same."""
        self._begun = next(self._next)
        found: dict[fx.Node, int] = {}
        for node in wired.nodes:
            what = wired.names[str(node.target)] if node.op in ("call_module", "get_attr") else node.target
            name = node.op, what, _plain(node.args, found), _plain(dict(node.kwargs), found)
            number = self._numbers.get(name)
            found[node] = self._numbers[name] = next(self._next) if number is None else number
            self._numbers.move_to_end(name)
        while len(self._numbers) > NAMES:
            self._numbers.popitem(last=False)
        return found

    def _shared(self, wired: Wired, numbers: dict[fx.Node, int]) -> set[int]:
        """Results that an earlier trial had too, at the edge to what is new."""
        begun = self._begun
        known = [n for n in wired.nodes if numbers[n] < begun and n.op in ("call_module", "call_function")]
        return {numbers[n] for n in known if any(numbers[u] > begun or u.op == "output" for u in n.users)}

    # -- running

    def _run(
        self, wired: Wired, numbers: dict[fx.Node, int], shared: set[int],
        plans: dict[frozenset[fx.Node], tuple[_Step, ...]], place: int,
    ) -> Any:  # fmt: skip
        """One batch; `plans`: what is to be done, by what is there already, which most batches have in common."""
        there = frozenset(n for n in wired.nodes if place in self.held.get(numbers[n], ()))
        steps = plans.get(there)
        if steps is None:
            steps = plans[there] = _steps(wired, numbers, there)
        values: dict[fx.Node, Any] = {}
        for step in steps:
            if step.there:
                values[step.node] = self.held[step.number][place]
                continue
            value = values[step.node] = self.value_of(wired, step.node, values, place)
            if step.number in shared:
                self._keep(step.number, place, value)
            for node in step.last:
                del values[node]
        return values[wired.nodes[-1]]

    def value_of(self, wired: Wired, node: fx.Node, values: dict[fx.Node, Any], place: int) -> Any:
        """What one node gives."""
        if node.op == "placeholder":
            return self.batches[place].get(str(node.target))
        if node.op == "get_attr":
            return wired.parts[str(node.target)]
        args, kwargs = map_arg((node.args, node.kwargs), values.__getitem__)
        if node.op == "output":
            return args[0]
        called: Any = wired.parts[str(node.target)] if node.op == "call_module" else node.target
        return called(*args, **kwargs)

    def _keep(self, number: int, place: int, value: Any) -> None:
        """Keep a value, unless all batches' together are too many; the results used longest ago go for it."""
        size = value.untyped_storage().nbytes() if isinstance(value, Tensor) else 8
        if not isinstance(value, Tensor | int | float) or size * len(self.batches) > MOST // 4:
            return
        self.held.setdefault(number, {})[place] = value
        self.bytes += size
        while self.bytes > MOST:
            _, gone = self.held.popitem(last=False)
            self.bytes -= sum(v.untyped_storage().nbytes() if isinstance(v, Tensor) else 8 for v in gone.values())


def _plain(value: Any, numbers: Mapping[fx.Node, int]) -> Hashable:
    """Arguments as a key: nodes by their numbers, all else with its type (1, 1.0 and True are three)."""
    if isinstance(value, fx.Node):
        return "node", numbers[value]
    if isinstance(value, list | tuple):
        return type(value).__name__, *(_plain(v, numbers) for v in value)
    if isinstance(value, dict):
        return "dict", *((k, _plain(v, numbers)) for k, v in value.items())
    if isinstance(value, slice):
        return "slice", *(_plain(v, numbers) for v in (value.start, value.stop, value.step))
    return type(value).__name__, repr(value) if isinstance(value, float) else value


def _writes(wired: Wired) -> bool:
    """Whether anything writes into its inputs: kept values would not stay what they are."""
    if any(getattr(part, "inplace", False) for part in wired.parts.values()):
        return True
    for node in wired.nodes:
        name = getattr(node.target, "__name__", str(node.target)).partition(".")[0]
        if node.op == "call_function" and ((name.endswith("_") and not name.startswith("__")) or "out" in node.kwargs):
            return True
    return False


def _steps(wired: Wired, numbers: Mapping[fx.Node, int], there: frozenset[fx.Node]) -> tuple[_Step, ...]:
    """What a run does, values of `there` being known."""
    needed = _needed(wired.nodes[-1], there)
    left = Counter(a for n in needed if n not in there for a in set(n.all_input_nodes))
    found: list[_Step] = []
    for node in (n for n in wired.nodes if n in needed):
        before = () if node in there else set(node.all_input_nodes)
        left.subtract(before)
        found.append(_Step(node, numbers[node], node in there, tuple(n for n in before if not left[n])))
    return tuple(found)


def _needed(end: fx.Node, there: Iterable[fx.Node]) -> set[fx.Node]:
    """All that the result hangs on, without what leads to values that are there."""
    found, todo, stop = set[fx.Node](), [end], set(there)
    while todo:
        node = todo.pop()
        if node not in found:
            found.add(node)
            todo += [] if node in stop else node.all_input_nodes
    return found
