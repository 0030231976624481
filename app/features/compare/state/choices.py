"""The states of a document that can be chosen as a side of a comparison. Free of Qt."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from espalier.app.features.compare.state.pins import pins_of
from espalier.app.number_text import percent, plural
from espalier.app.step_text import title as step_title
from espalier.app.translation import tr
from espalier.model.document.recipe import Recipe
from espalier.model.errors import EspalierError
from espalier.passes.figure import OPENED
from espalier.passes.search.goals import ranked, wanted
from espalier.passes.search.record import Record, records
from espalier.passes.search.search import Search
from espalier.passes.search.trial import Trial

if TYPE_CHECKING:
    from espalier.app.session.session import Session

MAX_TRIALS = 15  # of a study, the best ones
Kind = Literal["now", "opened", "step", "baseline", "pin", "trial", "file"]


@dataclass(frozen=True, slots=True)
class StateChoice:
    """One state. `name`: of a step its number, of a trial `study/number`, of a file its source.

    `recipe`: None of a file.
    """

    kind: Kind
    title: str
    name: str = ""
    recipe: Recipe | None = field(default=None, compare=False)
    trial: Trial | None = field(default=None, compare=False)
    study: Record | None = field(default=None, compare=False)

    @property
    def key(self) -> tuple[str, str]:
        """A key that is equal for the same choice after edits of the document."""
        return self.kind, self.name


def choices_of(session: Session) -> list[list[StateChoice]]:
    """The states of the open document in groups: recipe, pins, trials of each study."""
    document = session.document
    if document is None:
        return []
    recipe = document.recipe
    steps = recipe.active
    title = tr("Now, after {}", plural(len(steps), "step")) if steps else tr("Now, as opened")
    positions = [StateChoice("now", title, recipe=recipe)]
    positions += [StateChoice("step", tr("Step {}: {}", i, step_title(steps[i - 1])), str(i), Recipe(steps[:i]))
                  for i in range(len(steps) - 1, 0, -1)]  # fmt: skip
    positions.append(StateChoice("opened", tr("Opened, before the first step"), recipe=Recipe()))
    if pinned := session.measures.pinned:
        positions.append(StateChoice("baseline", tr("Baseline: {}", pinned.name), pinned.name, pinned.recipe))
    pins = [StateChoice("pin", tr("Pinned: {}", p.name), p.name, p.recipe) for p in pins_of(document)]
    studies = records(document.project.extras)
    return [g for g in (positions, pins, *(list(_trials(session, n, r)) for n, r in studies.items())) if g]


def _trials(session: Session, name: str, record: Record) -> Iterator[StateChoice]:
    """The best trials of a study; none for other architectures, which no recipe can produce."""
    if record.space is None or any(c.kind == "config" for c in record.space.choices):
        return
    search = Search(record.spec, record.recipe, session.open_document.project.base)
    for trial in ranked((t for t in record.trials if t.state == "complete"), wanted(record.spec))[:MAX_TRIALS]:
        try:
            recipe = search.recipe_of(record.space, trial.params, trial.begins)
        except EspalierError:  # a plug-in is not loaded
            continue
        accuracy = trial.figures.get("accuracy")
        score = f" · {percent(accuracy)}" if isinstance(accuracy, float) else ""
        title = tr("Trial {} of {}{}", trial.number, name, score)
        yield StateChoice("trial", title, f"{name}/{trial.number}", recipe, trial, record)


def default_pair(groups: list[list[StateChoice]]) -> tuple[StateChoice, StateChoice] | None:
    """The model as opened and as it is now; None without a document."""
    states = {c.kind: c for group in groups for c in group}
    return (states["opened"], states["now"]) if OPENED in states else None
