"""How ended jobs are run again: with the same options, on the present state of the document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from espalier.app.number_text import plural
from espalier.app.step_text import title
from espalier.app.translation import tr
from espalier.model.document.recipe import Recipe, Step
from espalier.passes.jobs.kinds import JobInfo

MAX_KEPT = 200  # jobs; the list of jobs shows fewer
MAX_NAMES = 2  # steps that a difference names


@dataclass(frozen=True, slots=True)
class Repeat:
    """`run` repeats a job on the present state, and may raise EspalierError. `recipe`: of the state it ran on first."""

    run: Callable[[], object]
    recipe: Recipe


class Repeats:
    """The jobs of the open document that can be repeated, by their numbers."""

    def __init__(self) -> None:
        self._kept: dict[int, Repeat] = {}

    def note(self, job: JobInfo, run: Callable[[], object], recipe: Recipe) -> None:
        """Note how a job is repeated, and the recipe that it ran on."""
        self._kept[job.id] = Repeat(run, recipe)
        for number in list(self._kept)[:-MAX_KEPT]:
            del self._kept[number]

    def of(self, job: JobInfo) -> Repeat | None:
        """How a job is repeated; None if it cannot be."""
        return self._kept.get(job.id)

    def clear(self) -> None:
        """Forget all: they belong to another document."""
        self._kept.clear()


def difference(then: Recipe, now: Recipe) -> str:
    """The steps by which the active steps of two recipes differ, as a text; empty if they are the same."""
    if then.active == now.active:
        return ""
    added, removed = _without(now.active, then.active), _without(then.active, now.active)
    parts = (tr("{} added", _names(added)) if added else "", tr("{} removed", _names(removed)) if removed else "")
    return ", ".join(p for p in parts if p) or tr("the steps in another order")


def _without(steps: Iterable[Step], others: Iterable[Step]) -> list[Step]:
    """The steps that `others` lack; equal ones are counted."""
    left, found = list(others), list[Step]()
    for step in steps:
        if step in left:
            left.remove(step)
        else:
            found.append(step)
    return found


def _names(steps: list[Step]) -> str:
    counted = Counter(title(s) for s in steps)
    if len(counted) > MAX_NAMES:
        return plural(len(steps), "step")
    return ", ".join(name if n == 1 else f"{n} × {name}" for name, n in counted.items())
