"""Pairs the nodes of two graphs: states of one document by id, foreign models by weights, path and structure.

Five rules, each for what the earlier ones left unpaired: see `_Pairs`, and decision 147 for their reasons.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from espalier.model.graph.graph import Graph
from espalier.model.graph.node import Node
from espalier.model.graph.ops import floating

Rule = Literal["id", "weights", "path", "edges", "order"]
MAX_ORDER = 4000  # unpaired nodes of a graph up to which runs are matched: the worst case is quadratic
ROUNDS = (2, 1)  # of refinement of labels


@dataclass(frozen=True, slots=True)
class Pairing:
    """`pairs`: node of B → node of A, in B's order; `rules`: node of B → the rule that paired it."""

    pairs: dict[str, str]
    rules: dict[str, Rule]

    @property
    def back(self) -> dict[str, str]:
        """Node of A → node of B."""
        return {a: b for b, a in self.pairs.items()}


def pair(a: Graph, b: Graph) -> Pairing:
    """Pair the nodes of two graphs, each with at most one; deterministic."""
    work = _Pairs(a, b)
    trusted = ids_agree(a, b)
    if trusted:
        work.by_id()
    work.by_weights()
    if not trusted:
        work.along_edges()
    work.by_path()
    work.along_edges()
    for rounds in ROUNDS:
        work.by_order(rounds)
        work.along_edges()
    pairs = {n: work.partner[n] for n in b.nodes if n in work.partner}
    return Pairing(pairs, {n: work.rules[n] for n in pairs})


def ids_agree(a: Graph, b: Graph) -> bool:
    """Whether ids can be trusted: at least as many unique weights lie under their own id as under another."""
    first, second = _contents(a), _contents(b)
    shared = first.keys() & second.keys()
    moved = sum(first[k] != second[k] for k in shared)
    return 2 * moved <= len(shared)


def _contents(graph: Graph) -> dict[Hashable, str]:
    """Contents of a node's weights → its id; only contents that a single node has."""
    found: dict[Hashable, list[str]] = defaultdict(list)
    for node in graph:
        keys = tuple((port, graph.weights[name].key) for port, name in sorted(node.weights.items())
                     if name in graph.weights)  # fmt: skip
        if keys and all(key for _, key in keys):
            found[node.op, keys].append(node.id)
    return {k: ids[0] for k, ids in found.items() if len(ids) == 1}


