"""The menus and the toolbar, made of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QTimer
from PySide6.QtGui import QAction, QKeySequence, QShortcut
from PySide6.QtWidgets import QMenu, QMenuBar, QToolBar, QWidget, QWidgetAction

from espalier.app.menu import Action
from espalier.app.widgets.heading import heading


def in_order(rows: Sequence[Action], order: Sequence[str]) -> list[Action]:
    """Rows by menu and group: menus as in `order`, where "" stands for those that it does not name."""
    heads = [*dict.fromkeys(r.menu.partition("/")[0] for r in rows)]
    place = {head: order.index(head if head in order else "") for head in heads}
    return sorted(rows, key=lambda r: (place[h := r.menu.partition("/")[0]], heads.index(h), r.group))


def section_title(text: str, menu: QMenu) -> QWidgetAction:
    """The title of a part of a menu, in the look of the panels' headings."""
    label = heading(text)
    label.setContentsMargins(14, 4, 14, 2)
    made = QWidgetAction(menu)
    made.setDefaultWidget(label)
    made.setEnabled(False)
    return made


class Menus:
    """Rows as QActions in menus and on the toolbar, with what is enabled kept true."""

    def __init__(
        self, window: QWidget, bar: QMenuBar, rows: Sequence[Action], order: Sequence[str], is_open: Callable[[], bool]
    ) -> None:
        self._window, self._bar, self._is_open = window, bar, is_open
        self.rows = in_order(rows, order)
        self.actions: dict[str, QAction] = {}
        self.menus: dict[str, QMenu] = {}
        last: dict[str, int] = {}
        for row in self.rows:
            menu = self._menu(row, last)
            action = self._action(row)
            menu.addAction(action)
            self.actions[row.id] = action
        self._soon = QTimer(window, interval=0, singleShot=True)
        self._soon.timeout.connect(self.refresh)

    def _menu(self, row: Action, last: dict[str, int]) -> QMenu:
        head, _, tail = row.menu.partition("/")
        top = self.menus.get(head) or self.menus.setdefault(head, self._top(head))
        if last.get(head) != row.group:
            if head in last:
                top.addSeparator()
            if row.section:
                top.addAction(section_title(row.section, top))
            last[head] = row.group
        if not tail:
            return top
        return self.menus.get(row.menu) or self.menus.setdefault(row.menu, top.addMenu(tail))

    def _top(self, title: str) -> QMenu:
        """A menu of the bar; Alt and its first letter open it, without underlining that letter."""
        menu = self._bar.addMenu(title)
        key = QShortcut(QKeySequence(f"Alt+{title[0]}"), self._window)
        key.activated.connect(lambda: self._bar.setActiveAction(menu.menuAction()))
        return menu

    def _action(self, row: Action) -> QAction:
        action = QAction(row.title, self._window)
        action.setObjectName(row.id)
        action.setCheckable(row.checked is not None)
        if row.key:
            keys = [QKeySequence(row.key)]
            action.setShortcuts(keys if row.id != "find" else [*keys, QKeySequence("Ctrl+Shift+P")])
        key = f"  {QKeySequence(row.key).toString()}" if row.key else ""
        action.setToolTip(f"{row.help or row.title.rstrip('…')}{key}")
        action.triggered.connect(lambda: self.run(row.id))
        return action

    def submenu(self, menu: str, title: str, before: str) -> QMenu:
        """A further submenu of a menu, before a row."""
        made = QMenu(title, self._window)
        self.menus[menu].insertMenu(self.actions[before], made)
        return made

    def run(self, name: str) -> None:
        """Do what row `name` does."""
        row = next(r for r in self.rows if r.id == name)
        if self._able(row):
            row.run()
        self.refresh()

    def _able(self, row: Action) -> bool:
        return self._is_open() if row.needs is None else row.needs()

    def refresh_soon(self) -> None:
        """Refresh once what happens now is painted."""
        self._soon.start()

    def refresh(self) -> None:
        """Set what is enabled and ticked, and the labels of undo and redo."""
        for row in self.rows:
            action = self.actions[row.id]
            able = self._able(row)
            action.setEnabled(able)
            if row.checked and able:
                action.setChecked(row.checked())
            if row.words:
                action.setText(row.words())
        self.menus["Model/Report"].setEnabled(self._is_open())

    def put(self, bar: QToolBar, name: str) -> None:
        """Put an action on the toolbar under its short word."""
        row, action = next(r for r in self.rows if r.id == name), self.actions[name]
        action.setIconText(row.tool or row.title)
        bar.addAction(action)
