"""The module tree as a Qt model, over the canvas' own hierarchy, so that both show the same groups.

Rows are made when the view asks for them; a filter keeps the rows that match and the groups around them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from PySide6.QtCore import QAbstractItemModel, QModelIndex, QPersistentModelIndex, Qt, Signal

from espalier.app.canvas.figures import badge, choices, differ, sparsity, twins_of
from espalier.app.canvas.hierarchy import Hierarchy
from espalier.app.canvas.namespaces import build
from espalier.app.figures.captions import title
from espalier.app.words import plural
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ops import spec

Index = QModelIndex | QPersistentModelIndex
ROOT = QModelIndex()
CHIPS = int(Qt.ItemDataRole.UserRole) + 1
MIXED = "mixed"
MANY = 64  # rows changed at once, from which on the view repaints as a whole


class Chips(NamedTuple):
    """What stands at the right of a row: format, sparsity (None: not pruned), number of blocks that are built the same.

    `differ`: their choices are not the same.
    """

    label: str = ""
    sparsity: float | None = None
    twins: int = 1
    differ: bool = False


@dataclass(frozen=True, slots=True)
class Contents:
    """What an outline shows of a graph, ready to be taken: no Qt, so that a thread may make it of a large one."""

    graph: Graph
    tree: Hierarchy
    nodes: list[Node]
    badges: list[str]
    hidden: int
    children: list[list[int]]


def contents(graph: Graph, show_all: bool = False) -> Contents:
    """The contents of a graph without a filter; `show_all`: with operations that only shape tensors."""
    tree, nodes = build(graph, show_all), list(graph)
    quiet = frozenset[int]() if show_all else frozenset(i for i, n in enumerate(nodes) if _shapes_only(n))
    return Contents(graph, tree, nodes, [badge(n) for n in nodes], len(quiet), _plain(tree, quiet))


class OutlineModel(QAbstractItemModel):
    """Items are numbered: node n is n, group g is nodes + g. `many_changed`: repaint what is in view."""

    many_changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.graph: Graph | None = None
        self.tree: Hierarchy | None = None
        self.hidden = 0
        self._nodes: list[Node] = []
        self._badges: list[str] = []
        self._plain: list[list[int]] = [[]]  # the children without a filter
        self._children = self._plain
        self._row: dict[int, int] = {}
        self._texts: list[str] = []
        self._formats: dict[int, Counter[str]] = {}  # by group: how many of its nodes have which badge
        self._differ: dict[int, bool] = {}  # by group: whether those that are built the same have other choices

    # -- content

    def load(self, graph: Graph | None, show_all: bool = False) -> None:
        """Show a graph, without a filter; `show_all`: with operations that only shape tensors."""
        self.take(contents(graph, show_all) if graph else None)

    def take(self, found: Contents | None) -> None:
        """Show what was made ready."""
        self.beginResetModel()
        self.graph, self.tree = (found.graph, found.tree) if found else (None, None)
        self._nodes, self._badges = (found.nodes, found.badges) if found else ([], [])
        self._texts, self._formats, self._differ = [], {}, {}
        self.hidden = found.hidden if found else 0
        self._plain = found.children if found else [[]]
        self._lay(self._plain)
        self.endResetModel()

    def update(self, graph: Graph, changed: Iterable[str]) -> bool:
        """Take over changed choices; False when the structure differs and `load` is due."""
        tree, before = self.tree, self.graph
        names = tuple(changed)
        if tree is None or before is None or any(_structure(graph, n) != _structure(before, n) for n in names):
            return False
        self.graph = graph
        groups: set[int] = set()
        rows: list[int] = []
        self._differ.clear()
        for name in names:
            number = tree.index[name]
            self._nodes[number] = graph.nodes[name]
            around = tree.ancestors(tree.home[number]) if tree.home[number] >= 0 else []
            self._count(number, around)
            if tree.home[number] >= 0:
                rows.append(number)
                groups.update(around, *(twins_of(tree, g) for g in around if tree.groups[g].twins > 1))
        items = [i for i in (*rows, *(len(self._nodes) + g for g in groups)) if i in self._row]
        if len(items) > MANY:
            self.many_changed.emit()
            return True
        for item in items:
            index = self.index_of(item)
            self.dataChanged.emit(index, index, [CHIPS])
        return True

    def _count(self, number: int, groups: Iterable[int]) -> None:
        """Count a node's badge of now in place of the one before, in the groups around it."""
        before, now = self._badges[number], badge(self._nodes[number])
        self._badges[number] = now
        for group in groups:
            if held := self._formats.get(group):
                held.subtract((before,))
                held[now] += 1

    def _lay(self, children: list[list[int]]) -> None:
        self._children = children
        self._row = {item: row for items in children for row, item in enumerate(items)}

    # -- filter

    def filter(self, text: str) -> int:
        """Keep the rows that match all words of `text` (or, failing that, its letters in order); their number."""
        words = text.lower().split()
        hits = self._matches(words) if words and self.tree else None
        if hits is None and self._children is self._plain:
            return len(self._nodes) - self.hidden
        self.beginResetModel()
        self._lay(self._plain if hits is None or self.tree is None else _around(self.tree, hits))
        self.endResetModel()
        return len(self._nodes) - self.hidden if hits is None else len(hits)

    def _matches(self, words: list[str]) -> list[int]:
        assert self.tree is not None
        if not self._texts:
            self._texts = [f"{n.target} {n.op} {title(n.op)} {n.module_path} {n.id}".lower() for n in self._nodes]
        shown = [i for i, home in enumerate(self.tree.home) if home >= 0]
        hits = [i for i in shown if all(w in self._texts[i] for w in words)]
        if hits:
            return hits
        letters = "".join(words)
        return [i for i in shown if _in_order(letters, self._path(i).lower())]

    # -- items

    def is_group(self, item: int) -> bool:
        """Whether an item is a group."""
        return item >= len(self._nodes)

    def nodes_of(self, item: int) -> list[str]:
        """The node, or all nodes of the group."""
        if not self.is_group(item):
            return [self._nodes[item].id]
        assert self.tree is not None
        return [self.tree.ids[i] for i in sorted(self.tree.members(item - len(self._nodes)))]

    def group_path(self, item: int) -> str:
        """The module path of a group."""
        assert self.tree is not None
        return self.tree.groups[item - len(self._nodes)].path

    def group_item(self, path: str) -> int | None:
        """The item of the group of exactly this path, if it has a row now."""
        number = self.tree.paths.get(path, 0) if self.tree else 0
        item = len(self._nodes) + number
        return item if item in self._row and self.group_path(item) == path else None

    def item_of(self, node: str) -> int | None:
        """The item of a node that has a row now."""
        number = self.tree.index.get(node) if self.tree else None
        return number if number is not None and number in self._row else None

    def group_items(self) -> list[int]:
        """The items of all groups that have a row now."""
        size = len(self._nodes)
        return [i for i in self._row if i >= size]

    def index_of(self, item: int) -> QModelIndex:
        """The index of an item that has a row."""
        return self.createIndex(self._row[item], 0, item)

    def name(self, item: int) -> str:
        """The text of a row: the path below its group, or what a function does."""
        assert self.tree is not None
        if self.is_group(item):
            return self.tree.groups[item - len(self._nodes)].label
        caption = self.tree.captions[item]
        node = self._nodes[item]
        group = self.tree.groups[self.tree.home[item]]
        above = group.module or group.path
        if node.call == "call_module" and node.target.startswith(above):
            return node.target[len(above) + 1 if above else 0 :]
        return caption.name if caption else node.id

    def _path(self, number: int) -> str:
        node = self._nodes[number]
        return node.target if node.call == "call_module" else f"{node.module_path}.{node.op}"

    # -- chips

    def chips(self, item: int) -> Chips:
        """What a row shows at its right."""
        if not self.is_group(item):
            node = self._nodes[item]
            return Chips(self._badges[item], sparsity(node) if node.sparsity else None)
        assert self.tree is not None
        group = item - len(self._nodes)
        return Chips(self._group_label(group), None, self.tree.groups[group].twins, self._unlike(group))

    def _unlike(self, group: int) -> bool:
        """Whether the groups that are built as this one have other choices."""
        tree = self.tree
        assert tree is not None
        if tree.groups[group].twins > 1 and group not in self._differ:
            alike = twins_of(tree, group)
            self._differ.update(dict.fromkeys(alike, differ(tree, alike, lambda i: choices(self._nodes[i]))))
        return self._differ.get(group, False)

    def _group_label(self, group: int) -> str:
        """The format that all layers of a group share."""
        found = self._formats.get(group)
        if found is None:
            assert self.tree is not None
            found = self._formats[group] = Counter(self._badges[i] for i in self.tree.members(group))
        labels = [label for label, count in found.items() if label and count]
        return labels[0] if len(labels) == 1 else MIXED if labels else ""

    # -- what Qt asks

    def rowCount(self, parent: Index = ROOT) -> int:
        if not parent.isValid():
            return len(self._children[0])
        item = parent.internalId() - len(self._nodes)
        return len(self._children[item]) if item >= 0 else 0

    def hasChildren(self, parent: Index = ROOT) -> bool:
        return self.rowCount(parent) > 0

    def columnCount(self, parent: Index = ROOT) -> int:
        return 1

    def index(self, row: int, column: int, parent: Index = ROOT) -> QModelIndex:
        """The index of a row."""
        group = parent.internalId() - len(self._nodes) if parent.isValid() else 0
        if group < 0 or column or not 0 <= row < len(self._children[group]):
            return QModelIndex()
        return self.createIndex(row, 0, self._children[group][row])

    def parent(self, child: Index = ROOT) -> QModelIndex:  # type: ignore[override]
        """The group above an item."""
        if not child.isValid() or self.tree is None:
            return QModelIndex()
        item, size = child.internalId(), len(self._nodes)
        above = self.tree.home[item] if item < size else self.tree.groups[item - size].parent
        return self.createIndex(self._row[size + above], 0, size + above) if above > 0 else QModelIndex()

    def data(self, index: Index, role: int = int(Qt.ItemDataRole.DisplayRole)) -> Any:
        """Name, chips or tool tip of an item."""
        if not index.isValid():
            return None
        item = index.internalId()
        if role == Qt.ItemDataRole.DisplayRole:
            return self.name(item)
        if role == CHIPS:
            return self.chips(item)
        if role == Qt.ItemDataRole.ToolTipRole:
            return self._tip(item)
        return None

    def _tip(self, item: int) -> str:
        if self.is_group(item):
            assert self.tree is not None
            group = self.tree.groups[item - len(self._nodes)]
            unlike = self._unlike(item - len(self._nodes))
            same = "blocks of the same structure whose choices differ" if unlike else "identical blocks"
            twins = f"\n{group.twins} {same}" if group.twins > 1 else ""
            return f"{group.path}\n{plural(group.size, 'node')}{twins}"
        node = self._nodes[item]
        formats = "".join(f"\n{port}: {p.label}" for port, p in node.precision.items())
        return f"{self._path(item)}\n{title(node.op)}{formats}"


