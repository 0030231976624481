"""Open a model that was seen before: `report` on the command line and facts in the window, cold and warm, in turns.

Cold: nothing captured before; warm: the same again. Processor time of the whole process, torch told where it came in.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

from tests.benchmarks.record import report

MODELS = {"reviews": "demo:reviews", "bert_base": "config:bert?task=sequence-classification"}
ROUNDS = 3
COMMAND = """
import sys
from espalier.app.cli import process
code = process()
print("torch" in sys.modules, file=sys.stderr)
sys.exit(code)
"""
# The worker's and the window's processor time until the facts of the model are on the canvas.
WINDOW = """
import os, sys, time
from espalier.app.shell.application import make_application, make_window
from espalier.app.settings import Settings
app = make_application()
window = make_window(app, Settings(), "light")
window.resize(1600, 1000)
window.show()
window.build_panels()
until = time.monotonic() + 3  # the worker has started
while time.monotonic() < until:
    app.processEvents()
ours = time.process_time()
clock = time.perf_counter()
arrived = []
window.session.opened.connect(lambda: arrived.append(1))
window.session.open(sys.argv[1])
while not arrived:
    app.processEvents()
window.repaint()
app.processEvents()
print(time.process_time() - ours, time.perf_counter() - clock, flush=True)
os._exit(0)
"""


def command(spec: str, folder: str) -> dict[str, Any]:
    """Processor seconds of `report`, and whether torch was imported."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", COMMAND, "report", spec, "--json"], env=_environment(folder),
                          capture_output=True, text=True, check=True)  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"processor": spent, "clock": time.perf_counter() - begun, "torch": done.stderr.split()[-1] == "True"}


def window(spec: str, folder: str) -> dict[str, Any]:
    """Seconds from the wish to open until the model is drawn, with a worker that runs."""
    done = subprocess.run([sys.executable, "-c", WINDOW, spec], env=_environment(folder), capture_output=True,
                          text=True, check=True)  # fmt: skip
    processor, clock = map(float, done.stdout.split()[-2:])
    return {"processor": processor, "clock": clock}


def _environment(folder: str) -> dict[str, str]:
    return {**os.environ, "QT_QPA_PLATFORM": "offscreen", "ESPALIER_CACHE": folder, "ESPALIER_STATE": folder}


def measured(spec: str) -> dict[str, Any]:
    """Medians of cold and warm, in turns."""
    found: dict[str, list[float]] = {}
    imports: set[bool] = set()
    for _ in range(ROUNDS):
        for what, act in (("report", command), ("window", window)):
            with tempfile.TemporaryDirectory() as folder:
                for state in ("cold", "warm"):
                    told = act(spec, folder)
                    for kind in ("processor", "clock"):
                        found.setdefault(f"{what}_{state}_{kind}_seconds", []).append(told[kind])
                    if state == "warm" and "torch" in told:
                        imports.add(told["torch"])
    figures = {name: round(statistics.median(values), 3) for name, values in found.items()}
    return {**figures, "report_warm_imports_torch": any(imports)}


if __name__ == "__main__":
    report("opening", {name: measured(spec) for name, spec in MODELS.items()})
