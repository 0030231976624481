"""`run`: replay a recipe on a model, with the score before and after."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from app.commands.command import Answer, Arguments, Command, Parser
from app.commands.console import Console, cell, seconds, table
from app.commands.opening import opened, save
from app.commands.scoring import add_data, data_options, figures, score
from model.project import Project
from model.recipe import Recipe
from passes.base import Report, StepResult
from passes.config import load_recipe
from passes.replay import Replayed, milestones, replay


def _arguments(parser: Parser) -> None:
    parser.add_argument("target", metavar="SOURCE|PROJECT", help="the model; a project's own steps come first")
    parser.add_argument("recipe", metavar="RECIPE", help="TOML or JSON: steps, or an object from pass name to options")
    parser.add_argument("-o", "--output", metavar="P.espalier", help="save the result as a project")
    add_data(parser)


def _run(found: Arguments, console: Console) -> Answer:
    recipe = load_recipe(found.recipe, found.seed)
    if not recipe.steps:
        console.note("The recipe has no steps.")
    with opened(found.target, found, console) as target:
        base = target.project.graph
        options = data_options(found, target)
        before = score(base, target, options)
        replayed = replay(base, recipe, target.context)
        target.context.seed = found.seed
        after = score(replayed.graph, target, options)
        data: dict[str, Any] = {"before": before, "after": after, "steps": _steps(recipe, replayed.results)}
        if found.output:
            data["output"] = save(target, _extended(target.project, recipe, replayed), found.output)
    return Answer(data, lambda: _lines(data))


def _extended(project: Project, recipe: Recipe, done: Replayed) -> Project:
    """The project with further steps, and what took long among all of them."""
    whole = Recipe((*project.recipe.steps, *recipe.steps))
    own: list[StepResult | None] = [None] * len(project.recipe.active)
    if own:
        own[-1] = StepResult(project.graph, Report(project.recipe.active[-1].pass_name), 0.0)
    kept = project.milestones | milestones(whole, [*own, *done.results])
    return replace(project, recipe=whole, graph=done.graph, milestones=kept)


def _steps(recipe: Recipe, results: tuple[StepResult | None, ...]) -> list[dict[str, Any]]:
    return [
        {"pass": step.pass_name, "seconds": r.seconds, "report": {"summary": r.report.summary, "rows": r.report.rows}}
        for step, r in zip(recipe.active, results, strict=True)
        if r is not None
    ]


def _lines(data: dict[str, Any]) -> Iterable[str]:
    before, after = figures(data["before"]), figures(data["after"])
    yield from table([{"": k, "before": before[k], "after": after[k]} for k in after])
    yield ""
    for number, step in enumerate(data["steps"], 1):
        told = ", ".join(f"{k.replace('_', ' ')} {cell(v)}" for k, v in step["report"]["summary"].items())
        yield f"{number}  {step['pass']}  {seconds(step['seconds'])}  {told}"
    if "output" in data:
        yield f"saved as {data['output']}"


COMMAND = Command("run", "replays a recipe on a model, with the score before and after", _arguments, _run)
