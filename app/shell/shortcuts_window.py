"""The window of the shortcuts: all actions with their keys, searched, recorded anew and reset."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QKeyEvent, QKeySequence
from PySide6.QtWidgets import (
    QDialog,
    QFrame,
    QHBoxLayout,
    QKeySequenceEdit,
    QLabel,
    QLineEdit,
    QPushButton,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from espalier.app.shell.keys import KeyBindings, refusal, shown
from espalier.app.translation import tr
from espalier.app.widgets.heading import link, muted

WIDTH, HEIGHT, SPACE = 680, 640, 40  # pixels
ID = Qt.ItemDataRole.UserRole
HINT = tr("Double-click an action, or press Return on it, to record other keys.")


class KeyTable(QTreeWidget):
    """A row per action; Return records."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setHeaderLabels([tr("menu"), tr("action"), tr("keys")])
        self.setRootIsDecorated(False)
        self.setUniformRowHeights(True)
        self.setAccessibleName(tr("Actions and their keys"))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and (item := self.currentItem()) is not None:
            self.itemActivated.emit(item, 0)
        else:
            super().keyPressEvent(event)


class ShortcutsWindow(QDialog):
    """`fixed`: (where, what, keys) of keys that cannot be changed."""

    def __init__(self, parent: QWidget, keys: KeyBindings, fixed: Sequence[tuple[str, str, str]]) -> None:
        super().__init__(parent)
        self._keys, self._recorded = keys, ""
        self.setWindowTitle(tr("Shortcuts"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(min(WIDTH, parent.width() - SPACE), min(HEIGHT, parent.height() - SPACE))
        self.query = QLineEdit(self, placeholderText=tr("Search actions and keys"), clearButtonEnabled=True)
        self.query.setAccessibleName(tr("Search actions and keys"))
        self.table = KeyTable(self)
        self.hint = muted(HINT)
        self.reset_link, self.reset_all_link = link(tr("Reset"), self._reset), link(tr("Reset all"), self._reset_all)
        self.reset_link.setToolTip(tr("Give the selected action the keys that it had at first"))
        self.reset_all_link.setToolTip(tr("Give every action the keys that it had at first"))
        self._lay_out()
        self._items: dict[str, QTreeWidgetItem] = {}
        self._fill(fixed)
        self.query.textChanged.connect(self._filter)
        self.table.itemActivated.connect(lambda item: self.record(item.data(0, ID)))
        self.table.currentItemChanged.connect(lambda *_: self._refresh_links())
        self.show_keys()
        self.query.setFocus()

    def _lay_out(self) -> None:
        box, foot = QVBoxLayout(self), QHBoxLayout()
        box.setContentsMargins(16, 14, 16, 14)
        box.addWidget(self.query)
        box.addWidget(self.table, 1)
        box.addWidget(self._recorder())
        foot.addWidget(self.hint, 1)
        for button in (self.reset_link, self.reset_all_link):
            button.setAutoDefault(False)  # else Return in the search would press it
            foot.addWidget(button)
        box.addLayout(foot)

    def _recorder(self) -> QWidget:
        """The strip in which keys are recorded; hidden otherwise."""
        self.recorder = QFrame(self)
        self.recorder.setProperty("card", True)
        self.question = QLabel()
        self.question.setWordWrap(True)
        self.edit = QKeySequenceEdit(self)
        self.edit.setMaximumSequenceLength(2)
        self.edit.setAccessibleName(tr("New keys"))
        self.assign_button, self.none_button = QPushButton(tr("Assign")), QPushButton(tr("No keys"))
        self.cancel_button = QPushButton(tr("Cancel"))
        self.assign_button.setProperty("primary", True)
        self.assign_button.clicked.connect(self._assign)
        self.none_button.clicked.connect(lambda: self._finish(""))
        self.cancel_button.clicked.connect(self._end_recording)
        self.edit.keySequenceChanged.connect(lambda _: self._check())
        column, row = QVBoxLayout(self.recorder), QHBoxLayout()
        column.addWidget(self.question)
        row.addWidget(self.edit, 1)
        for button in (self.assign_button, self.none_button, self.cancel_button):
            button.setAutoDefault(False)
            row.addWidget(button)
        column.addLayout(row)
        self.recorder.hide()
        return self.recorder

    def _fill(self, fixed: Sequence[tuple[str, str, str]]) -> None:
        for row in self._keys.rows:
            title = row.title.rstrip("…")
            item = self._items[row.id] = QTreeWidgetItem(self.table, [row.menu_text, title, ""])
            item.setData(0, ID, row.id)
            item.setToolTip(1, row.help or title)
        for where, what, keys in fixed:
            item = QTreeWidgetItem(self.table, [where, what, keys])
            for column in range(3):
                item.setForeground(column, self.palette().placeholderText())
                item.setToolTip(column, tr("These keys cannot be changed"))
        for column, width in enumerate((150, 310)):
            self.table.setColumnWidth(column, width)

    def show_keys(self) -> None:
        """Show the present keys; changed ones are bold."""
        present = self._keys.present
        for name, item in self._items.items():
            item.setText(2, shown(present[name]))
            font = QFont(self.font())
            font.setBold(self._keys.is_changed(name))
            item.setFont(2, font)
        self._refresh_links()

    def _refresh_links(self) -> None:
        name = self._current
        self.reset_link.setEnabled(bool(name) and self._keys.is_changed(name))
        self.reset_all_link.setEnabled(any(map(self._keys.is_changed, self._items)))

    @property
    def _current(self) -> str:
        item = self.table.currentItem()
        return (item.data(0, ID) or "") if item is not None and not item.isHidden() else ""

    def _filter(self, text: str) -> None:
        words = text.casefold().split()
        for i in range(self.table.topLevelItemCount()):
            if (item := self.table.topLevelItem(i)) is not None:
                whole = " ".join(item.text(c) for c in range(3)).casefold()
                item.setHidden(not all(w in whole for w in words))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Down or Return in the search goes to the actions that it lists."""
        if self.query.hasFocus() and event.key() in (Qt.Key.Key_Down, Qt.Key.Key_Return, Qt.Key.Key_Enter):
            rows = map(self.table.topLevelItem, range(self.table.topLevelItemCount()))
            first = next((row for row in rows if row is not None and not row.isHidden()), None)
            if first is not None:
                self.table.setCurrentItem(first)
                self.table.setFocus()
        else:
            super().keyPressEvent(event)

    # -- recording

    def record(self, name: str | None) -> None:
        """Ask for the new keys of an action."""
        if not name:
            self.hint.setText(tr("These keys cannot be changed."))
            return
        self._recorded = name
        self.hint.setText(HINT)
        self.edit.setKeySequence(QKeySequence())
        self.recorder.show()
        self._check()
        self.edit.setFocus()

    def _title(self, name: str) -> str:
        return self._items[name].text(1)

    def _check(self) -> None:
        """Say what the recorded keys would do."""
        text = self.edit.keySequence().toString(QKeySequence.SequenceFormat.PortableText)
        title = self._title(self._recorded)
        problem = refusal(text) if text else ""
        if not problem and (menu := self._keys.mnemonic(text)):
            problem = tr("{} opens {}. Choose other keys.", shown((text,)), menu)
        holder = self._keys.holder(text, self._recorded) if text and not problem else ""
        if not text:
            self.question.setText(tr("Press the new keys of “{}”.", title))
        elif problem:
            self.question.setText(problem)
        elif holder:
            self.question.setText(
                tr("{} belongs to “{}”, which would have no keys then.", shown((text,)), self._title(holder))
            )
        else:
            self.question.setText(tr("{} is free.", shown((text,))))
        self.assign_button.setEnabled(bool(text) and not problem)
        self.assign_button.setText(tr("Take the keys") if holder else tr("Assign"))

    def _assign(self) -> None:
        self._finish(self.edit.keySequence().toString(QKeySequence.SequenceFormat.PortableText))

    def _finish(self, text: str) -> None:
        self._keys.assign(self._recorded, text)
        self.show_keys()
        self._end_recording()

    def _end_recording(self) -> None:
        self.recorder.hide()
        self.table.setFocus()

    def _reset(self) -> None:
        if name := self._current:
            self._keys.reset(name)
            self.show_keys()

    def _reset_all(self) -> None:
        self._keys.reset_all()
        self.show_keys()
