"""Event-loop tick of the real window while BERT-base is traced and a model is evaluated, against the idle window."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import numpy as np
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication

from tests.benchmarks.record import report


class Ticks:
    """Times between 5-ms timer events: their excess is how long the loop was held."""

    def __init__(self) -> None:
        self.late: list[float] = []
        self._last = time.perf_counter()
        self.timer = QTimer()
        self.timer.setInterval(5)
        self.timer.timeout.connect(self._tick)
        self.timer.start()

    def _tick(self) -> None:
        now = time.perf_counter()
        self.late.append((now - self._last) * 1e3)
        self._last = now

    def take(self) -> dict[str, float]:
        """Figures since the last call, ms."""
        found, self.late = np.array(self.late or [0.0]), []
        return {"p50": round(float(np.median(found)), 2), "p99": round(float(np.quantile(found, 0.99)), 2),
                "max": round(float(found.max()), 1), "ticks": len(found)}  # fmt: skip


def run(application: QApplication, until: Callable[[], bool], seconds: float) -> None:
    """Process events until a condition holds."""
    end = time.monotonic() + seconds
    while not until() and time.monotonic() < end:
        application.processEvents()
        time.sleep(0.0005)


def main() -> None:
    """Idle, then opening BERT-base, then edits while an evaluation runs."""
    from app.application import make_application, make_window
    from app.settings import Settings
    from model.formats.integer import Integer

    application = make_application()
    window = make_window(application, Settings(), "light")
    session = window.session
    window.resize(1600, 1000)
    window.show()
    run(application, lambda: False, 3)
    ticks = Ticks()
    run(application, lambda: False, 3)
    figures = {"idle_ms": ticks.take()}
    session.open("config:bert?task=sequence-classification")
    run(application, lambda: session.document is not None, 120)
    figures["while_tracing_bert_base_ms"] = ticks.take()
    run(application, lambda: False, 2)
    figures["while_drawing_bert_base_ms"] = ticks.take()
    linear = [n.id for n in session.document.graph if n.op == "linear"] if session.document else []
    session.select(linear[:1])
    run(application, lambda: False, 1)
    ticks.take()
    for width in range(2, 12):
        session.set_format(linear[:1], "weight", Integer(width, 4))
        run(application, lambda: False, 0.1)
    figures["while_editing_ms"] = ticks.take()
    session.set_sparsity(linear, 0.5)
    run(application, lambda: not session.jobs, 120)
    figures["while_pruning_all_ms"] = ticks.take()
    report("tick", {**figures, "target_p99_ms": 16, "target_max_ms": 50})
    window.close()
    session.shutdown()


if __name__ == "__main__":
    main()
