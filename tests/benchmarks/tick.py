"""Event-loop tick of the real window: idle, while BERT-base is traced and edited, while a search and a training run.

On a machine that others load, ticks are late by themselves: `held_ms` is this thread's own time in a turn of the loop.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import numpy as np
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication

from espalier.app.features.search.panel import SearchPanel
from espalier.app.shell.window import Window
from espalier.model.document.recipe import Step
from espalier.passes.training.options import FinetuneOptions
from tests.benchmarks.record import report

IDLE = 0.05  # ms of a turn in which nothing happened
SECONDS = 30
MODEL, DATA = "demo:digits-mlp", "demo:digits"
LONG = 10**6  # steps of a training that outlasts the measurement


class Ticks:
    """Times between 5-ms timer events: their excess is how long the loop was held."""

    def __init__(self) -> None:
        self.late: list[float] = []
        self.held: list[float] = []
        self._last = time.perf_counter()
        self.timer = QTimer()
        self.timer.setInterval(5)
        self.timer.timeout.connect(self._tick)
        self.timer.start()

    def _tick(self) -> None:
        now = time.perf_counter()
        self.late.append((now - self._last) * 1e3)
        self._last = now

    def turn(self, application: QApplication) -> None:
        """One turn of the loop."""
        begun = time.thread_time()
        application.processEvents()
        self.held.append(1e3 * (time.thread_time() - begun))

    def take(self) -> dict[str, Any]:
        """Figures since the last call, ms; turns in which nothing happened do not count."""
        late, held = np.array(self.late or [0.0]), np.array([h for h in self.held if h > IDLE] or [0.0])
        self.late, self.held = [], []
        return {**_told(late), "ticks": len(late), "held_ms": _told(held), "turns": len(held)}


def _told(found: np.ndarray) -> dict[str, float]:
    return {"p50": round(float(np.median(found)), 2), "p99": round(float(np.quantile(found, 0.99)), 2),
            "max": round(float(found.max()), 1)}  # fmt: skip


def run(application: QApplication, ticks: Ticks, until: Callable[[], bool], seconds: float) -> None:
    """Process events until a condition holds."""
    end = time.monotonic() + seconds
    while not until() and time.monotonic() < end:
        ticks.turn(application)
        time.sleep(0.0005)


def searching(application: QApplication, window: Window, ticks: Ticks, folder: Path) -> dict[str, Any]:
    """A search in the window on four charts beside a training of another process; then BERT-base beside that."""
    session = window.session
    session.open(MODEL)
    run(application, ticks, lambda: session.document is not None and not session.jobs, 120)
    window.actions_table.run("search_mixed-precision")
    panel = window.docks.panels["search"]
    assert isinstance(panel, SearchPanel)
    panel.setup.how.editor("trials").put(5000)
    panel.board.lay_out(4)
    run(application, ticks, lambda: False, 1)
    recipe = folder / "training.json"
    recipe.write_text(json.dumps({"finetune": {"data": DATA, "max_steps": LONG, "validate": False}}))
    with beside("run", MODEL, str(recipe)) as training:
        panel.setup.run()
        study = panel.study
        assert study is not None
        run(application, ticks, lambda: len(study.trials) >= 5, 120)
        ticks.take()
        run(application, ticks, lambda: not study.running, SECONDS)
        found: dict[str, Any] = {"search_beside_training": {**ticks.take(), "trials": len(study.trials)}}
        panel.act("stop")
        run(application, ticks, lambda: not session.jobs, 60)
        ticks.take()
        known = session.document
        session.open("config:bert?task=sequence-classification")
        run(application, ticks, lambda: session.document is not known, 240)
        found["training_and_tracing_bert_base"] = ticks.take()
        assert training.poll() is None, "nothing ran beside the window"
    return found


def training(application: QApplication, window: Window, ticks: Ticks, folder: Path) -> dict[str, Any]:
    """A training in the window, with its curves, beside a search of another process."""
    session, known = window.session, window.session.document
    session.open(MODEL)
    run(application, ticks, lambda: session.document is not known and not session.jobs, 120)
    window.docks.bring("training")
    tune = FinetuneOptions(data=DATA, max_steps=LONG, evaluate_every=20)
    with beside(
        "search", MODEL, "compression-aware", "--trials", "100", "--storage", f"journal:{folder / 's'}"
    ) as search:
        session.set_recipe(session.recipe.append(Step("finetune", tune)), "Fine-tune")
        run(application, ticks, lambda: any(j.state == "running" for j in session.jobs), 60)
        run(application, ticks, lambda: False, 10)
        ticks.take()
        run(application, ticks, lambda: False, SECONDS)
        found = {"training_beside_search": ticks.take()}
        assert session.jobs and search.poll() is None, "nothing ran beside the window"
    for job in list(session.jobs):
        session.cancel(job.id)
    run(application, ticks, lambda: not session.jobs, 60)
    return found


@contextmanager
def beside(*command: str) -> Generator[subprocess.Popen[bytes]]:
    """Another process of the program, ended at the end."""
    process = subprocess.Popen([sys.executable, "main.py", *command], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    """Idle, then opening BERT-base, then edits while an evaluation runs, then searches."""
    from espalier.app.settings import Settings
    from espalier.app.shell.application import freeze_objects, make_application, make_window
    from espalier.model.formats.integer import Integer

    application = make_application()
    window = make_window(application, Settings(), "light")
    session = window.session
    window.resize(1600, 1000)
    window.show()
    ticks = Ticks()
    run(application, ticks, lambda: window.panels_built, 120)
    figures: dict[str, Any] = {"while_furnishing_ms": ticks.take()}
    freeze_objects()
    run(application, ticks, lambda: False, 3)
    figures["idle_ms"] = ticks.take()
    session.open("config:bert?task=sequence-classification")
    run(application, ticks, lambda: session.document is not None, 120)
    figures["while_tracing_bert_base_ms"] = ticks.take()
    run(application, ticks, lambda: False, 2)
    figures["while_drawing_bert_base_ms"] = ticks.take()
    linear = [n.id for n in session.document.graph if n.op == "linear"] if session.document else []
    session.select(linear[:1])
    run(application, ticks, lambda: False, 1)
    ticks.take()
    for width in range(2, 12):
        session.set_format(linear[:1], "weight", Integer(width, 4))
        run(application, ticks, lambda: False, 0.1)
    figures["while_editing_ms"] = ticks.take()
    session.set_sparsity(linear, 0.5)
    run(application, ticks, lambda: not session.jobs, 120)
    figures["while_pruning_all_ms"] = ticks.take()
    session.close()
    with tempfile.TemporaryDirectory() as folder:
        figures |= searching(application, window, ticks, Path(folder))
        figures |= training(application, window, ticks, Path(folder))
    report("tick", {**figures, "load": round(os.getloadavg()[0], 1), "target_p99_ms": 16, "target_max_ms": 50})
    window.close()
    session.shutdown()


if __name__ == "__main__":
    main()
