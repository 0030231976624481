"""Caches intermediate results that trials have in common, batch by batch.

A result is identified by what it is computed from: a node with its formats and tensors, and its operands. So a cached
value is bit for bit what the trial would compute.
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

MAX_BYTES = 1 << 29  # of cached values
MAX_NAMES = 50_000  # nodes of earlier trials
Callables = Mapping[str, Callable[..., Any]]
Run = Callable[[int], Any]


@dataclass(frozen=True, slots=True)
class _Step:
    """A node to compute, or one whose value is `cached`; `last`: values that no later step needs."""

    node: fx.Node
    number: int
    cached: bool
    last: tuple[fx.Node, ...]


class Results:
    """A cache for one list of batches, shared by successive graphs."""

    def __init__(self, batches: list[dict[str, Tensor]]) -> None:
        self.batches = batches
        self.parts = Parts()
        self.values: OrderedDict[int, dict[int, Any]] = OrderedDict()  # number of a result → batch number → value
        self.bytes = 0
        self._numbers: OrderedDict[Hashable, int] = OrderedDict()
        self._next = count()
        self._first_new = 0  # numbers below are of earlier trials

    def runner(self, graph: Graph, store: WeightStore, callables: Callables) -> Callable[[int], Any]:
        """A function from the number of a batch to the graph's outputs on it."""
        wired = None if graph.runs == "module" else Wired(graph, store, callables, self.parts)
        if wired is None or _writes(wired):
            module = build(graph, store, callables)
            return lambda number: module(**self.batches[number])
        claims = narrow(wired)
        run = self._run_of(wired)
        if not claims:
            return run
        runs: list[Run] = []

        def unnarrowed(number: int) -> Any:
            if not runs:
                runs.append(self._run_of(Wired(graph, store, callables, self.parts)))
            return runs[0](number)

        return lambda number: (run if self._holds(claims, graph, number) else unnarrowed)(number)

    def _holds(self, claims: tuple[Claim, ...], graph: Graph, batch: int) -> bool:
        symbols = dict(graph.symbols)
        for node in graph.placeholders:
            value = self.batches[batch].get(node.target)
            if value is not None and "data_out" in node.ports:
                pairs = zip(node.ports["data_out"].shape, value.shape, strict=False)
                symbols |= {d: size for d, size in pairs if isinstance(d, str)}
        return all(claim.holds(symbols) for claim in claims)

    def _run_of(self, wired: Wired) -> Run:
        numbers = self._numbered(wired)
        shared = self._shared(wired, numbers)
        for number in numbers.values():
            if number in self.values:
                self.values.move_to_end(number)
        plans: dict[frozenset[fx.Node], tuple[_Step, ...]] = {}
        return lambda batch: self._run(wired, numbers, shared, plans, batch)

    # -- equal results

    def _numbered(self, wired: Wired) -> dict[fx.Node, int]:
        """Node → number; equal to that of an earlier trial's node that computes the same."""
        self._first_new = next(self._next)
        numbers: dict[fx.Node, int] = {}
        for node in wired.nodes:
            target = wired.names[str(node.target)] if node.op in ("call_module", "get_attr") else node.target
            name = node.op, target, _plain(node.args, numbers), _plain(dict(node.kwargs), numbers)
            number = self._numbers.get(name)
            numbers[node] = self._numbers[name] = next(self._next) if number is None else number
            self._numbers.move_to_end(name)
        while len(self._numbers) > MAX_NAMES:
            self._numbers.popitem(last=False)
        return numbers

    def _shared(self, wired: Wired, numbers: dict[fx.Node, int]) -> set[int]:
        """The numbers of results that an earlier trial had and a new node uses."""
        first = self._first_new
        earlier = [n for n in wired.nodes if numbers[n] < first and n.op in ("call_module", "call_function")]
        return {numbers[n] for n in earlier if any(numbers[u] > first or u.op == "output" for u in n.users)}

    # -- running

    def _run(
        self, wired: Wired, numbers: dict[fx.Node, int], shared: set[int],
        plans: dict[frozenset[fx.Node], tuple[_Step, ...]], batch: int,
    ) -> Any:  # fmt: skip
        """Run one batch; `plans`: steps by the set of cached nodes, which most batches have in common."""
        cached = frozenset(n for n in wired.nodes if batch in self.values.get(numbers[n], ()))
        steps = plans.get(cached)
        if steps is None:
            steps = plans[cached] = _steps(wired, numbers, cached)
        values: dict[fx.Node, Any] = {}
        for step in steps:
            if step.cached:
                values[step.node] = self.values[step.number][batch]
                continue
            value = values[step.node] = self.value_of(wired, step.node, values, batch)
            if step.number in shared:
                self._store(step.number, batch, value)
            for node in step.last:
                del values[node]
        return values[wired.nodes[-1]]

    def value_of(self, wired: Wired, node: fx.Node, values: dict[fx.Node, Any], batch: int) -> Any:
        """The value of one node."""
        if node.op == "placeholder":
            return self.batches[batch].get(str(node.target))
        if node.op == "get_attr":
            return wired.parts[str(node.target)]
        args, kwargs = map_arg((node.args, node.kwargs), values.__getitem__)
        if node.op == "output":
            return args[0]
        called: Any = wired.parts[str(node.target)] if node.op == "call_module" else node.target
        return called(*args, **kwargs)

    def _store(self, number: int, batch: int, value: Any) -> None:
        """Cache a value if those of all batches fit, and evict the least recently used results."""
        size = value.untyped_storage().nbytes() if isinstance(value, Tensor) else 8
        if not isinstance(value, Tensor | int | float) or size * len(self.batches) > MAX_BYTES // 4:
            return
        self.values.setdefault(number, {})[batch] = value
        self.bytes += size
        while self.bytes > MAX_BYTES:
            _, evicted = self.values.popitem(last=False)
            self.bytes -= sum(v.untyped_storage().nbytes() if isinstance(v, Tensor) else 8 for v in evicted.values())


def _plain(value: Any, numbers: Mapping[fx.Node, int]) -> Hashable:
    """Arguments as a hashable key: nodes by number, other values with their type (1, 1.0 and True differ)."""
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
    """Whether a node writes into its inputs, so that cached values would change."""
    if any(getattr(part, "inplace", False) for part in wired.parts.values()):
        return True
    for node in wired.nodes:
        name = getattr(node.target, "__name__", str(node.target)).partition(".")[0]
        if node.op == "call_function" and ((name.endswith("_") and not name.startswith("__")) or "out" in node.kwargs):
            return True
    return False


def _steps(wired: Wired, numbers: Mapping[fx.Node, int], cached: frozenset[fx.Node]) -> tuple[_Step, ...]:
    """The steps of a run with the values of `cached` given."""
    needed = _needed(wired.nodes[-1], cached)
    uses = Counter(a for n in needed if n not in cached for a in set(n.all_input_nodes))
    steps: list[_Step] = []
    for node in (n for n in wired.nodes if n in needed):
        operands = () if node in cached else set(node.all_input_nodes)
        uses.subtract(operands)
        steps.append(_Step(node, numbers[node], node in cached, tuple(n for n in operands if not uses[n])))
    return tuple(steps)


def _needed(end: fx.Node, cached: Iterable[fx.Node]) -> set[fx.Node]:
    """The nodes that `end` depends on, without those before cached ones."""
    needed, todo, stop = set[fx.Node](), [end], set(cached)
    while todo:
        node = todo.pop()
        if node not in needed:
            needed.add(node)
            todo += [] if node in stop else node.all_input_nodes
    return needed
