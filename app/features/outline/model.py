"""The module tree as a Qt model over the hierarchy of the canvas, so that both show the same groups.

Rows are created on demand; a filter keeps the matching rows and their ancestors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from PySide6.QtCore import QAbstractItemModel, QModelIndex, QPersistentModelIndex, Qt, Signal

from espalier.app.canvas.hierarchy import Hierarchy
from espalier.app.canvas.hierarchy_builder import build, shape_operations
from espalier.app.canvas.node_metrics import badge, choices, differ, sparsity, twins_of
from espalier.app.figures.captions import title
from espalier.app.number_text import plural
from espalier.app.translation import tr
from espalier.model.graph.graph import Graph, Node

Index = QModelIndex | QPersistentModelIndex
ROOT = QModelIndex()
CHIPS = int(Qt.ItemDataRole.UserRole) + 1
MIXED = "mixed"
REPAINT_ROWS = 64  # with more changed rows than this, the view repaints as a whole


class Chips(NamedTuple):
    """Chips at the right of a row: format, sparsity (None: not pruned), number of structurally identical blocks.

    `differ`: the settings of these blocks differ.
    """

    label: str = ""
    sparsity: float | None = None
    twins: int = 1
    differ: bool = False


@dataclass(frozen=True, slots=True)
class Contents:
    """Content of the outline for a graph; free of Qt, so that a thread can build it for a large graph."""

    graph: Graph
    tree: Hierarchy
    nodes: list[Node]
    badges: list[str]
    hidden: int
    children: list[list[int]]


def contents(graph: Graph, show_all: bool = False) -> Contents:
    """The unfiltered contents of a graph; `show_all`: including shape operations."""
    tree, nodes = build(graph, show_all), list(graph)
    hidden = frozenset[int]() if show_all else shape_operations(graph)
    return Contents(graph, tree, nodes, [badge(n) for n in nodes], len(hidden), _without_hidden(tree, hidden))


class OutlineModel(QAbstractItemModel):
    """Item numbers: node n is n, group g is number of nodes + g. `many_changed`: repaint the visible rows."""

    many_changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.graph: Graph | None = None
        self.tree: Hierarchy | None = None
        self.hidden = 0
        self._nodes: list[Node] = []
        self._badges: list[str] = []
        self._unfiltered: list[list[int]] = [[]]  # children without a filter
        self._children = self._unfiltered
        self._row: dict[int, int] = {}
        self._texts: list[str] = []
        self._formats: dict[int, Counter[str]] = {}  # by group: number of nodes with each badge
        self._differ: dict[int, bool] = {}  # by group: whether identical groups have different settings

    # -- content

    def load(self, graph: Graph | None, show_all: bool = False) -> None:
        """Show a graph without a filter; `show_all`: including shape operations."""
        self.take(contents(graph, show_all) if graph else None)

    def take(self, content: Contents | None) -> None:
        """Show prepared contents, or none."""
        self.beginResetModel()
        self.graph, self.tree = (content.graph, content.tree) if content else (None, None)
        self._nodes, self._badges = (content.nodes, content.badges) if content else ([], [])
        self._texts, self._formats, self._differ = [], {}, {}
        self.hidden = content.hidden if content else 0
        self._unfiltered = content.children if content else [[]]
        self._set_children(self._unfiltered)
        self.endResetModel()

    def update(self, graph: Graph, changed: Iterable[str]) -> bool:
        """Apply changed settings; False when the structure differs and `load` is required."""
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
            self._recount(number, around)
            if tree.home[number] >= 0:
                rows.append(number)
                groups.update(around, *(twins_of(tree, g) for g in around if tree.groups[g].twins > 1))
        items = [i for i in (*rows, *(len(self._nodes) + g for g in groups)) if i in self._row]
        if len(items) > REPAINT_ROWS:
            self.many_changed.emit()
            return True
        for item in items:
            index = self.index_of(item)
            self.dataChanged.emit(index, index, [CHIPS])
        return True

    def _recount(self, number: int, groups: Iterable[int]) -> None:
        """Update the badge counts of the enclosing groups for a changed node."""
        previous, current = self._badges[number], badge(self._nodes[number])
        self._badges[number] = current
        for group in groups:
            if counts := self._formats.get(group):
                counts.subtract((previous,))
                counts[current] += 1

    def _set_children(self, children: list[list[int]]) -> None:
        self._children = children
        self._row = {item: row for items in children for row, item in enumerate(items)}

    # -- filter

    def filter(self, text: str) -> int:
        """Keep the rows that match all words of `text`, else those with its letters in order; returns their number."""
        terms = text.lower().split()
        hits = self._matches(terms) if terms and self.tree else None
        if hits is None and self._children is self._unfiltered:
            return len(self._nodes) - self.hidden
        self.beginResetModel()
        self._set_children(self._unfiltered if hits is None or self.tree is None else _with_ancestors(self.tree, hits))
        self.endResetModel()
        return len(self._nodes) - self.hidden if hits is None else len(hits)

    def _matches(self, terms: list[str]) -> list[int]:
        assert self.tree is not None
        if not self._texts:
            self._texts = [f"{n.target} {n.op} {title(n.op)} {n.module_path} {n.id}".lower() for n in self._nodes]
        visible = [i for i, home in enumerate(self.tree.home) if home >= 0]
        hits = [i for i in visible if all(w in self._texts[i] for w in terms)]
        if hits:
            return hits
        letters = "".join(terms)
        return [i for i in visible if _in_order(letters, self._path(i).lower())]

    # -- items

    def is_group(self, item: int) -> bool:
        """Whether an item is a group."""
        return item >= len(self._nodes)

    def nodes_of(self, item: int) -> list[str]:
        """The node of an item, or all nodes of a group."""
        if not self.is_group(item):
            return [self._nodes[item].id]
        assert self.tree is not None
        return [self.tree.ids[i] for i in sorted(self.tree.members(item - len(self._nodes)))]

    def group_path(self, item: int) -> str:
        """The module path of a group."""
        assert self.tree is not None
        return self.tree.groups[item - len(self._nodes)].path

    def group_item(self, path: str) -> int | None:
        """The item of the group with this path, if it has a row."""
        number = self.tree.paths.get(path, 0) if self.tree else 0
        item = len(self._nodes) + number
        return item if item in self._row and self.group_path(item) == path else None

    def item_of(self, node: str) -> int | None:
        """The item of a node, if it has a row."""
        number = self.tree.index.get(node) if self.tree else None
        return number if number is not None and number in self._row else None

    def group_items(self) -> list[int]:
        """The items of all groups that have a row."""
        size = len(self._nodes)
        return [i for i in self._row if i >= size]

    def index_of(self, item: int) -> QModelIndex:
        """The index of an item that has a row."""
        return self.createIndex(self._row[item], 0, item)

    def name(self, item: int) -> str:
        """The text of a row: the title that a user gave it, the path relative to its group, or a function's name."""
        assert self.tree is not None
        if self.is_group(item):
            return self.tree.groups[item - len(self._nodes)].label
        caption = self.tree.captions[item]
        node = self._nodes[item]
        if node.annotation.title:
            return node.annotation.title
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
        """The chips at the right of a row."""
        if not self.is_group(item):
            node = self._nodes[item]
            return Chips(self._badges[item], sparsity(node) if node.sparsity else None)
        assert self.tree is not None
        group = item - len(self._nodes)
        return Chips(self._group_label(group), None, self.tree.groups[group].twins, self._differs(group))

    def _differs(self, group: int) -> bool:
        """Whether structurally identical groups have different settings."""
        tree = self.tree
        assert tree is not None
        if tree.groups[group].twins > 1 and group not in self._differ:
            twins = twins_of(tree, group)
            self._differ.update(dict.fromkeys(twins, differ(tree, twins, lambda i: choices(self._nodes[i]))))
        return self._differ.get(group, False)

    def _group_label(self, group: int) -> str:
        """The format shared by all layers of a group, else "mixed"."""
        counts = self._formats.get(group)
        if counts is None:
            assert self.tree is not None
            counts = self._formats[group] = Counter(self._badges[i] for i in self.tree.members(group))
        labels = [label for label, count in counts.items() if label and count]
        return labels[0] if len(labels) == 1 else MIXED if labels else ""

    # -- QAbstractItemModel

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
            differs = self._differs(item - len(self._nodes))
            same = tr("blocks of the same structure with different settings") if differs else tr("identical blocks")
            twins = f"\n{group.twins} {same}" if group.twins > 1 else ""
            return f"{group.path}\n{plural(group.size, 'node')}{twins}"
        node = self._nodes[item]
        formats = "".join(f"\n{port}: {p.label}" for port, p in node.precision.items())
        return f"{self._path(item)}\n{title(node.op)}{formats}"


