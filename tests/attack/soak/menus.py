"""Rows of menus, shortcuts and dialogs, chosen at random."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtGui import QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QDialog,
    QFileDialog,
    QInputDialog,
    QMenu,
    QMessageBox,
    QWidget,
)

from tests.attack.soak.hands import NONE, Button, Hands, Key

BANNED = ("quit", "crash_reports")
SLOW = ("kernels_run", "timed_", "hardware", "emit")  # measure this machine for minutes
DEMOS = ("demo:digits", "demo:digits-mlp", "demo:reviews", "demo:stories")


class MenuHands(Hands):
    """Chooses from menus and answers what is asked."""

    def row(self) -> str:
        """A row of the menus, chosen as it would be by mouse."""
        able = [r.id for r in self.window.actions_table.rows if self.window.actions_table.actions[r.id].isEnabled()]
        name = self.pick([n for n in able if n not in BANNED and (self.drawn.random() < 0.1 or not n.startswith(SLOW))])
        self.note(f"row {name}")
        self.window.actions_table.actions[name].trigger()
        return f"row {name}"

    def shortcut(self) -> str:
        rows = [r for r in self.window.actions_table.rows if r.key and r.id not in BANNED and not r.id.startswith(SLOW)]
        chosen = self.pick(rows)
        self.note(f"key of {chosen.id}")
        self.window.activateWindow()
        QTest.keySequence(self.window, QKeySequence(chosen.key))
        return self.watch.trail[-1]

    def answer_menu(self, menu: QWidget) -> str:
        """Choose a row of a menu, or leave it."""
        rows = [a for a in menu.actions() if a.isEnabled() and not a.isSeparator() and a.objectName() not in BANNED
                ] if isinstance(menu, QMenu) else []  # fmt: skip
        if rows and self.drawn.random() < 0.7 and isinstance(menu, QMenu):
            chosen = self.pick(rows)
            what = self.note(f"menu: {chosen.text()}")
            QTest.mouseClick(menu, Button.LeftButton, NONE, menu.actionGeometry(chosen).center())
            return what
        QTest.keyClick(menu, Key.Key_Escape)
        if menu.isVisible():
            menu.close()
        return "leave a menu"

    def answer(self, dialog: QWidget) -> str:
        """Answer what is asked."""
        what = self.note(f"answer {type(dialog).__name__} {dialog.windowTitle()!r}")
        yes = self.drawn.random() < 0.6
        match dialog:
            case QMessageBox():
                QTest.mouseClick(self.pick(dialog.buttons()), Button.LeftButton)
            case QFileDialog():
                self._choose(dialog) if yes else dialog.reject()
            case QInputDialog():
                dialog.setTextValue(self.pick((*DEMOS, "demo:none", "nothing", f"{self.folder / 'foreign.py'}:make")))
                dialog.accept() if yes else dialog.reject()
            case QDialog():
                self.poke(dialog) if yes else dialog.reject()
            case _:
                dialog.close()
        return what

    def _choose(self, dialog: QFileDialog) -> None:
        """A file of ours: to write, one of a few names; to read, what is there."""
        dialog.setDirectory(str(self.folder))
        if dialog.fileMode() == QFileDialog.FileMode.Directory:
            (self.folder / "exported").mkdir(exist_ok=True)
            dialog.selectFile(str(self.folder / "exported"))
        elif dialog.acceptMode() == QFileDialog.AcceptMode.AcceptSave:
            held = dialog.selectedFiles()
            name = Path(held[0]).name if held and "." in held[0] else self.pick(("a.png", "b.csv", "c.svg"))
            name = (
                f"{self.drawn.randrange(1000)}-{name}"
                if not name.endswith(".espalier")
                else f"{self.pick('abc')}.espalier"
            )
            dialog.setOption(QFileDialog.Option.DontConfirmOverwrite)
            dialog.selectFile(str(self.folder / name))
        else:
            there = [p for p in self.folder.iterdir() if p.is_file()]
            dialog.selectFile(str(self.pick(there)))
        dialog.accept()
        if dialog.isVisible():  # it does not like the name
            dialog.reject()
