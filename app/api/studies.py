"""`Model.search` and `Model.sweep`: run searches and sweeps in this process."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.app.api.reports import Curve, Row, Steps, Study
from espalier.app.commands.known_steps import known_steps
from espalier.app.commands.opening import Target
from espalier.app.features.search.commands.search_files import spec_path
from espalier.model.document.recipe import Recipe
from espalier.model.document.selections import selections_of
from espalier.model.errors import OptionsError
from espalier.passes.recipes.config import load_recipe
from espalier.passes.saved import recipe_with_members, with_members
from espalier.passes.search.goals import Wanted, best, front, main_of, wanted, with_main
from espalier.passes.search.search import Search
from espalier.passes.search.spec import SearchSpec
from espalier.passes.search.spec_file import filled, load_search, read_search, with_goals
from espalier.passes.search.storage import journal_url
from espalier.passes.search.trial import Trial
from espalier.passes.sweep.results import Outcome, mean_rows, rows
from espalier.passes.sweep.run import run
from espalier.passes.sweep.spec import SweepSpec, build_sweep

if TYPE_CHECKING:
    from espalier.passes.running.splits import EvaluateOptions
    from espalier.passes.search.study import StudyRun

# -- searches


@dataclass(frozen=True, slots=True)
class Searched:
    """Data and task of a search where it replaces those of the file; empty: the file's."""

    data: str = ""
    task: str = ""


def searched(
    target: Target, spec: str | PathLike[str] | Mapping[str, Any], data: Searched, trials: int, storage: str,
    resume: bool, seed: int, folder: Path,
) -> Study:  # fmt: skip
    """Run a search to its end, or until Ctrl-C; raises OptionsError, StorageError."""
    from espalier.passes.search.study import Plan, begin

    start = time.perf_counter()
    search = _search(target, spec, data, trials, seed)
    url = storage or journal_url(folder / f"{secrets.token_hex(4)}.journal")
    running = begin(Plan(search, target.context, url, resume, memo=known_steps(target)))
    trials_ = dict(running.records)
    try:
        for trial in running.trials():
            trials_[trial.number] = trial
    except KeyboardInterrupt:
        running.why = "interrupted"
    return _study(search, running, running.records | trials_, running.why, target, time.perf_counter() - start)


def _search(
    target: Target, spec: str | PathLike[str] | Mapping[str, Any], data: Searched, trials: int, seed: int
) -> Search:
    if isinstance(spec, Mapping):
        recipe, read = read_search(with_goals(spec), Path.cwd(), seed)
        read = read if read.study else replace(read, study="study")
    else:
        recipe, read = load_search(spec_path(str(spec)), seed)
    asked: dict[str, Any] = {"trials": trials, "seed": seed}
    read: SearchSpec = replace(read, **{k: v for k, v in asked.items() if v})
    if not 1 <= read.trials <= 100_000:
        raise OptionsError(f"trials is {read.trials}.", "It must be a whole number from 1 to 100000.")
    score = replace(read.score, data=data.data or read.score.data or target.project.source.data or "",
                    task=data.task or read.score.task)  # fmt: skip
    saved = selections_of(target.project)
    read = with_main(read, main_of(score, target.context.reading))
    read, own = with_members(replace(read, score=score), saved), target.project.recipe
    steps = recipe_with_members(filled(recipe, score), saved).steps
    return Search(read, Recipe((*own.steps, *steps)), target.project.base, target.project.source)


def _study(
    search: Search, running: StudyRun, trials_: Mapping[int, Trial], ended: str, target: Target, seconds: float
) -> Study:
    want, trials = wanted(search.spec), [trials_[n] for n in sorted(trials_)]
    lead = best(trials, want)
    recipes = {t.number: _steps(search, running, t, target) for t in trials if t.params}
    summary: dict[str, Any] = {"best": lead.number, **lead.params, **lead.figures} if lead else {"best": None}
    counts = {s: sum(t.state == s and not t.reused for t in trials) for s in ("complete", "pruned", "failed")}
    counts["duplicates"] = sum(t.reused for t in trials)
    return Study(
        "search", {**summary, **counts, "ended": ended}, tuple(_row(t, want) for t in trials), seconds,
        recipes[lead.number] if lead else Steps(), tuple(_row(t, want) for t in front(trials, want)), recipes,
        _source(search, running, lead),
    )  # fmt: skip


