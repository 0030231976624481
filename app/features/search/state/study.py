"""A search of the document and what has come of it: its trials, the best of them, and where its job stands."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from espalier.model.document.recipe import Recipe
from espalier.passes.jobs.kinds import Done, Failed, JobInfo
from espalier.passes.search.goals import Wanted, best, front, wanted
from espalier.passes.search.record import Record, head_line, line
from espalier.passes.search.space import Space
from espalier.passes.search.spec import SearchSpec
from espalier.passes.search.trial import Trial

FINISHED = ("complete", "pruned", "failed")
ASKED = "as asked"  # why a search ended that was stopped by hand


@dataclass(slots=True)
class Study:
    """A search and what has come of it. `fresh`: numbers that came since they were last told."""

    name: str
    spec: SearchSpec
    recipe: Recipe
    space: Space
    trials: dict[int, Trial] = field(default_factory=dict[int, Trial])
    key: str = field(default_factory=lambda: uuid.uuid4().hex)
    baseline: dict[str, float] = field(default_factory=dict[str, float])
    against: dict[str, Any] = field(default_factory=dict[str, Any])  # the baseline's name, and its accuracy's samples
    best: frozenset[int] = frozenset()
    job: JobInfo | None = None
    error: str = ""
    why: str = ""  # why it ended by itself, where not all trials have run
    gives_way: bool = False
    held: bool = False  # it is to wait until it is told to go on
    ending: bool = False  # it was asked to end after this trial
    went_on: int | None = None  # the trial after which it went on, of a study that was begun before
    by_hand: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])  # trials that wait to be offered
    lines: dict[int, str] = field(default_factory=dict[int, str])  # of trials that came since `data` was last asked for
    written: bytearray = field(default_factory=bytearray)  # the lines of trials that have ended
    headed: tuple[Record | None, bytes] = (None, b"")
    fresh: set[int] = field(default_factory=set[int])
    coming: dict[int, Trial] = field(default_factory=dict[int, Trial])  # out of the storage, taken in a few at a time

    @property
    def running(self) -> bool:
        """Whether it goes on by itself, or once it is told to."""
        return self.job is not None

    @property
    def paused(self) -> bool:
        """Whether it waits to be told to go on, or does after the trial at hand, so that others can run."""
        return self.job is not None and (self.job.state == "paused" or (self.held and self.gives_way))

    @property
    def done(self) -> int:
        """How many trials have ended; for one that was lost, is a duplicate or misses a limit another is run."""
        return sum(t.ended for t in self.trials.values())

    @property
    def other(self) -> bool:
        """Whether its trials are models of their own, which no recipe leads to."""
        return any(c.kind == "config" for c in self.space.choices)

    @property
    def want(self) -> Wanted:
        """Its goals, with which way is better."""
        return wanted(self.spec)

    @property
    def leader(self) -> Trial | None:
        """The best so far; of several goals the one of the front that is best in the first."""
        return best((self.trials[n] for n in self.best), self.want)

    def take(self, trial: Trial) -> None:
        """Take a trial in, or what became of one; the worker does not know its note."""
        held = self.trials.get(trial.number)
        self._put(trial if held is None or held.note == trial.note else replace(trial, note=held.note))

    def annotate(self, number: int, note: str) -> Trial:
        """Replace the note of a trial; returns the trial."""
        self._put(replace(self.trials[number], note=note))
        return self.trials[number]

    def _put(self, trial: Trial) -> None:
        self.coming.pop(trial.number, None)  # older news of it
        self.trials[trial.number] = trial
        self.lines[trial.number] = line(trial)
        self.fresh.add(trial.number)

    def take_some(self, most: int | None = None) -> list[Trial]:
        """Take in what comes, and give what is to be told, of many only the first: no turn has to bear them all."""
        self._take_in(list(self.coming.values())[:most])
        told = sorted(self.fresh)[:most]
        self.fresh.difference_update(told)
        return [self.trials[n] for n in told]

    def _take_in(self, trials: Iterable[Trial]) -> None:
        for trial in trials:
            self.take(trial)

    def judge(self, news: Iterable[Trial]) -> None:
        """Take these into the front; what they surpass leaves it."""
        fresh = [t for t in news if t.feasible]
        if fresh:
            held = [self.trials[n] for n in self.best]
            self.best = frozenset(t.number for t in front((*held, *fresh), self.want))

    def data(self) -> bytes:
        """What the project keeps of it. Each line is made once: with thousands of trials this is asked for often."""
        self._take_in(list(self.coming.values()))
        ended = [n for n in self.lines if self.trials[n].state in FINISHED]
        self.written += "".join(f"{self.lines.pop(n)}\n" for n in ended).encode()
        running = "".join(f"{text}\n" for text in self.lines.values()).encode()
        return b"".join([self._head(), self.written, running])

    def _head(self) -> bytes:
        """The first line of its record."""
        record, (held, head) = Record(self.spec, self.recipe, self.space, (), self.key, self.baseline,
                                      self.against), self.headed  # fmt: skip
        parts = ("spec", "recipe", "space", "key", "baseline", "against")
        if held is None or any(getattr(held, p) is not getattr(record, p) for p in parts):
            head = f"{head_line(record)}\n".encode()
            self.headed = record, head
        return head

    def goes_on(self, result: Any) -> bool:
        """A part of its job has ended with `result`: whether something is left."""
        self._take_in(list(self.coming.values()))
        return not self.ending and result == ASKED

    def end(self, event: Any) -> None:
        """Its job has ended: the trials that ran are cut off."""
        self.job, self.held = None, False
        self._take_in(list(self.coming.values()))
        self.why = event.result if isinstance(event, Done) and isinstance(event.result, str) else ""
        self.error = f"{event.message} {event.hint}".strip() if isinstance(event, Failed) else ""
        for trial in list(self.trials.values()):
            if trial.state == "running":
                self.take(cut_off(trial))


def cut_off(trial: Trial) -> Trial:
    """A trial that ran when its search ended."""
    return replace(trial, state="failed", error="It was cut off.", lost=True)
