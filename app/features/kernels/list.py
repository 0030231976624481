"""The kernels by family: what is selected is what runs, and what is read about."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QItemSelectionModel, QSignalBlocker, Qt, Signal
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QAbstractItemView, QTreeWidget, QTreeWidgetItem, QVBoxLayout, QWidget

from espalier.app.widgets.forms.fields import Line
from espalier.kernels.bench.spec import KernelInfo

NAME = Qt.ItemDataRole.UserRole


class KernelList(QWidget):
    """A tree of families under a filter. `changed`: others are selected. A family stands for all of its kernels."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.filter, self.tree = Line("Filter kernels"), QTreeWidget()
        self.filter.setAccessibleName("Filter kernels")
        self.filter.setClearButtonEnabled(True)
        self.tree.setAccessibleName("Kernels")
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
        self.filter.textChanged.connect(self._sift)

    def offer(self, infos: Sequence[KernelInfo]) -> None:
        """Show kernels; the first is selected where none was."""
        held = [i.name for i in self.chosen]
        self._infos = {i.name: i for i in infos}
        with QSignalBlocker(self.tree):
            self.tree.clear()
            families = dict.fromkeys(i.family for i in infos)
            for family in families:
                inside = [i for i in infos if i.family == family]
                self._branch(family, inside)
            self.tree.expandAll()
        self.select(held or [i.name for i in infos][:1])

    def say(self, words: str) -> None:
        """Say why there is nothing to select."""
        self.tree.clear()
        QTreeWidgetItem(self.tree, [words]).setFlags(Qt.ItemFlag.NoItemFlags)

    def _branch(self, family: str, inside: Sequence[KernelInfo]) -> None:
        top = self.tree.invisibleRootItem()
        if len(inside) > 1:
            top = QTreeWidgetItem(top, [f"{family}  {len(inside)}"])
            top.setToolTip(0, f"All {len(inside)} of {family}")
            font = QFont(self.tree.font())
            font.setWeight(QFont.Weight.DemiBold)
            top.setFont(0, font)
        for info in inside:
            title = info.title.removeprefix(f"{family}, ")
            item = QTreeWidgetItem(top, [title[:1].upper() + title[1:]])
            item.setData(0, NAME, info.name)
            item.setToolTip(0, f"{info.name}\n{info.about}\n{info.formula}")

    # -- what is chosen

    @property
    def chosen(self) -> tuple[KernelInfo, ...]:
        """The selected kernels in the order of the list; a family brings all that are seen of it."""
        names: set[str] = set()
        for item in self.tree.selectedItems():
            inside = _inside(item) or [item]
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
        """All rows that are kernels."""
        tops = _inside(self.tree.invisibleRootItem())
        return [i for i in (*tops, *(i for top in tops for i in _inside(top))) if i.data(0, NAME)]

    def _sift(self, text: str) -> None:
        """Show kernels that have the words in their name, title, family or description."""
        wish = text.casefold().split()
        for item in self._items():
            info = self._infos[item.data(0, NAME)]
            words = f"{info.name} {info.title} {info.family} {info.about}".casefold()
            item.setHidden(not all(w in words for w in wish))
            if item.isHidden():
                item.setSelected(False)
        for top in _inside(self.tree.invisibleRootItem()):
            if found := _inside(top):
                top.setHidden(all(item.isHidden() for item in found))
        self.changed.emit()


def _inside(item: QTreeWidgetItem) -> list[QTreeWidgetItem]:
    """The rows below a row."""
    return [found for i in range(item.childCount()) if (found := item.child(i)) is not None]
