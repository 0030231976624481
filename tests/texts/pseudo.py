"""The window in a language in which every text that is looked up is bracketed; a process of its own, see `main`."""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QSettings, QThreadPool
from PySide6.QtWidgets import QApplication, QDialog, QMenu, QTabBar, QWidget

from espalier.app import translation
from tests.texts.walk import Shown, shown

OPEN, CLOSE = "⟦", "⟧"


def bracketed(text: str) -> str:
    """The text in the pseudo language: brackets around all of it but the places of its values."""
    parts = re.split(r"(\{[^{}]*(?:\{\d*\}[^{}]*)*\}|%n)", text) if translation.places(text) else [text]
    return "".join(
        f"{OPEN}{p}{CLOSE}" if any(c.isalpha() for c in p) and i % 2 == 0 else p for i, p in enumerate(parts)
    )


def settle(milliseconds: int = 150) -> None:
    """Run the events for a while."""
    end = time.monotonic() + milliseconds / 1000
    while time.monotonic() < end:
        QApplication.processEvents()
        time.sleep(0.005)


def main(spec: str) -> int:
    """Open `spec`, visit all places, and print what was looked up and {place: [[text, part, widget], …]} as JSON."""
    asked: set[str] = set()

    def lookup(text: str, number: int) -> str:
        asked.add(text)
        return bracketed(text)

    translation.install(lookup)
    from espalier.app.settings import Settings
    from espalier.app.shell.application import make_application, make_window

    app = make_application()
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(QSettings(f"{folder}/settings.ini", QSettings.Format.IniFormat))
        window = make_window(app, settings, "light")
        window.resize(1440, 900)
        window.show()
        found: dict[str, set[Shown]] = {}

        def look(place: str, root: QWidget | None = None) -> None:
            settle()
            found.setdefault(place, set()).update(shown(root or window))

        try:
            visit(window, spec, look)
        finally:
            window.close_now()
            QThreadPool.globalInstance().waitForDone(5000)
    result = {"asked": sorted(asked), "shown": {p: sorted(map(list, t)) for p, t in found.items()}}
    print("RESULT" + json.dumps(result))
    return 0


def visit(window: object, spec: str, look: Callable[..., None]) -> None:
    """Go through the start page, all workspaces and panels, and the dialogs."""
    from espalier.app.shell.docks import DOCKS
    from espalier.app.shell.window import Window
    from espalier.app.shell.workspaces import WORKSPACES

    assert isinstance(window, Window)
    look("start")
    window.begin_opening(spec)
    end = time.monotonic() + 120
    while (window.session.document is None or window.session.jobs or window.live.waiting) and time.monotonic() < end:
        settle()
    assert window.session.document is not None
    for menu in window.findChildren(QMenu):
        menu.aboutToShow.emit()
    layer = next(n.id for n in window.session.document.graph if n.op == "linear")
    for workspace in WORKSPACES:
        window.pages.workbench.bar.buttons[workspace.id].click()
        look(f"workspace {workspace.id}")
    for dock in DOCKS:
        window.docks.bring(dock.id)
        look(f"panel {dock.id}")
        for bar in window.docks.panels[dock.id].findChildren(QTabBar):
            for at in range(bar.count()):
                bar.setCurrentIndex(at)
                look(f"panel {dock.id} {at}")
    window.session.select((layer,))
    window.docks.bring("inspector")
    look("a layer")
    for name in ("shortcuts", "plugins", "about", "history", "tour"):
        window.actions_table.run(name)
        settle()
        for dialog in window.findChildren(QDialog):
            look(f"dialog {name}", dialog)
            dialog.close()
    for name in ("quantise", "prune", "evaluate"):
        window.actions_table.run(name)
        look(f"form {name}")
    look("end")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "roots"))
    sys.exit(main(sys.argv[1]))
