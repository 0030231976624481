"""A window of its own process that searches until it is killed: `searching_window.py PROJECT`.

It runs a few trials, saves them with the project, says so, and goes on.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from PySide6.QtCore import QSettings, QTimer
from PySide6.QtWidgets import QApplication

from espalier.app.settings import Settings
from espalier.app.shell.application import make_application, make_window

SAVED, MANY = 3, 5000


def main(path: Path) -> int:
    """Until somebody ends it."""
    app: QApplication = make_application()
    window = make_window(app, Settings(QSettings(str(path.parent / "own.ini"), QSettings.Format.IniFormat)), "light")
    window.live.enabled = False
    window.show()
    window.session.open("demo:digits-mlp")
    panel: Any = None

    def step() -> None:
        nonlocal panel
        session = window.session
        if session.document is None or (panel is None and session.jobs):
            return
        if panel is None:
            window.actions_table.run("search_mixed-precision")
            panel = window.docks.panels["search"]
            panel.setup.how.editor("trials").put(SAVED)
            panel.setup.goals.limits[0].number.put("8")
            panel.setup.run()
        elif panel.study and not session.jobs and session.document.path is None:
            session.save_as(path)
        elif session.document.path is not None and not session.jobs and not panel.study.running:
            sys.stdout.write("saved\n")
            sys.stdout.flush()
            panel.searches.go_on(panel.study, more=MANY)

    timer = QTimer(interval=50)
    timer.timeout.connect(step)
    timer.start()
    return app.exec()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
