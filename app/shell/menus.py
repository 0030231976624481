"""The menus and the toolbar, built from rows of `Action`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QTimer
from PySide6.QtGui import QAction, QKeySequence, QShortcut
from PySide6.QtWidgets import QMenu, QMenuBar, QToolBar, QWidget, QWidgetAction
from shiboken6 import isValid

from espalier.app.menu import Action
from espalier.app.translation import tr
from espalier.app.widgets.heading import heading


def in_order(rows: Sequence[Action], order: Sequence[str]) -> list[Action]:
    """Sort rows by menu and group. `order`: the menus; "" is the place of those that it does not name."""
    heads = [*dict.fromkeys(r.menu.partition("/")[0] for r in rows)]
    positions = {head: order.index(head if head in order else "") for head in heads}
    return sorted(rows, key=lambda r: (positions[h := r.menu.partition("/")[0]], heads.index(h), r.group))


def section_title(text: str, menu: QMenu) -> QWidgetAction:
    """The title of a section of a menu, styled as the headings of panels."""
    label = heading(text)
    label.setContentsMargins(14, 4, 14, 2)
    action = QWidgetAction(menu)
    action.setDefaultWidget(label)
    action.setEnabled(False)
    return action


def _show_keys(action: QAction, row: Action, keys: Sequence[str]) -> None:
    action.setShortcuts([QKeySequence(k) for k in keys])
    key = f"  {QKeySequence(keys[0]).toString(QKeySequence.SequenceFormat.NativeText)}" if keys else ""
    action.setToolTip(f"{row.help or row.title.rstrip('…')}{key}")


class Menus:
    """The rows as QActions in menus and on the toolbar; `refresh` updates their state."""

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
        self._refresh_timer = QTimer(window, interval=0, singleShot=True)
        self._refresh_timer.timeout.connect(self.refresh)

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
        return self.menus.get(row.menu) or self.menus.setdefault(row.menu, top.addMenu(tr(tail)))

    def _top(self, title: str) -> QMenu:
        """A menu of the bar, opened by Alt and its first letter; the letter is not underlined."""
        menu = self._bar.addMenu(tr(title))
        key = QShortcut(QKeySequence(f"Alt+{tr(title)[0]}"), self._window)
        key.activated.connect(lambda: self._bar.setActiveAction(menu.menuAction()))
        return menu

    def _action(self, row: Action) -> QAction:
        action = QAction(row.title, self._window)
        action.setObjectName(row.id)
        action.setCheckable(row.checked is not None)
        _show_keys(action, row, row.keys)
        action.triggered.connect(lambda: self.run(row.id))
        return action

    def show_keys(self, name: str, keys: tuple[str, ...]) -> None:
        """Give the action of id `name` these keys, in its menu and its tooltip."""
        _show_keys(self.actions[name], next(r for r in self.rows if r.id == name), keys)

    def submenu(self, menu: str, title: str, before: str) -> QMenu:
        """Insert a submenu into a menu, before the row of id `before`."""
        submenu = QMenu(title, self._window)
        self.menus[menu].insertMenu(self.actions[before], submenu)
        return submenu

    def run(self, name: str) -> None:
        """Run the action of id `name`, if it is enabled."""
        row = next(r for r in self.rows if r.id == name)
        if self._is_enabled(row):
            row.run()
        if isValid(self._bar):  # it may have closed the window, and a dialog of it run the events meanwhile
            self.refresh()

    def _is_enabled(self, row: Action) -> bool:
        return self._is_open() if row.needs is None else row.needs()

    def refresh_soon(self) -> None:
        """Refresh after the pending events, once for any number of calls."""
        self._refresh_timer.start()

    def refresh(self) -> None:
        """Update the enabled and checked state and the dynamic titles of all actions."""
        for row in self.rows:
            action = self.actions[row.id]
            enabled = self._is_enabled(row)
            action.setEnabled(enabled)
            if row.checked and enabled:
                action.setChecked(row.checked())
            if row.dynamic_title:
                action.setText(row.dynamic_title())
        self.menus["Model/Report"].setEnabled(self._is_open())

    def add_to_toolbar(self, bar: QToolBar, name: str) -> QAction:
        """Add an action to the toolbar under its short title; its menu shows no icon."""
        row, action = next(r for r in self.rows if r.id == name), self.actions[name]
        action.setIconText(row.tool or row.title)
        action.setIconVisibleInMenu(False)
        bar.addAction(action)
        return action
