"""A search of the document with its trials, the best of them, and the state of its job."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from espalier.app.translation import message
from espalier.model.document.recipe import Recipe
from espalier.passes.jobs.kinds import Done, Failed, JobInfo
from espalier.passes.search.goals import Wanted, best, front, wanted
from espalier.passes.search.record import Record, head_line, line
from espalier.passes.search.space import Space
from espalier.passes.search.spec import SearchSpec
from espalier.passes.search.trial import Trial

FINISHED = ("complete", "pruned", "failed")
ASKED = "as asked"  # end reason of a search stopped by the user


@dataclass(slots=True)
class Study:
    """A search and its trials. `fresh`: numbers of trials not yet emitted."""

    name: str
    spec: SearchSpec
    recipe: Recipe
    space: Space
    trials: dict[int, Trial] = field(default_factory=dict[int, Trial])
    key: str = field(default_factory=lambda: uuid.uuid4().hex)
    baseline: dict[str, float] = field(default_factory=dict[str, float])
    against: dict[str, Any] = field(default_factory=dict[str, Any])  # the baseline's name, accuracy samples
    best: frozenset[int] = frozenset()
    job: JobInfo | None = None
    error: str = ""
    end_reason: str = ""  # why it ended before all trials had run
    gives_way: bool = False
    pause_requested: bool = False  # paused until resumed by the user
    ending: bool = False  # stops after the running trial
    went_on: int | None = None  # number of the last trial before it was resumed
    by_hand: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])  # trials to be enqueued
    lines: dict[int, str] = field(default_factory=dict[int, str])  # trials since the last call of `data`
    written: bytearray = field(default_factory=bytearray)  # the lines of ended trials
    headed: tuple[Record | None, bytes] = (None, b"")
    fresh: set[int] = field(default_factory=set[int])
    coming: dict[int, Trial] = field(default_factory=dict[int, Trial])  # from the storage, added in batches

    @property
    def running(self) -> bool:
        """Whether it has a job, running or paused."""
        return self.job is not None

    @property
    def paused(self) -> bool:
        """Whether it is paused, or will be after the running trial."""
        return self.job is not None and (self.job.state == "paused" or (self.pause_requested and self.gives_way))

    @property
    def done(self) -> int:
        """Number of ended trials; lost, duplicate and unmeasured ones are replaced by others and do not count."""
        return sum(t.ended for t in self.trials.values())

    @property
    def other(self) -> bool:
        """Whether its trials have other architectures, which no recipe can produce."""
        return any(c.kind == "config" for c in self.space.choices)

    @property
    def want(self) -> Wanted:
        """Its goals with their directions."""
        return wanted(self.spec)

    @property
    def leader(self) -> Trial | None:
        """The best trial so far; with several goals, the one of the front that is best in the first goal."""
        return best((self.trials[n] for n in self.best), self.want)

    def take(self, trial: Trial) -> None:
        """Add or update a trial; the worker does not know its note."""
        known = self.trials.get(trial.number)
        self._put(trial if known is None or known.note == trial.note else replace(trial, note=known.note))

    def annotate(self, number: int, note: str) -> Trial:
        """Replace the note of a trial; returns the trial."""
        self._put(replace(self.trials[number], note=note))
        return self.trials[number]

    def _put(self, trial: Trial) -> None:
        self.coming.pop(trial.number, None)  # an older state
        self.trials[trial.number] = trial
        self.lines[trial.number] = line(trial)
        self.fresh.add(trial.number)

    def take_batch(self, limit: int | None = None) -> list[Trial]:
        """Add received trials and return those to emit, at most `limit`, so that no turn of the event loop is long."""
        self._take_in(list(self.coming.values())[:limit])
        numbers = sorted(self.fresh)[:limit]
        self.fresh.difference_update(numbers)
        return [self.trials[n] for n in numbers]

    def _take_in(self, trials: Iterable[Trial]) -> None:
        for trial in trials:
            self.take(trial)

    def update_best(self, news: Iterable[Trial]) -> None:
        """Update the front with new trials."""
        fresh = [t for t in news if t.feasible]
        if fresh:
            current = [self.trials[n] for n in self.best]
            self.best = frozenset(t.number for t in front((*current, *fresh), self.want))

    def data(self) -> bytes:
        """The study's record in the project. Each line is formatted once, since this is called often."""
        self._take_in(list(self.coming.values()))
        ended = [n for n in self.lines if self.trials[n].state in FINISHED]
        self.written += "".join(f"{self.lines.pop(n)}\n" for n in ended).encode()
        running = "".join(f"{text}\n" for text in self.lines.values()).encode()
        return b"".join([self._head(), self.written, running])

    def _head(self) -> bytes:
        """The first line of the record."""
        record, (previous, head) = Record(self.spec, self.recipe, self.space, (), self.key, self.baseline,
                                      self.against), self.headed  # fmt: skip
        parts = ("spec", "recipe", "space", "key", "baseline", "against")
        if previous is None or any(getattr(previous, p) is not getattr(record, p) for p in parts):
            head = f"{head_line(record)}\n".encode()
            self.headed = record, head
        return head

    def is_continued(self, result: Any) -> bool:
        """Whether the job continues after a part with `result`."""
        self._take_in(list(self.coming.values()))
        return not self.ending and result == ASKED

    def end(self, event: Any) -> None:
        """Handle the end of the job: running trials are marked as interrupted."""
        self.job, self.pause_requested = None, False
        self._take_in(list(self.coming.values()))
        self.end_reason = event.result if isinstance(event, Done) and isinstance(event.result, str) else ""
        self.error = message(f"{event.message} {event.hint}".strip()) if isinstance(event, Failed) else ""
        for trial in list(self.trials.values()):
            if trial.state == "running":
                self.take(cut_off(trial))


def cut_off(trial: Trial) -> Trial:
    """A trial that was running when its search ended, as failed."""
    return replace(trial, state="failed", error="It was interrupted.", lost=True)
