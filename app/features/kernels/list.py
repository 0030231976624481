"""Tree of kernels by family; the selection is what runs and whose source is shown."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QItemSelectionModel, QSignalBlocker, Qt, Signal
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QAbstractItemView, QTreeWidget, QTreeWidgetItem, QVBoxLayout, QWidget

from espalier.app.translation import tr
from espalier.app.widgets.forms.fields import Line
from espalier.kernels.bench.spec import KernelInfo

NAME = Qt.ItemDataRole.UserRole


class KernelList(QWidget):
    """Filtered tree of families; emits `changed` at another selection. A selected family selects all its kernels."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.filter, self.tree = Line(tr("Filter kernels")), QTreeWidget()
        self.filter.setAccessibleName(tr("Filter kernels"))
        self.filter.setClearButtonEnabled(True)
        self.tree.setAccessibleName(tr("Kernels"))
        self.tree.setHeaderHidden(True)
        self.tree.setIndentation(14)
        self.tree.setUniformRowHeights(True)
        self.tree.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.tree.setTextElideMode(Qt.TextElideMode.ElideRight)
        self._infos: dict[str, KernelInfo] = {}
        box = QVBoxLayout(self)
        box.setContentsMargins(8, 6, 8, 0)
        box.setSpacing(4)
        box.addWidget(self.filter)
        box.addWidget(self.tree, 1)
        self.tree.itemSelectionChanged.connect(self.changed)
        self.filter.textChanged.connect(self._filter)

    def offer(self, infos: Sequence[KernelInfo]) -> None:
        """Show kernels and restore the selection, else select the first."""
        selected = [i.name for i in self.chosen]
        self._infos = {i.name: i for i in infos}
        with QSignalBlocker(self.tree):
            self.tree.clear()
            families = dict.fromkeys(i.family for i in infos)
            for family in families:
                inside = [i for i in infos if i.family == family]
                self._branch(family, inside)
            self.tree.expandAll()
        self.select(selected or [i.name for i in infos][:1])

    def show_message(self, text: str) -> None:
        """Show a message instead of kernels."""
        self.tree.clear()
        QTreeWidgetItem(self.tree, [text]).setFlags(Qt.ItemFlag.NoItemFlags)

    def _branch(self, family: str, inside: Sequence[KernelInfo]) -> None:
        top = self.tree.invisibleRootItem()
        if len(inside) > 1:
            top = QTreeWidgetItem(top, [f"{tr(family)}  {len(inside)}"])
            top.setToolTip(0, tr("All {} of {}", len(inside), tr(family)))
            font = QFont(self.tree.font())
            font.setWeight(QFont.Weight.DemiBold)
            top.setFont(0, font)
        for info in inside:
            title = tr(info.title.removeprefix(f"{family}, "))
            item = QTreeWidgetItem(top, [title[:1].upper() + title[1:]])
            item.setData(0, NAME, info.name)
            item.setToolTip(0, f"{info.name}\n{tr(info.about)}\n{info.formula}")

    # -- selection

    @property
    def chosen(self) -> tuple[KernelInfo, ...]:
        """The selected kernels in list order; a selected family gives its visible kernels."""
        names: set[str] = set()
        for item in self.tree.selectedItems():
            inside = _children(item) or [item]
            names.update(str(i.data(0, NAME)) for i in inside if not i.isHidden())
        return tuple(info for name, info in self._infos.items() if name in names)

    def select(self, names: Sequence[str]) -> None:
        """Select kernels by name."""
        with QSignalBlocker(self.tree):
            self.tree.clearSelection()
            for item in self._items():
                if item.data(0, NAME) in names:
                    item.setSelected(True)
                    if item.data(0, NAME) == names[0]:
                        flag = QItemSelectionModel.SelectionFlag.NoUpdate
                        self.tree.setCurrentItem(item, 0, flag)
        self.changed.emit()

    def _items(self) -> list[QTreeWidgetItem]:
        """All items of kernels."""
        tops = _children(self.tree.invisibleRootItem())
        return [i for i in (*tops, *(i for top in tops for i in _children(top))) if i.data(0, NAME)]

    def _filter(self, text: str) -> None:
        """Show the kernels whose name, title, family or description contains all words."""
        terms = text.casefold().split()
        for item in self._items():
            info = self._infos[item.data(0, NAME)]
            searched = f"{info.name} {info.title} {info.family} {info.about}".casefold()
            item.setHidden(not all(w in searched for w in terms))
            if item.isHidden():
                item.setSelected(False)
        for top in _children(self.tree.invisibleRootItem()):
            if children := _children(top):
                top.setHidden(all(item.isHidden() for item in children))
        self.changed.emit()


def _children(item: QTreeWidgetItem) -> list[QTreeWidgetItem]:
    """The child items of an item."""
    return [child for i in range(item.childCount()) if (child := item.child(i)) is not None]