def _steps(search: Search, running: StudyRun, trial: Trial, target: Target) -> Steps:
    """The steps after the model's own, or the complete recipe if the trial changed those."""
    recipe, own = search.recipe_of(running.space, trial.params, trial.begins), target.project.recipe
    if recipe.steps[: len(own)] == own.steps:
        return Steps(Recipe(recipe.steps[len(own) :]))
    return Steps(recipe, from_opened=True)


def _source(search: Search, running: StudyRun, lead: Trial | None) -> str:
    """Source of the best trial's model, if it builds its own."""
    from espalier.passes.search.architecture.trial_project import configured, source_of

    own = lead is not None and configured(running.space, lead.params)
    return source_of(search, running.space, lead.params) if lead is not None and own else ""


def _row(trial: Trial, want: Wanted) -> Row:
    figures = {k: v for k, v in trial.figures.items() if k in want.figures} if trial.figures else {}
    return {"trial": trial.number, "state": trial.state, **figures, "feasible": trial.feasible,
            "duplicate": trial.reused, "params": dict(trial.params), "seconds": trial.seconds,
            "error": trial.error}  # fmt: skip


# -- sweeps


def swept(
    target: Target, over: str | Mapping[str, Sequence[Any]], recipe: Any, along: Sequence[str],
    variants: Sequence[str], seeds: int, score: EvaluateOptions,
) -> Curve:  # fmt: skip
    """Run a sweep to its end; raises OptionsError."""
    start, own = time.perf_counter(), target.project.recipe
    options = SweepSpec(_axis(over), _listed(along), _listed(variants), seeds)
    if not options.varies:
        raise OptionsError("There is nothing to vary.", 'Write over="prune.sparsity=0.1:0.9:0.1", variants or seeds.')
    more = recipe_with_members(_recipe(recipe), selections_of(target.project))
    sweep = build_sweep(Recipe((*own.steps, *more.steps)), options, score if score.data else None, len(own))
    if not sweep.recipe.steps:
        raise OptionsError("There is no recipe to sweep.", "Give recipe=, or a model that has steps.")
    sweep = replace(sweep, baseline=own)
    outcomes = list(run(sweep, target.project.base, target.context, known_steps(target)))
    _refuse_nothing(outcomes)
    summary = {"points": len(outcomes), "failed": sum(bool(o.error) for o in outcomes)}
    table, means = tuple(rows(sweep, outcomes)), tuple(mean_rows(sweep, outcomes))
    return Curve("sweep", summary, table, time.perf_counter() - start, means)


def _axis(over: str | Mapping[str, Sequence[Any]]) -> str:
    """The axis in the syntax of the command line."""
    if isinstance(over, str):
        return over
    if len(over) != 1:
        raise OptionsError(f"over names {len(over)} options.", "Name one; others can move along with it.")
    ((name, values),) = over.items()
    return f"{name}={','.join(map(str, values))}"


def _listed(texts: Sequence[str]) -> tuple[str, ...]:
    return (texts,) if isinstance(texts, str) else tuple(texts)


def _recipe(recipe: Any) -> Recipe:
    if recipe is None or isinstance(recipe, Steps):
        return Recipe() if recipe is None else recipe.recipe
    return load_recipe(recipe if isinstance(recipe, Mapping) else Path(recipe))


def _refuse_nothing(outcomes: Sequence[Outcome]) -> None:
    """Raise OptionsError with the first error if all points failed."""
    points = [o for o in outcomes if o.variant >= 0]
    if points and all(o.error for o in points):
        raise OptionsError(
            f"All {len(points)} points failed: {points[0].error}", points[0].hint or "Correct the recipe."
        )
