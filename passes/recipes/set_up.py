"""Whether steps and scores can read their data for this model: told once, before anything runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.model.document.project import Project
from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import DataError
from espalier.model.graph.graph import Graph
from espalier.model.sources.info import SourceInfo
from espalier.passes.base import Context, Report, StepResult, fill_limits
from espalier.passes.recipes.replay import Replayed, milestones
from espalier.passes.running.data_fit import text_facts
from espalier.passes.running.splits import EvaluateOptions, length_of, load_task, measured_split
from espalier.passes.training.options import FinetuneOptions

if TYPE_CHECKING:
    from espalier.model.data.base import Split

SHARED = ("data", "text", "label", "tokenizer", "max_length")


def check_set_up(subjects: Iterable[Any], graph: Graph, context: Context) -> None:
    """Read the data of all options that name some; raises DataError for the first that cannot be read or used."""
    for options in dict.fromkeys(s for s in subjects if reads(s)):
        fill_limits(context, graph)
        context.progress(0, 0, "reading and tokenising")
        _check(options, graph, context)


def reads(options: object) -> bool:
    """Whether options name data that are read for the model."""
    return all(hasattr(options, name) for name in SHARED) and bool(getattr(options, "data", ""))


def options_of(steps: Iterable[Step]) -> list[Any]:
    """What the steps are to do."""
    return [s.options for s in steps]


def _check(options: Any, graph: Graph, context: Context) -> None:
    from espalier.passes.analysis.data import misfit
    from espalier.passes.training.splits import splits

    if isinstance(options, FinetuneOptions):
        read = splits(options, context)
        parts = {"train": read.train, **({"validation": read.check} if read.check is not None else {})}
        classes = read.classes
    else:
        plain = EvaluateOptions(split=getattr(options, "split", ""), task=getattr(options, "task", ""),
                                **{n: getattr(options, n) for n in SHARED})  # fmt: skip
        task = load_task(plain, context.reading, whole=plain.split in ("", "all"))
        parts: dict[str, Split] = {"": measured_split(task, plain.split, 0)}
        classes = task.classes
    message, hint = misfit(graph, classes, parts)
    if message:
        raise DataError(message, hint)


def texts_of(options: EvaluateOptions | None, graph: Graph, context: Context) -> dict[str, Any]:
    """How much of the texts that a score is measured on is used; empty for other data and for none."""
    if options is None or not options.data:
        return {}
    fill_limits(context, graph)
    task = load_task(options, context.reading, whole=options.split in ("", "all"))
    return text_facts(measured_split(task, options.split, options.limit), length_of(options, context))


def source_after(source: SourceInfo, steps: Iterable[Step], reports: Iterable[Report | None]) -> SourceInfo:
    """The source with what steps that ran named of how data are read, and with the classes that were trained, where it
    says nothing of them itself."""
    for step, report in zip(steps, reports, strict=True):
        if report is not None and reads(step.options):
            named = {n: getattr(step.options, n) for n in ("tokenizer", "text", "label") if not getattr(source, n)}
            classes = () if source.classes else tuple(report.summary.get("classes", ()))
            source = source.taking(**named, classes=classes)
    return source


def extended(project: Project, recipe: Recipe, done: Replayed) -> Project:
    """The project with further steps, and what took long among all of them."""
    whole = Recipe((*project.recipe.steps, *recipe.steps))
    own: list[StepResult | None] = [None] * len(project.recipe.active)
    if own:
        own[-1] = StepResult(project.graph, Report(project.recipe.active[-1].pass_name), 0.0)
    kept = project.milestones | milestones(whole, [*own, *done.results])
    reports = [r.report if r else None for r in done.results]
    source = source_after(project.source, recipe.active[: len(reports)], reports)
    return replace(project, source=source, recipe=whole, graph=done.graph, milestones=kept)


def from_anywhere(recipe: Recipe) -> Recipe:
    """Steps whose data are found from any folder: the project that keeps them may be opened from another."""
    return Recipe(tuple(replace(s, options=_placed(s.options)) for s in recipe.steps))


def _placed(options: Any) -> Any:
    data = getattr(options, "data", None)
    path = Path(data).expanduser() if isinstance(data, str) and data else None
    return replace(options, data=str(path.resolve())) if path and path.exists() else options
