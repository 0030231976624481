"""A window that works by itself until it is killed: edits, saves and jobs at random, each told as a line of JSON.

It recovers what a killed window before it left, or opens the project, or the demo where there is none yet.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import xxhash
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication

from espalier.app.session.edit_journal import EditJournal
from espalier.app.session.recovery import unsaved_projects
from espalier.app.shell.application import make_application, open_window
from espalier.app.shell.tabs import Tabs
from espalier.model.document.project import recipe_to_json
from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import EspalierError
from espalier.model.formats.integer import Integer
from espalier.passes.jobs.kinds import TERMINAL, Done, Failed, JobEvent, PartialResult, SaveJob
from espalier.passes.search.spec_file import load_search
from espalier.passes.search.trial import Trial
from espalier.passes.transform.finetune import FinetuneOptions

SOURCE, PROJECT = "demo:digits-mlp", "p.espalier"
STEPS = 6  # of a recipe: more are taken back
ENDED = ("complete", "pruned", "failed")
TRAINING = FinetuneOptions(data="demo:digits", max_steps=300, train_limit=256, validation_limit=64, checkpoint_every=20)
SPEC = """
goals = ["accuracy", "weight_bits"]
sampler = "random"
trials = 1000
[[space]]
per = "module"
values = "integer(width=2|3|4|5|6|7|8)"
[score]
data = "demo:digits"
limit = 100
"""


def mark(recipe: Recipe) -> str:
    """By what a recipe is known again."""
    return xxhash.xxh3_64_hexdigest(json.dumps(recipe_to_json(recipe), sort_keys=True).encode())


def drive(folder: Path, seed: int) -> int:
    """Work in the window until somebody ends it."""
    make_application()
    driver = Driver(folder, seed)
    QTimer.singleShot(0, driver.begin)
    return open_window(None)


class Driver:
    """Does what a person does, a step at a turn of the event loop."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.drawn = folder, random.Random(seed)
        self.job = self.drawn.choice(("none", "none", "evaluation", "training", "search"))
        self._log = os.open(folder / "told", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._state: Any = None
        self._saved = False
        self._plot = self._story()
        self._clock = QTimer(singleShot=True)
        self._clock.timeout.connect(self._go)

    def tell(self, what: str, **more: Any) -> None:
        """One line, which stays whatever becomes of this process."""
        os.write(self._log, json.dumps({"what": what, "at": time.time(), **more}).encode() + b"\n")

    def begin(self) -> None:
        """Take hold of the window."""
        self.window = next(w.current for w in QApplication.topLevelWidgets() if isinstance(w, Tabs))
        self.session = self.window.session
        self._announce_journal()
        for signal in (self.session.changed, self.session.pending_changed, self.session.saved):
            signal.connect(self._look)
        self.session.job_event.connect(self._heard)
        self.session.problem.connect(lambda error: self.tell("problem", text=f"{error.message} {error.hint}"))
        self._clock.start(0)

    def _announce_journal(self) -> None:
        """Tell each state before the journal has it: a kill between the two would find a recipe that nobody told."""
        kind: Any = EditJournal
        write = EditJournal.edit

        def announced(journal: EditJournal, label: str, recipe: Recipe, *more: Any) -> None:
            self.tell("journalled", recipe=mark(recipe))
            write(journal, label, recipe, *more)

        kind.edit = announced

    def _go(self) -> None:
        try:
            self._clock.start(next(self._plot))
        except EspalierError as error:  # what cannot be done is told in the window too
            self.tell("refused", text=error.message)
            self.job = "none"
            self._plot = self._life()
            self._clock.start(0)

    # -- what is told

    def _look(self, *_: object) -> None:
        """Tell where it stands, where that is another."""
        if (document := self.session.document) is None:
            return
        state = mark(self.session.recipe), bool(document.dirty or self.session.pending_edits)
        if state != self._state:
            self._state = state
            self.tell("state", recipe=state[0], dirty=state[1])

    def _heard(self, heard: JobEvent) -> None:
        job, event = heard.job.job, heard.event
        trial = event.part if isinstance(event, PartialResult) else None
        if isinstance(trial, Trial) and trial.state in ENDED and not trial.lost:
            title, number = heard.job.title, trial.number
            QTimer.singleShot(0, lambda: self.tell("trial", study=title, number=number))
        if isinstance(job, SaveJob) and isinstance(event, TERMINAL):
            if isinstance(event, Done) and not job.copy:
                self._saved = True
                self.tell("saved", recipe=mark(job.project.recipe))
            elif isinstance(event, Failed):
                self.tell("save failed", text=event.message, copy=job.copy)

    def _studies(self) -> dict[str, list[int]]:
        studies = self._searches().studies.values()
        return {f"Search {s.name}": sorted(n for n, t in s.trials.items() if t.state in ENDED and not t.lost)
                for s in studies}  # fmt: skip

    def _searches(self) -> Any:
        return self.window.docks.panels["search"].searches

    def _kept(self) -> list[str]:
        """What is kept for recovery, by name; not the copy that it reads since it was recovered."""
        return sorted(p.name for p in (self.folder / "state" / "recovery").iterdir() if ".read." not in p.name)

    # -- what is done

    def _story(self) -> Iterator[int]:
        yield from self._arrive()
        yield from self._life()

    def _arrive(self) -> Iterator[int]:
        left, project = unsaved_projects(), self.folder / PROJECT
        while left and self.drawn.random() < 0.15:
            self.tell("discarding")
            for each in left:
                self.window.pages.welcome.discard_wanted.emit(each)
            left = []
            self.tell("discarded", left=self._kept())
        if left:
            self.tell("recovering", recipe=mark(left[0].edits.recipe), waiting=left[0].edits.waiting)
            self.window.pages.welcome.recover_wanted.emit(left[0])
        else:
            self.window.begin_opening(str(project) if project.exists() else SOURCE)
        while self.session.document is None:
            yield 20
        self.window.live.enabled = self.drawn.random() < 0.5
        self._look()
        self.tell("opened", recipe=mark(self.session.recipe), studies=self._studies())
        while any(t.name in ("espalier-clean-up", "espalier-parts") for t in threading.enumerate()):
            yield 20
        kept = self.folder / "state" / "recovery"
        there = [*Path(tempfile.gettempdir()).iterdir(), *self.folder.glob(".espalier-*"), *kept.glob(".espalier-*"),
                 *(p.with_name(p.name.partition(".")[0]) for p in kept.glob("[!.]*"))]  # fmt: skip
        self.tell("tidied", there=[str(p) for p in there])
        while self.session.pending_edits:
            yield 20
        document: Any = self.session.document
        self.tell("settled", recipe=mark(document.recipe))

    def _life(self) -> Iterator[int]:
        if self.job == "search":
            self._search()
        while True:
            if self.job == "evaluation" and not self.session.jobs:
                self.session.evaluate()
            self.drawn.choices((self._edit, self._burst, self._save), (12, 2, 2))[0]()
            yield self.drawn.choice((0, 30, 100, 300, 700))
            yield from self._check_clean()

    def _search(self) -> None:
        searches, spec = self._searches(), self.folder / "search.toml"
        if searches.studies:
            searches.go_on(next(iter(searches.studies.values())), more=1000)
        else:
            spec.write_text(SPEC)
            searches.start(load_search(spec)[1], Recipe())

    def _check_clean(self) -> Iterator[int]:
        """After a save that left nothing unsaved, nothing is kept for recovery."""
        if self._saved and self._state and not self._state[1]:
            for _ in range(20):
                yield 20
                document: Any = self.session.document
                if document.dirty or self.session.pending_edits:
                    break
            else:
                self.tell("clean", left=self._kept())
        self._saved = False

    def _save(self) -> None:
        document: Any = self.session.document
        self.tell("saving", recipe=mark(document.recipe))
        if document.path is None:
            assert self.window.ownership.may_write(
                self.folder / PROJECT
            )  # as the menu asks: its note says where to tidy
            self.session.save_as(self.folder / PROJECT)
        else:
            self.session.save()

    def _burst(self) -> None:
        for _ in range(self.drawn.randint(3, 12)):
            self._edit()

    def _edit(self) -> None:
        steps = self.session.recipe.steps
        trains = any(s.pass_name == "finetune" for s in steps)
        choices: list[Callable[[], object]] = [self._format, self._format, self._format, self._prune]
        choices += [self.session.undo, self.session.redo, lambda: self.session.undo()]
        if len(steps) > 1:
            pick = self.drawn.randrange(len(steps))
            choices += [lambda: self.session.move_step(pick, self.drawn.randrange(len(steps)))]
            choices += [lambda: self.session.enable_step(pick, not steps[pick].enabled)]
            choices += [lambda: self.session.remove_step(pick)] * (1 + 9 * (len(steps) > STEPS))
        if self.job == "training" and not trains:
            choices += [lambda: self.session.set_recipe(self.session.recipe.append(Step("finetune", TRAINING)),
                                                        "Fine-tune")] * 3  # fmt: skip
        self.drawn.choice(choices)()

    def _nodes(self) -> list[str]:
        document: Any = self.session.document
        return [n.id for n in document.graph if n.op == "linear"]

    def _format(self) -> None:
        width = self.drawn.randint(2, 12)
        chosen = Integer(width, self.drawn.randint(0, width))
        self.session.set_format((self.drawn.choice(self._nodes()),), self.drawn.choice(("weight", "data_in")), chosen)

    def _prune(self) -> None:
        self.session.set_sparsity((self.drawn.choice(self._nodes()),), round(self.drawn.uniform(0, 0.9), 2))


if __name__ == "__main__":
    sys.exit(drive(Path(sys.argv[1]), int(sys.argv[2])))
