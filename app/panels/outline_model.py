"""The module tree as a Qt model, over the canvas' own hierarchy, so that both show the same groups.

Rows are made when the view asks for them; a filter keeps the rows that match and the groups around them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from PySide6.QtCore import QAbstractItemModel, QModelIndex, QPersistentModelIndex, Qt, Signal

from app.canvas.captions import title
from app.canvas.figures import badge, sparsity
from app.canvas.hierarchy import Hierarchy
from app.canvas.namespaces import build
from app.words import plural
from model.graph import Graph, Node
from model.ops import spec

Index = QModelIndex | QPersistentModelIndex
ROOT = QModelIndex()
CHIPS = int(Qt.ItemDataRole.UserRole) + 1
MIXED = "mixed"
MANY = 64  # rows changed at once, from which on the view repaints as a whole


class Chips(NamedTuple):
    """What stands at the right of a row: format, sparsity (None: not pruned), number of identical blocks."""

    label: str = ""
    sparsity: float | None = None
    twins: int = 1


class OutlineModel(QAbstractItemModel):
    """Items are numbered: node n is n, group g is nodes + g. `many_changed`: repaint what is in view."""

    many_changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.graph: Graph | None = None
        self.tree: Hierarchy | None = None
        self.hidden = 0
        self._nodes: list[Node] = []
        self._children: list[list[int]] = [[]]
        self._row: dict[int, int] = {}
        self._texts: list[str] = []
        self._labels: dict[int, str] = {}
        self._quiet: set[int] = set()

    # -- content

    def load(self, graph: Graph | None, show_all: bool = False) -> None:
        """Show a graph, without a filter; `show_all`: with operations that only shape tensors."""
        self.beginResetModel()
        self.graph = graph
        self.tree = build(graph, show_all) if graph else None
        self._nodes = list(graph) if graph else []
        self._texts, self._labels = [], {}
        self._quiet = set() if show_all else {i for i, n in enumerate(self._nodes) if _shapes_only(n)}
        self.hidden = len(self._quiet)
        self._lay(self._plain())
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
        for name in names:
            number = tree.index[name]
            self._nodes[number] = graph.nodes[name]
            if tree.home[number] >= 0:
                rows.append(number)
                groups.update(tree.ancestors(tree.home[number]))
        for group in groups:
            self._labels.pop(group, None)
        items = [i for i in (*rows, *(len(self._nodes) + g for g in groups)) if i in self._row]
        if len(items) > MANY:
            self.many_changed.emit()
            return True
        for item in items:
            index = self.index_of(item)
            self.dataChanged.emit(index, index, [CHIPS])
        return True

    def _all(self) -> list[list[int]]:
        if self.tree is None:
            return [[]]
        size = len(self._nodes)
        return [[c if c >= 0 else size + ~c for c in g.children if c < size] for g in self.tree.groups]

    def _plain(self) -> list[list[int]]:
        """The children lists without what is hidden, and without groups that hold nothing else."""
        assert self.tree is not None or not self._nodes
        if not self._quiet or self.tree is None:
            return self._all()
        return self._around([i for i, home in enumerate(self.tree.home) if home >= 0 and i not in self._quiet])

    def _lay(self, children: list[list[int]]) -> None:
        self._children = children
        self._row = {item: row for items in children for row, item in enumerate(items)}

    # -- filter

    def filter(self, text: str) -> int:
        """Keep the rows that match all words of `text` (or, failing that, its letters in order); their number."""
        words = text.lower().split()
        self.beginResetModel()
        if not words or self.tree is None:
            self._lay(self._plain())
            found = len(self._nodes) - self.hidden
        else:
            hits = self._matches(words)
            found = len(hits)
            self._lay(self._around(hits))
        self.endResetModel()
        return found

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

    def _around(self, hits: list[int]) -> list[list[int]]:
        """The children lists that hold `hits` and the groups above them."""
        assert self.tree is not None
        kept = set(hits)
        size = len(self._nodes)
        for i in hits:
            group = self.tree.home[i]
            while group > 0 and size + group not in kept:
                kept.add(size + group)
                group = self.tree.groups[group].parent
        return [[c for c in items if c in kept] for items in self._all()]

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
        above = self.tree.groups[self.tree.home[item]].path
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
            return Chips(badge(node), sparsity(node) if node.sparsity else None)
        assert self.tree is not None
        group = item - len(self._nodes)
        return Chips(self._group_label(group), None, self.tree.groups[group].twins)

    def _group_label(self, group: int) -> str:
        """The format that all layers of a group share."""
        found = self._labels.get(group)
        if found is None:
            assert self.tree is not None
            labels = {badge(self._nodes[i]) for i in self.tree.members(group)} - {""}
            found = labels.pop() if len(labels) == 1 else MIXED if labels else ""
            self._labels[group] = found
        return found

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
            twins = f"\n{group.twins} identical blocks" if group.twins > 1 else ""
            return f"{group.path}\n{plural(group.size, 'node')}{twins}"
        node = self._nodes[item]
        formats = "".join(f"\n{port}: {p.label}" for port, p in node.precision.items())
        return f"{self._path(item)}\n{title(node.op)}{formats}"


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
