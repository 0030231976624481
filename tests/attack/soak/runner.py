"""Soaks, seed by seed, each in a process of its own with settings, state and temporary files of its own.

    python -m tests.attack.soak [--minutes 60] [--actions 5000] [--seeds 20] [--first 0] [-o build/soak.json]
                                [--details build/soak.jsonl]

At first each feature is used once, so that what is imported and made for it does not count as growth. Then, each
minute, the window is brought to rest (no document, no job, no dialog) and what it holds is counted; what grows is
reported as the last count by that of minute 5, or of half the time where that is less. The details of each count
(memory by region and allocator, objects by class, descriptors) are a line of JSON.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from tests.attack.soak.watch import Sample, Watch, ratios

ROOT = Path(__file__).resolve().parents[3]
REFERENCE = 5.0  # minutes
EVERY = 60.0  # seconds between two counts
HUNG = 120  # seconds of one action after which the window is taken for hung
WARMING = 1800  # seconds that using each feature once may take
NESTED = 500  # milliseconds between two looks for a dialog that holds the loop


@dataclass(frozen=True, slots=True)
class Plan:
    """Of one soak. `cold`: without using each feature once before. `details`: the file for a line a count."""

    seed: int
    minutes: float
    actions: int
    every: float = EVERY
    cold: bool = False
    details: Path | None = None

    @property
    def words(self) -> list[str]:
        """As arguments of this program."""
        more = [*(["--cold"] if self.cold else []), *(["--details", str(self.details)] if self.details else [])]
        return [*f"--one {self.seed} --minutes {self.minutes} --actions {self.actions} --every {self.every}".split(),
                *more]  # fmt: skip


def soak(plan: Plan, folder: Path) -> dict[str, Any]:
    """One window under one pair of hands; what was found."""
    from PySide6.QtCore import QSettings, QTimer
    from PySide6.QtWidgets import QApplication, QDialog

    from espalier.app.session.session import Session
    from espalier.app.settings import Settings
    from espalier.app.shell.application import make_application
    from espalier.app.shell.tabs import Tabs
    from espalier.app.shell.window import Window
    from espalier.app.widgets.collector import WindowCollector
    from espalier.app.widgets.style import Appearance
    from tests.attack.soak.first_uses import look_round, use_all
    from tests.attack.soak.hands import settle
    from tests.attack.soak.user import User

    faulthandler.enable()
    application = make_application()
    WindowCollector(application)
    settings = Settings(QSettings(str(folder / "s.ini"), QSettings.Format.IniFormat))
    appearance = Appearance(application, "light")
    watch = Watch(lambda: tabs.windows)
    tabs = Tabs(
        lambda: watch.follow(Window(Session(), settings, appearance)), settings, lambda window: window.plugins.start(())
    )
    tabs.add("")
    tabs.resize(1400, 900)
    tabs.show()
    tabs.current.build_panels()
    files = folder / "files"
    files.mkdir()
    user, inside = User(tabs, watch, Random(plan.seed), files), [0.0]

    def free() -> None:
        """Leave a dialog that runs a loop of its own: no action would follow."""
        modal = QApplication.activeModalWidget()
        if inside[0] and time.monotonic() - inside[0] > 1 and isinstance(modal, QDialog):
            modal.reject()

    def do(act: Callable[[], object]) -> None:
        """An action that may run a loop of its own, or raise."""
        inside[0] = time.monotonic()
        try:
            watch.turn(act)
        except Exception as error:  # noqa: BLE001  # what a slot raises where no event loop is between
            watch._crashed("", error)
        inside[0] = 0.0
        watch.look()

    clock = QTimer(interval=NESTED)
    clock.timeout.connect(free)
    clock.start()
    settle(1)
    user.warm()
    look_round(user) if plan.cold else use_all(user, do)
    user.rest()
    gc.collect()
    gc.freeze()  # as the program itself does once all that stays has been made
    try:
        samples = _minutes(user, watch, inside, plan)
    finally:
        clock.stop()
        user.rest()
        begun = time.monotonic()
        tabs.close()
        settle(0.2)
        closing = time.monotonic() - begun
    reference = min(REFERENCE, plan.minutes / 2)
    return {
        "seed": plan.seed, "minutes": plan.minutes, "actions": watch.action, "problems": watch.problems,
        "ratios": ratios(samples, reference), "longest": watch.longest, "loaded": watch.loaded,
        "closing_s": round(closing, 2), "told": dict(watch.told.most_common(30)),
        "samples": [asdict(s) for s in samples],
    }  # fmt: skip


def _minutes(user: Any, watch: Watch, inside: list[float], plan: Plan) -> list[Sample]:
    """Act at an even pace; the time at rest does not count."""
    from tests.attack.soak.hands import settle

    minutes, actions, every = plan.minutes, plan.actions, plan.every
    samples, begun, rested, due = list[Sample](), time.monotonic(), 0.0, every
    while True:
        spent = time.monotonic() - begun - rested
        if watch.action < actions and spent < 60 * minutes * 1.5:
            faulthandler.dump_traceback_later(HUNG, exit=True)
            inside[0] = time.monotonic()
            user.act()
            inside[0] = 0.0
            settle(max(0.01, 60 * minutes * watch.action / actions - spent))
        ended = watch.action >= actions or spent >= 60 * minutes * 1.5
        if ended or spent >= due:
            at = time.monotonic()
            faulthandler.cancel_dump_traceback_later()
            user.rest()
            user.warm()
            samples.append(watch.sample(spent / 60))
            sys.stderr.write(f"{samples[-1]}\n")
            if plan.details:
                with plan.details.open("a") as file:
                    file.write(json.dumps({"seed": plan.seed, **watch.details(samples[-1])}) + "\n")
            due, rested = spent + every, rested + time.monotonic() - at
        if ended:
            return samples


def apart(plan: Plan) -> dict[str, Any]:
    """The same in a process of its own, which may hang or die."""
    with tempfile.TemporaryDirectory(prefix="soak-") as place:
        folder = Path(place).resolve()
        (folder / "tmp").mkdir()
        environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen", "ESPALIER_STATE": str(folder / "state"),
                       "ESPALIER_CACHE": str(folder / "cache"),
                       "TMPDIR": str(folder / "tmp"), "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}  # fmt: skip
        own = ["-o", str(folder / "found.json"), "--folder", str(folder)]
        words = [sys.executable, "-m", "tests.attack.soak", *plan.words, *own]
        limit = 60 * (1.5 * plan.minutes + 6) + 30 * 60 * plan.minutes / plan.every + (0 if plan.cold else WARMING)
        with (folder / "log").open("wb") as log:
            code: int | str
            try:
                code = subprocess.run(words, cwd=ROOT, env=environment, stderr=log, timeout=limit).returncode
            except subprocess.TimeoutExpired:
                code = "none: it hung"
        if (folder / "found.json").exists():
            return json.loads((folder / "found.json").read_text())
        text = (folder / "log").read_text(errors="replace")[-6000:]
        return {"seed": plan.seed, "problems": [{"kind": "died", "text": f"exit {code}: {text}"}], "ratios": {}}


def report(found: dict[str, Any], tell: Callable[[str], object] = sys.stdout.write) -> None:
    """One soak in a few lines."""
    grown = ", ".join(f"{name} {value:g}" for name, value in found["ratios"].items())
    problems = found["problems"]
    tell(f"seed {found['seed']}: {found.get('actions', 0)} actions, {len(problems)} problems; grown: {grown}\n")
    for problem in problems:
        tell(f"  {problem['kind']} at action {problem.get('action')}: {problem['text'].strip().splitlines()[-1]}\n")


def main(words: list[str] | None = None) -> int:
    """Soak and tell; 1 where anything went wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60, help="of each seed")
    parser.add_argument("--actions", type=int, default=5000, help="of each seed")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--every", type=float, default=EVERY, help="seconds between two counts")
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--details", type=Path, help="a file for a line of JSON a count")
    parser.add_argument("--cold", action="store_true", help="use nothing before the first action")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(words)
    details = given.details.resolve() if given.details else None
    plan = Plan(given.one or 0, given.minutes, given.actions, given.every, given.cold, details)
    if given.one is not None:
        found = soak(plan, given.folder)
        given.output.write_text(json.dumps(found))
        return 0
    every = list[dict[str, Any]]()
    for seed in range(given.first, given.first + given.seeds):
        every.append(apart(replace(plan, seed=seed)))
        report(every[-1])
        sys.stdout.flush()
        if given.output:
            given.output.parent.mkdir(parents=True, exist_ok=True)
            given.output.write_text(json.dumps(every, indent=1))
    return 1 if any(found["problems"] for found in every) else 0
