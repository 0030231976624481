"""A menu of saved selections: choose one, save the present one under a name, remove some."""

from __future__ import annotations

from typing import Protocol

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QInputDialog, QMenu, QWidget

from espalier.app.number_text import counted
from espalier.app.translation import tr


class Selections(Protocol):
    """What the menu offers and does."""

    def offers(self) -> list[tuple[str, int, int]]:
        """(name, nodes that the graph has, nodes in all) of each."""
        ...

    def select(self, name: str) -> None:
        """Select the nodes of one."""
        ...

    def save(self, name: str) -> None:
        """Save the present selection under a name."""
        ...

    def remove(self, name: str) -> None:
        """Remove one."""
        ...


def ask_name(selections: Selections, parent: QWidget) -> None:
    """Ask for a name, and save the present selection under it."""
    dialog = QInputDialog(parent)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.setWindowTitle(tr("Save the selection"))
    dialog.setLabelText(tr("Name of the selection"))
    dialog.textValueSelected.connect(selections.save)
    dialog.open()


def fill_selections(menu: QMenu, selections: Selections, parent: QWidget, *, can_save: bool) -> None:
    """Fill a menu: the saved selections, *Save this selection…*, and those to remove."""
    menu.clear()
    for child in menu.children():  # clearing leaves the submenu of the last time
        if isinstance(child, QMenu):
            child.deleteLater()
    offers = selections.offers()
    for name, there, total in offers:
        action = menu.addAction(f"{_shown(name)} ({there})", lambda n=name: selections.select(n))
        action.setEnabled(there > 0)
        if there < total:
            action.setToolTip(counted(total - there, "%n node of it is not in the graph now",
                                      "%n nodes of it are not in the graph now"))  # fmt: skip
    menu.setToolTipsVisible(True)
    menu.addSeparator()
    menu.addAction(tr("Save this selection…"), lambda: ask_name(selections, parent)).setEnabled(can_save)
    if offers:
        removing = menu.addMenu(tr("Remove"))
        for name, *_ in offers:
            removing.addAction(_shown(name), lambda n=name: selections.remove(n))


def _shown(name: str) -> str:
    return name.replace("&", "&&")
