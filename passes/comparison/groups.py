"""Groups the same change of twins, such as all layers of an encoder, into one row: `layer.3–8.value`."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from espalier.model.graph.graph import Graph
from espalier.model.graph.node import Node
from espalier.model.graph.twins import PATH_NUMBER
from espalier.passes.comparison.changes import Change, Kind, Value


@dataclass(frozen=True, slots=True)
class Group:
    """Equal changes of `nodes` (ids in B, of removed ones in A).

    `label`: their paths in one, numbers that differ as `*` (all that the model has) or as ranges. `size_bytes`: summed.
    `distance`: the largest.
    """

    label: str
    kind: Kind
    what: str
    a: Value
    b: Value
    nodes: tuple[str, ...]
    size_bytes: int | None = None
    distance: float | None = None


def node_path(node: Node) -> str:
    """The path that names a node: of its module, with the operation for a function; else its id."""
    if node.call == "call_module":
        return node.module_path or node.target
    if node.call == "call_function" and node.module_path:
        return f"{node.module_path}.{node.op}"
    return node.target if node.call == "get_attr" else node.id


def grouped(changes: Iterable[Change], a: Graph, b: Graph) -> tuple[Group, ...]:
    """Groups of equal changes, in the order of their first; each change is in exactly one."""
    changes = list(changes)
    modules = {"added": _whole_modules(changes, "added", b), "removed": _whole_modules(changes, "removed", a)}
    parts: dict[tuple[Hashable, ...], list[tuple[Change, str]]] = defaultdict(list)
    for change in changes:
        path = modules.get(change.kind, {}).get(change.node)
        own = path or node_path((a if change.kind == "removed" else b)[change.node])
        values = () if path else (_comparable(change.a), _comparable(change.b))
        if change.kind == "weights":  # the distance of each differs
            values = (change.a,)
        parts[path is not None, _pattern(own), change.kind, change.what, *values].append((change, own))
    known = _numbers_of(map(node_path, (*a, *b)))
    return tuple(_group(part, known, bool(key[0])) for key, part in parts.items())


def _comparable(value: Value) -> Value:
    """Ratios of sparsity round to the third digit: a mask of whole elements rarely meets one exactly."""
    return round(value, 3) if isinstance(value, float) else value


def _whole_modules(changes: Sequence[Change], kind: Kind, graph: Graph) -> dict[str, str]:
    """Added or removed node → the outermost module around it of which every node is so; none for a single node."""
    gone = {c.node for c in changes if c.kind == kind}
    total, changed = Counter[str](), Counter[str]()
    for node in graph:
        for path in _around(node.module_path):
            total[path] += 1
            changed[path] += node.id in gone
    whole = {path for path, count in total.items() if count == changed[path] > 1}
    return {i: path for i in gone if (path := next((p for p in _around(graph[i].module_path) if p in whole), ""))}


def _around(path: str) -> list[str]:
    """The modules around a path and itself, from outside."""
    pieces = path.split(".") if path else []
    return [".".join(pieces[: i + 1]) for i in range(len(pieces))]


def _pattern(path: str) -> str:
    return PATH_NUMBER.sub("*", path)


def _numbers_of(paths: Iterable[str]) -> dict[str, list[set[int]]]:
    """Pattern → at each of its numbers, the values that occur."""
    known: dict[str, list[set[int]]] = {}
    for path in paths:
        numbers = [int(n) for n in PATH_NUMBER.findall(path)]
        for values, number in zip(known.setdefault(_pattern(path), [set() for _ in numbers]), numbers, strict=True):
            values.add(number)
    return known


def _group(part: Sequence[tuple[Change, str]], known: dict[str, list[set[int]]], module: bool) -> Group:
    first, paths = part[0][0], [path for _, path in part]
    sizes = [c.size_bytes for c, _ in part if c.size_bytes is not None]
    distances = [c.distance for c, _ in part if c.distance is not None]
    after = first.b
    if distances and len(part) > 1:
        after = f"up to {max(distances):.3g} of its norm away"
    nodes = tuple(dict.fromkeys(c.node for c, _ in part))
    before = first.a
    if module:
        text = f"{len(nodes)} nodes"
        before, after = (text, None) if first.kind == "removed" else (None, text)
    return Group(_label(paths, known), first.kind, first.what, before, after, nodes, sum(sizes) if sizes else None,
                 max(distances, default=None))  # fmt: skip


def _label(paths: Sequence[str], known: dict[str, list[set[int]]]) -> str:
    """The paths of one pattern in one."""
    pattern = _pattern(paths[0])
    columns = zip(*([int(n) for n in PATH_NUMBER.findall(p)] for p in paths), strict=True)
    occurring = known.get(pattern, [])
    texts: list[str] = []
    for i, column in enumerate(columns):
        values = sorted(set(column))
        every = i < len(occurring) and len(values) > 1 and set(values) == occurring[i]
        texts.append("*" if every else ranges(values))
    pieces = iter(texts)
    return re.sub(r"\*", lambda _: next(pieces), pattern) if texts else paths[0]


def ranges(values: Sequence[int]) -> str:
    """`3–8`, `0, 2, 5–7`; `*` for more than four stretches."""
    stretches: list[list[int]] = []
    for value in values:
        if stretches and value == stretches[-1][1] + 1:
            stretches[-1][1] = value
        else:
            stretches.append([value, value])
    texts = [str(low) if low == high else f"{low}–{high}" for low, high in stretches]
    return ", ".join(texts) if len(texts) <= 4 else "*"