def _all(tree: Hierarchy) -> list[list[int]]:
    """The children lists, by group."""
    size = len(tree.ids)
    return [[c if c >= 0 else size + ~c for c in g.children if c < size] for g in tree.groups]


def _plain(tree: Hierarchy, quiet: frozenset[int]) -> list[list[int]]:
    """The children lists without what is hidden, and without groups that hold nothing else."""
    return _around(tree, [i for i, h in enumerate(tree.home) if h >= 0 and i not in quiet]) if quiet else _all(tree)


def _around(tree: Hierarchy, hits: list[int]) -> list[list[int]]:
    """The children lists that hold `hits` and the groups above them."""
    kept, size = set(hits), len(tree.ids)
    for i in hits:
        group = tree.home[i]
        while group > 0 and size + group not in kept:
            kept.add(size + group)
            group = tree.groups[group].parent
    return [[c for c in items if c in kept] for items in _all(tree)]


def _shapes_only(node: Node) -> bool:
    """Whether a node computes nothing: it only arranges values, or works out sizes."""
    if node.call != "call_function":
        return node.call == "get_attr"
    return spec(node.op).category == "shape"


def _structure(graph: Graph, name: str) -> tuple[object, ...]:
    node = graph.nodes[name]
    return node.op, node.call, node.target, node.args, node.kwargs, node.module_path


def _in_order(letters: str, text: str) -> bool:
    """Whether the letters occur in `text` in this order."""
    place = -1
    for letter in letters:
        place = text.find(letter, place + 1)
        if place < 0:
            return False
    return True