def _all_children(tree: Hierarchy) -> list[list[int]]:
    """Children of every group."""
    size = len(tree.ids)
    return [[c if c >= 0 else size + ~c for c in g.children if c < size] for g in tree.groups]


def _without_hidden(tree: Hierarchy, hidden: frozenset[int]) -> list[list[int]]:
    """Children of every group without hidden nodes and without groups that contain only hidden nodes."""
    if not hidden:
        return _all_children(tree)
    return _with_ancestors(tree, [i for i, h in enumerate(tree.home) if h >= 0 and i not in hidden])


def _with_ancestors(tree: Hierarchy, hits: list[int]) -> list[list[int]]:
    """Children of every group, restricted to `hits` and their ancestors."""
    included, size = set(hits), len(tree.ids)
    for i in hits:
        group = tree.home[i]
        while group > 0 and size + group not in included:
            included.add(size + group)
            group = tree.groups[group].parent
    return [[c for c in items if c in included] for items in _all_children(tree)]


def _structure(graph: Graph, name: str) -> tuple[object, ...]:
    node = graph.nodes[name]
    return node.op, node.call, node.target, node.args, node.kwargs, node.module_path


def _in_order(letters: str, text: str) -> bool:
    """Whether the letters occur in `text` in this order."""
    position = -1
    for letter in letters:
        position = text.find(letter, position + 1)
        if position < 0:
            return False
    return True