class _Pairs:
    """Pairs so far, and the rules that add to them.

    "id": the same id, module path and call, and the same operation or an input in common. "weights": the same contents
    of all weights, unique in both graphs. "path": the same module path and operation, of a stored tensor also its name,
    as often in both. "edges": the only partner of its operation beside an existing pair (Melnik et al. 2002). "order":
    the longest matching runs (Ratcliff and Metzener 1988, as in difflib) of labels refined by their inputs' (Weisfeiler
    and Lehman 1968). Inputs of other names are pairs only where both are floats, or neither, of equal dimensions.
    """

    def __init__(self, a: Graph, b: Graph) -> None:
        self.a, self.b = a, b
        self.partner: dict[str, str] = {}  # node of B → node of A
        self.rules: dict[str, Rule] = {}
        self._used: dict[str, str] = {}  # node of A → node of B
        self._users = a.users(), b.users()
        self._ends()

    def _ends(self) -> None:
        """Pair the outputs, and inputs of the same name; other inputs in order if both graphs have as many."""
        for x, y in zip(*([n.id for n in g if n.call == "output"] for g in (self.a, self.b)), strict=False):
            self._pair(x, y, "edges")
        for node in self.b.placeholders:
            if node.id in self.a.nodes and self.a[node.id].call == "placeholder":
                self._pair(node.id, node.id, "id")
        first = [n for n in self.a.placeholders if n.id not in self._used]
        second = [n for n in self.b.placeholders if n.id not in self.partner]
        if len(first) == len(second):
            for x, y in zip(first, second, strict=True):
                self._pair(x.id, y.id, "order")

    def _pair(self, x: str, y: str, rule: Rule) -> bool:
        """Pair node `x` of A with node `y` of B if both are free, and no inputs of different kinds."""
        if x in self._used or y in self.partner:
            return False
        first, second = self.a[x], self.b[y]
        if first.call == "placeholder" and rule != "id" and _value_kind(first) != _value_kind(second):
            return False
        self.partner[y], self.rules[y], self._used[x] = x, rule, y
        return True

    def free(self) -> tuple[list[Node], list[Node]]:
        """The unpaired nodes of A and of B, in order."""
        return [n for n in self.a if n.id not in self._used], [n for n in self.b if n.id not in self.partner]

    def by_id(self) -> None:
        """Rule 1."""
        for node in self.b:
            other = self.a.nodes.get(node.id)
            if other is None or other.call != node.call or other.module_path != node.module_path:
                continue
            if other.op == node.op or not node.inputs or {r.node for r in node.inputs} & {r.node for r in other.inputs}:
                self._pair(other.id, node.id, "id")

    def by_weights(self) -> None:
        """Rule 2."""
        first, second = _contents(self.a), _contents(self.b)
        for key, y in second.items():
            if key in first:
                self._pair(first[key], y, "weights")

    def by_path(self) -> None:
        """Rule 3."""
        cut_a, cut_b = prefixes(*({n.module_path for n in g if n.module_path} for g in (self.a, self.b)))
        first, second = self.free()
        groups = _grouped(first, lambda n: (n.op, n.call, n.module_path.removeprefix(cut_a), _own_name(n)))
        for key, nodes in _grouped(
            second, lambda n: (n.op, n.call, n.module_path.removeprefix(cut_b), _own_name(n))
        ).items():
            others = groups.get(key, [])
            if len(others) == len(nodes):
                for x, y in zip(others, nodes, strict=True):
                    self._pair(x.id, y.id, "path")

    def along_edges(self) -> None:
        """Rule 4, until nothing is added."""
        queue = deque(self.partner.items())
        while queue:
            y, x = queue.popleft()
            for p, q in (*self._users_beside(x, y), *self._inputs_beside(x, y)):
                if self._pair(p, q, "edges"):
                    queue.append((q, p))

    def _users_beside(self, x: str, y: str) -> list[tuple[str, str]]:
        """The only free users of their operation that read the pair at the same place."""
        first = [self.a[n] for n in self._users[0][x] if n not in self._used]
        second = [self.b[n] for n in self._users[1][y] if n not in self.partner]
        groups = _grouped(first, lambda n: (n.op, n.call, _places(n, x)))
        return [(groups[k][0].id, nodes[0].id)
                for k, nodes in _grouped(second, lambda n: (n.op, n.call, _places(n, y))).items()
                if len(nodes) == 1 == len(groups.get(k, ()))]  # fmt: skip

    def _inputs_beside(self, x: str, y: str) -> list[tuple[str, str]]:
        """The free inputs at the same place, if they have the same operation."""
        first, second = self.a[x].inputs, self.b[y].inputs
        if len(first) != len(second):
            return []
        ends = [(self.a[p.node], self.b[q.node]) for p, q in zip(first, second, strict=True)]
        return [(p.id, q.id) for p, q in ends if p.op == q.op and p.call == q.call]

    def by_order(self, rounds: int) -> None:
        """Rule 5."""
        first, second = self.free()
        if not first or not second or max(len(first), len(second)) > MAX_ORDER:
            return
        labels = [_labels(g, rounds) for g in (self.a, self.b)]
        before, after = [labels[0][n.id] for n in first], [labels[1][n.id] for n in second]
        for block in SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks():
            for k in range(block.size):
                self._pair(first[block.a + k].id, second[block.b + k].id, "order")


def _value_kind(node: Node) -> Hashable:
    """What distinguishes images from tokens: number of dimensions, and whether the values are floats."""
    return node.out and (len(node.out.shape), floating(node.out))


def _own_name(node: Node) -> str:
    """The name of a stored tensor in its module; empty for other nodes, which have none."""
    return node.target.rpartition(".")[2] if node.call == "get_attr" else ""


def _places(node: Node, source: str) -> tuple[int, ...]:
    """At which of its inputs a node reads a source."""
    return tuple(i for i, ref in enumerate(node.inputs) if ref.node == source)


def _grouped(nodes: list[Node], key: Callable[[Node], Hashable]) -> dict[Hashable, list[Node]]:
    groups: dict[Hashable, list[Node]] = defaultdict(list)
    for node in nodes:
        groups[key(node)].append(node)
    return groups


def _labels(graph: Graph, rounds: int) -> dict[str, int]:
    """By node: a label of operation and shapes of weights, refined `rounds` times by the labels of its inputs."""
    shapes = {n.id: tuple(graph.weights[w].shape for w in n.weights.values() if w in graph.weights) for n in graph}
    labels = {n.id: hash((n.op, n.call, shapes[n.id])) for n in graph}
    for _ in range(rounds):
        labels = {n.id: hash((labels[n.id], tuple(labels[r.node] for r in n.inputs))) for n in graph}
    return labels


def prefixes(first: set[str], second: set[str]) -> tuple[str, str]:
    """What to leave out at the start of the paths of A and of B, so that most paths are in both: mostly nothing.

    A base model and the same under a head differ in one prefix, such as `bert.`.
    """

    def shared(cut_a: str, cut_b: str) -> int:
        return len({p.removeprefix(cut_a) for p in first} & {p.removeprefix(cut_b) for p in second})

    heads = [Counter(p.split(".")[0] + "." for p in paths if "." in p) for paths in (first, second)]
    options = [("", ""), *((h, "") for h, _ in heads[0].most_common(8)), *(("", h) for h, _ in heads[1].most_common(8))]
    return max(options, key=lambda cuts: shared(*cuts))  # the first of equals
