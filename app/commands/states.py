"""States that a command names: `P.espalier@3`, `P.espalier@opened`, `P.espalier#study/12`, or all that opens."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from espalier.app.commands.command import UsageError
from espalier.app.commands.known_steps import known_steps
from espalier.app.commands.opening import Target
from espalier.model.document.project import Project
from espalier.model.document.recipe import Recipe
from espalier.model.errors import nearest
from espalier.model.graph.graph import Graph
from espalier.model.opening import is_project
from espalier.passes.comparison.scores import Measured
from espalier.passes.figure import OPENED, main_figure
from espalier.passes.recipes.replay import replay
from espalier.passes.score import Score, static_score
from espalier.passes.search.record import records
from espalier.passes.search.search import Search
from espalier.passes.tasks.base import all_metrics

_POSITION = re.compile(r"(?P<file>.+\.espalier)@(?P<at>[^@#/]+)")
_TRIAL = re.compile(r"(?P<file>.+?\.espalier)#(?P<study>.+)/(?P<trial>[^/]*)")


@dataclass(frozen=True, slots=True)
class StateName:
    """`source`: what to open. `position`: number of active steps, None for all. `trial`: study and number."""

    source: str
    position: int | None = None
    trial: tuple[str, int] | None = None

    @property
    def title(self) -> str:
        """How a table calls it."""
        short = self.source.rpartition("/")[2] if is_project(self.source) else self.source
        if self.trial:
            return f"{short}, trial {self.trial[1]} of {self.trial[0]}"
        if self.position is None:
            return short
        return f"{short}, {OPENED}" if not self.position else f"{short}, step {self.position}"


@dataclass(frozen=True, slots=True)
class NamedState:
    """A state of an opened model: its recipe from the base, and its graph."""

    recipe: Recipe
    graph: Graph


def parse_state(text: str, step: int | None = None) -> StateName:
    """Read `SOURCE`, `PROJECT@N`, `PROJECT@opened` or `PROJECT#STUDY/TRIAL`; `step`: a position given beside it.

    Raises UsageError.
    """
    if match := _TRIAL.fullmatch(text):
        if not match["trial"].isdecimal():
            raise UsageError(f"{text} names no trial.", "Write PROJECT#STUDY/NUMBER, such as P.espalier#mixed/12.")
        found = StateName(match["file"], trial=(match["study"], int(match["trial"])))
    elif match := _POSITION.fullmatch(text):
        at = match["at"]
        if at != OPENED and not at.isdecimal():
            raise UsageError(f"{text} names no step.", f"Write PROJECT@N for the first N steps, or PROJECT@{OPENED}.")
        found = StateName(match["file"], 0 if at == OPENED else int(at))
    else:
        found = StateName(text)
    if step is None:
        return found
    if found.position is not None or found.trial or step < 0:
        raise UsageError(f"Step {step} does not fit {text}.", "Name a project, and a step from 0.")
    return StateName(found.source, step)


def state_of(name: StateName, target: Target) -> NamedState:
    """The named state of an opened model: from its stored graphs, or by replaying steps. Raises EspalierError."""
    project = target.project
    if name.trial:
        recipe = trial_recipe(target, *name.trial)
    elif name.position is None:
        return NamedState(project.recipe, project.graph)
    else:
        steps = project.recipe.active
        if name.position > len(steps):
            text = f"{name.source} has {len(steps)} active steps, not {name.position}."
            raise UsageError(text, f"Name a step from 0 to {len(steps)}.")
        recipe = Recipe(steps[: name.position])
    return NamedState(recipe, replay(project.base, recipe, target.context, known_steps(target)).graph)


def measured(figures: Mapping[str, Any]) -> Measured:
    """A score as `scoring.score` returns it."""
    costs = {name: figures[name] for name in Score.__dataclass_fields__ if name in figures}
    metrics = {n: float(v) for n in all_metrics() if isinstance(v := figures.get(n), int | float)}
    return Measured(Score(**costs), main_figure(figures), metrics=metrics)


def stored_score(state: NamedState, project: Project) -> Measured:
    """Costs, and the metrics that a project stores for a recipe."""
    from espalier.app.session.measures import Measures, measured_score, samples_of

    measures = Measures()
    measures.restore(project)
    metrics = measures.metrics(state.recipe)
    score = measured_score(static_score(state.graph), metrics)
    return Measured(score, measures.main(state.recipe), data=samples_of(measures.options), metrics=metrics)


def trial_recipe(target: Target, study: str, number: int) -> Recipe:
    """The recipe of a trial of a project's study; raises UsageError, OptionsError."""
    studies = records(target.project.extras)
    if study not in studies:
        raise UsageError(f"The project has no study {study!r}.", nearest(study, studies))
    record = studies[study]
    trial = next((t for t in record.trials if t.number == number), None)
    if trial is None or record.space is None:
        numbers = [str(t.number) for t in record.trials]
        raise UsageError(f"The study {study!r} has no trial {number}.", nearest(str(number), numbers))
    if any(c.kind == "config" for c in record.space.choices):
        text = f"Trial {number} has another architecture, so no recipe leads to it."
        raise UsageError(text, "Save it as a project of its own in the window, and name that.")
    search = Search(record.spec, record.recipe, target.project.base)
    return search.recipe_of(record.space, trial.params, trial.begins)
