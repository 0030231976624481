"""Ctrl+S in the real window while an evaluation and while a training run: seconds until saved, and what it holds up.

The demo, and BERT-base with all of its weights in the project. Beside each save the same number of bytes is written
plainly, with fsync: what the disk takes by itself at that moment. `held_ms` is the window's longest turn of its loop
from the key to `saved`, by the clock and in its own processor time.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from tests.benchmarks.edit import run
from tests.benchmarks.record import report

if TYPE_CHECKING:
    from PySide6.QtWidgets import QApplication

    from espalier.app.shell.window import Window

SAVES = 5
MODELS = {"demo": ("demo:digits-mlp", "demo:digits"), "bert_base": ("config:bert?task=sequence-classification",
                                                                    "demo:reviews")}  # fmt: skip
QUEUED = 30  # evaluations
LONG = 10**6  # steps of a training that outlasts the measurement


def _work(window: Window, kind: str, data: str) -> None:
    """Keep the worker busy."""
    from espalier.model.document.recipe import Step
    from espalier.passes.running.splits import EvaluateOptions
    from espalier.passes.transform.finetune import FinetuneOptions

    session = window.session
    if kind == "training":
        tune = Step("finetune", FinetuneOptions(data=data, max_steps=LONG, batch_size=8, validate=False))
        session.set_recipe(session.recipe.append(tune), "Fine-tune")
    while kind == "evaluation" and len(session.jobs) < QUEUED:  # one after another, where each is short
        session.evaluate(EvaluateOptions(data=data, batch_size=1))


def plain(path: Path, data: bytes) -> float:
    """Seconds to write it beside an old file, with fsync, and to put it in its place."""
    begun = time.perf_counter()
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)
    return time.perf_counter() - begun


def save(application: QApplication, window: Window) -> tuple[float, float, float]:
    """Press Ctrl+S: seconds until saved, and ms of the longest turn until then, clock and processor."""
    saved: list[float] = []
    connection = window.session.saved.connect(lambda: saved.append(time.perf_counter()))
    begun, busy = time.perf_counter(), time.thread_time()
    window.actions_table.run("save")
    turns = [(time.perf_counter() - begun, time.thread_time() - busy)]
    while not saved:
        start, busy = time.perf_counter(), time.thread_time()
        application.processEvents()
        turns.append((time.perf_counter() - start, time.thread_time() - busy))
        time.sleep(0.0005)
    window.session.saved.disconnect(connection)
    clock, own = (1e3 * max(t[i] for t in turns) for i in range(2))
    return saved[0] - begun, clock, own


def beside(application: QApplication, window: Window, kind: str, data: str, folder: Path) -> dict[str, Any]:
    """Saves while a job of this kind runs."""
    from espalier.passes.jobs.kinds import SaveJob

    session, rounds = window.session, list[tuple[float, float, float, float]]()
    path = session.open_document.path
    assert path is not None
    content = os.urandom(path.stat().st_size)
    for _ in range(SAVES):
        _work(window, kind, data) if kind == "evaluation" or not session.pending_edits else None
        run(application, lambda: any(j.state == "running" for j in session.jobs), 120)
        run(application, lambda: False, 1)
        reference = plain(folder / "plain", content)
        _edit(window) if kind == "evaluation" else None
        rounds.append((*save(application, window), reference))
        assert any(not isinstance(j.job, SaveJob) for j in session.jobs), "nothing ran beside the save"
    for job in list(session.jobs):
        session.cancel(job.id)
    run(application, lambda: not session.jobs, 120)
    seconds, clock, own, reference = (list(each) for each in zip(*rounds, strict=True))
    beyond = [s - r for s, r in zip(seconds, reference, strict=True)]
    return {"seconds": _median(seconds), "worst_seconds": round(max(seconds), 3), "plain_seconds": _median(reference),
            "beyond_plain_seconds": _median(beyond), "bytes": len(content),
            "held_ms": {"clock": round(max(clock), 1), "own": round(max(own), 1)}}  # fmt: skip


def _median(found: list[float]) -> float:
    return round(statistics.median(found), 3)


def _edit(window: Window) -> None:
    """Something to save, in a moment."""
    from espalier.model.formats.integer import Integer

    layer = next(n.id for n in window.session.open_document.graph if n.op == "linear")
    window.session.set_format((layer,), "weight", Integer(4 + time.perf_counter_ns() % 8, 4))


def main() -> None:
    """Both models, each beside both kinds of job."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        os.environ["ESPALIER_STATE"] = str(folder / "state")  # copies for recovery go here, as they do at work
        from PySide6.QtCore import QSettings

        from espalier.app.settings import Settings
        from espalier.app.shell.application import make_application, make_window

        application = make_application()
        settings = Settings(QSettings(str(folder / "settings.ini"), QSettings.Format.IniFormat))
        window = make_window(application, settings, "light")
        window.live.enabled = False
        window.show()
        session, figures = window.session, dict[str, Any]()
        session.problem.connect(lambda error: sys.stderr.write(f"{error}\n"))
        for name, (source, data) in MODELS.items():
            known = session.document
            session.open(source)
            run(application, lambda known=known: session.document is not known and not session.jobs, 300)
            session.save_as(folder / f"{name}.espalier")
            run(application, lambda: not session.jobs, 120)
            figures[name] = {k: beside(application, window, k, data, folder) for k in ("evaluation", "training")}
        report("saving", {**figures, "saves": SAVES, "load": round(os.getloadavg()[0], 1)})
        window.close_now()


if __name__ == "__main__":
    main()
