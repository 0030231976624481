"""Process start to the window's first paint, BERT-base drawn after it arrives, workspaces brought to the front, panels.

The panels are created in windows in turns: those that the workspace Graph shows, and all, as the window once did.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time

from tests.benchmarks.record import report

ENVIRONMENT = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
START = """
import os, sys, time
from PySide6.QtCore import QEvent, QObject
from espalier.app.shell.application import make_application, make_window
from espalier.app.settings import Settings
app = make_application()
window = make_window(app, Settings(), "light")
class Painted(QObject):
    def eventFilter(self, watched, event):
        if event.type() == QEvent.Type.Paint:
            print(time.time() - float(os.environ["STARTED"]), flush=True)
            os._exit(0)
        return False
watch = Painted()
window.installEventFilter(watch)
window.resize(1600, 1000)
window.show()
app.exec()
"""
DRAW = """
import os, time
from pathlib import Path
from espalier.app.shell.application import make_application, make_window
from espalier.app.settings import Settings
app = make_application()
window = make_window(app, Settings(), "light")
session = window.session
window.resize(1600, 1000)
window.show()
arrived = []
session.opened.connect(lambda: arrived.append(time.perf_counter()))
def spin(seconds, until):
    end = time.monotonic() + seconds
    while not until() and time.monotonic() < end:
        app.processEvents()
spin(5, lambda: False)
session.open("config:bert?task=sequence-classification")
take = session._opened
def timed(*args):
    begun = time.perf_counter()
    take(*args)
    window.repaint()
    app.processEvents()
    print(time.perf_counter() - begun, flush=True)
    os._exit(0)
session._opened = timed
spin(120, lambda: False)
"""

SWITCH = """
import os, statistics, time
from espalier.app.shell.application import make_application, make_window
from espalier.app.shell.workspaces import WORKSPACES
from espalier.app.settings import Settings
app = make_application()
window = make_window(app, Settings(), "light")
window.resize(1600, 1000)
window.show()
def spin(seconds, until):
    end = time.monotonic() + seconds
    while not until() and time.monotonic() < end:
        app.processEvents()
window.session.open("config:bert?task=sequence-classification")
spin(120, lambda: window.session.document is not None and window.canvas.scene is not None)
spin(3, lambda: False)
took = {w.id: [] for w in WORKSPACES}
for number in range(6):
    for w in WORKSPACES[1:] + WORKSPACES[:1]:
        begun = time.process_time()
        window.pages.workbench.show_workspace(w.id)
        app.processEvents()
        if number:  # the first time builds what a panel shows
            took[w.id].append(time.process_time() - begun)
        spin(0.3, lambda: False)
print(1000 * max(statistics.median(values) for values in took.values()), flush=True)
os._exit(0)
"""

# Processor milliseconds of each panel, and of opening a small model with the panels in sight or with all of them.
PANELS = """
import json, os, statistics, time
from PySide6.QtCore import QSettings
from espalier.app.settings import Settings
from espalier.app.session.session import Session
from espalier.app.shell.application import make_application
from espalier.app.shell.window import Window
from espalier.app.widgets.style import Appearance
from espalier.model.document.project import Project
from espalier.model.document.recipe import Recipe
from espalier.model.graph.graph import Graph
from espalier.model.sources.info import SourceInfo
from espalier.passes.jobs.kinds import OpenResult
app = make_application()
appearance = Appearance(app, "light")
project = Project(SourceInfo("demo:none", "None"), Graph({}), Recipe(), Graph({}))
def opened(every):
    window = Window(Session(), Settings(QSettings()), appearance)
    window.resize(1280, 800)
    window.show()
    app.processEvents()
    window.session.open("demo:none")
    begun = time.process_time()
    window.session._opened(OpenResult(project, {}, (), {}), window.session._folders.new(), "demo:none")
    docks, took = window.docks, {}
    first = set(docks.panels)
    for name in docks.docks if every else ():
        at = time.process_time()
        docks.panels[name]
        if name not in first:
            took[name] = 1000 * (time.process_time() - at)
    total = 1000 * (time.process_time() - begun)
    at = time.process_time()
    type(docks.panels["inspector"])(window.session, docks.docks["inspector"])  # a second one: the first is in sight
    took["inspector"] = 1000 * (time.process_time() - at)
    window.close_now()
    for part in (window.session, window):
        part.deleteLater()
    app.processEvents()
    return total, took
opened(True)  # imports
rounds = [(opened(False)[0], *opened(True)) for _ in range(5)]
each = {name: round(statistics.median(r[2][name] for r in rounds), 1) for name in rounds[0][2]}
lazy, every = (statistics.median(r[i] for r in rounds) for i in range(2))
print(json.dumps({"each_panel_milliseconds": each, "open_with_panels_in_sight_milliseconds": round(lazy, 1),
                  "open_with_all_panels_milliseconds": round(every, 1), "ratio": round(lazy / every, 3)}), flush=True)
os._exit(0)
"""


def output(code: str) -> str:
    """The last line that a fresh process prints."""
    environment = {**ENVIRONMENT, "STARTED": str(time.time())}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    return done.stdout.splitlines()[-1]


def run(code: str) -> float:
    """The figure that a fresh process prints."""
    return float(output(code))


def main() -> None:
    """Five starts of each in turn; medians."""
    importing = "import os, time, PySide6.QtWidgets; print(time.time() - float(os.environ['STARTED']))"
    rounds = [(run(START), run(importing)) for _ in range(5)]
    start, reference = (statistics.median(r[i] for r in rounds) for i in range(2))
    report("window", {"first_paint_seconds": round(start, 3), "import_pyside6_seconds": round(reference, 3),
                      "beyond_import": round(start - reference, 3), "target_beyond": 1.0,
                      "bert_base_drawn_seconds": round(statistics.median(run(DRAW) for _ in range(3)), 3),
                      "target_drawn": 0.2, "workspace_milliseconds": round(run(SWITCH), 1),
                      "target_workspace": 50.0, "panels": json.loads(output(PANELS))})  # fmt: skip


if __name__ == "__main__":
    main()
