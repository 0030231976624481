"""`run`: replay a recipe on a model, with the score before and after."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from espalier.app.commands.command import Answer, Arguments, Command, Parser, UsageError
from espalier.app.commands.console import Console, cell, seconds, table
from espalier.app.commands.opening import Target, opened, save
from espalier.app.commands.run_curves import Curves, add_curves
from espalier.app.commands.scoring import (
    add_data,
    age_words,
    baseline_score,
    changed,
    data_options,
    figures,
    noise_lines,
    plain,
    score,
    state_name,
    tell_warning,
)
from espalier.model.document.recipe import Recipe
from espalier.model.errors import EspalierError
from espalier.passes.base import StepResult
from espalier.passes.recipes.config import load_recipe
from espalier.passes.recipes.replay import Memo, Replayed, check_ready, prefix_keys, remembered, replay
from espalier.passes.recipes.set_up import check_set_up, extended, from_anywhere, options_of
from espalier.passes.sweep.results import FIGURES, mean_of
from espalier.passes.training.checkpoint_folders import clear, until_saved
from espalier.passes.training.curve import Recorder


def _arguments(parser: Parser) -> None:
    parser.add_argument("target", metavar="SOURCE|PROJECT", help="the model; a project's own steps come first")
    parser.add_argument("recipe", metavar="RECIPE", help="TOML or JSON: steps, or an object from pass name to options")
    parser.add_argument("-o", "--output", metavar="P.espalier", help="save the result (of the first seed) as a project")
    parser.add_argument("--seeds", type=int, default=1, metavar="N",
                        help="repeat with N seeds: mean and spread of the score")  # fmt: skip
    add_curves(parser)
    add_data(parser)


def _run(found: Arguments, console: Console) -> Answer:
    if not 1 <= found.seeds <= 1000:
        raise UsageError(f"--seeds is {found.seeds}.", "It must be a whole number from 1 to 1000.")
    curves = Curves(found)
    recipe = from_anywhere(load_recipe(found.recipe, found.seed))
    check_ready(recipe)
    if not recipe.steps:
        console.note("The recipe has no steps.")
    with (
        until_saved() as trained,
        opened(found.target, found, console) as target,
        curves.recording(target.context, console) as recorder,
    ):
        base = target.project.graph
        check_set_up(options_of(recipe.active), base, target.context)
        options = data_options(found, target)
        if options is None and (named := _data_of(recipe)):
            console.note(f"The accuracy is not measured. To measure it, add --data {named}.")
        before = baseline_score(base, target, options)
        tell_warning(before, console)
        replayed = _replayed(recipe, target, found, recorder)
        target.context.seed = found.seed
        after = score(replayed.graph, target, options)
        problems = _unsound(replayed, target, console)
        for result in replayed.results:
            tell_warning(result.report.summary if result else {}, console)
        name = state_name(target)
        data: dict[str, Any] = {"before": plain(before), "after": plain(after), "baseline": name,
                                "change": changed(before, after, name), "steps": _steps(recipe, replayed.results),
                                "problems": problems}  # fmt: skip
        data |= _repeated(recipe, found, target, console, after, recorder) if found.seeds > 1 else {}
        if found.output:
            data["output"] = save(target, extended(target.project, recipe, replayed), found.output)
        for folder in trained:
            clear(folder)
        data |= {"curves": curves.written} if curves.written else {}
    return Answer(data, lambda: _lines(data))


def _unsound(replayed: Replayed, target: Target, console: Console) -> list[str]:
    """Weights of the result that hold values that are no numbers; formats would round them without a word."""
    from espalier.model.trace.weight_checks import weight_problems

    found = [p.message for p in weight_problems(replayed.graph, target.store)]
    for message in found:
        console.note(message)
    return found


def _replayed(recipe: Recipe, target: Target, found: Arguments, recorder: Recorder) -> Replayed:
    """The recipe's result. Where a step fails, those before it are saved first, if anything is to be saved."""
    memo = Memo()
    try:
        return replay(target.project.graph, recipe, target.context, memo, recorder.begins)
    except EspalierError as error:
        done = remembered(prefix_keys(recipe.active), memo)
        if found.output and done:
            active = iter(range(len(recipe.active)))
            steps = tuple(replace(s, enabled=s.enabled and next(active) < done) for s in recipe.steps)
            saved = save(target, extended(target.project, Recipe(steps), _known(recipe, done, memo)), found.output)
            before = "The step before it is" if done == 1 else f"The {done} steps before it are"
            error.hint = f"{error.hint} {before} saved in {saved}, with the others switched off.".strip()
        raise


def _known(recipe: Recipe, count: int, memo: Memo) -> Replayed:
    """What the first active steps gave."""
    found = [memo.graphs.get(k) for k in prefix_keys(recipe.active)[:count]]
    last = found[-1]
    assert last is not None
    return Replayed(last.graph, tuple(found))


def _repeated(
    recipe: Recipe, found: Arguments, target: Target, console: Console, first: dict[str, Any], recorder: Recorder
) -> dict[str, Any]:
    """The score after the recipe with further seeds: each, and mean, standard deviation and extremes of all."""
    scores = [(found.seed, first)]
    for extra in range(1, found.seeds):
        again = Recipe(tuple(replace(s, seed=s.seed + extra) for s in recipe.steps))
        recorder.seed = found.seed + extra
        graph = replay(target.project.graph, again, target.context, begins=recorder.begins).graph
        target.context.seed = found.seed + extra
        scores.append((found.seed + extra, score(graph, target, data_options(found, target))))
        console.note(f"[{extra + 1}/{found.seeds}] seed {found.seed + extra}: {_short(scores[-1][1])}")
        target.store.flush(f"seed-{extra}")
    means = {k: mean_of([s[k] for _, s in scores if s[k] is not None]) for k in FIGURES}
    ends = {"mean": "mean", "std": "std", "min": "low", "max": "high"}
    told = {f"after_{n}": {k: getattr(m, a) if m else None for k, m in means.items()} for n, a in ends.items()}
    return {**told, "seeds": [{"seed": n, "after": plain(s)} for n, s in scores]}


def _short(found: dict[str, Any]) -> str:
    accuracy = found["accuracy"]
    return f"accuracy {accuracy:.4f}" if accuracy is not None else f"{found['size_bytes']} bytes"


def _steps(recipe: Recipe, results: tuple[StepResult | None, ...]) -> list[dict[str, Any]]:
    return [
        {"pass": step.pass_name, "seconds": r.seconds, "report": {"summary": r.report.summary, "rows": r.report.rows}}
        for step, r in zip(recipe.active, results, strict=True)
        if r is not None
    ]


def _data_of(recipe: Recipe) -> str:
    """The data that a step of the recipe names; empty where none does."""
    return next((str(d) for s in recipe.active if (d := getattr(s.options, "data", ""))), "")


def _lines(data: dict[str, Any]) -> Iterable[str]:
    before, after = figures(data["before"]), figures(data["after"])
    was = f"before ({data['baseline']})"
    yield from table([{"": k, was: before[k], "after": after[k], **_spread(k, data)} for k in after])
    yield from noise_lines(data["after"], data["change"])
    if age := age_words(data["before"], was):
        yield age
    yield ""
    for number, step in enumerate(data["steps"], 1):
        found = {k: v for k, v in step["report"]["summary"].items() if v not in ([], (), {})}
        told = ", ".join(f"{k.replace('_', ' ')} {cell(v)}" for k, v in found.items())
        yield f"{number}  {step['pass']}  {seconds(step['seconds'])}  {told}"
    if "output" in data:
        yield f"saved as {data['output']}"
    if "curves" in data:
        yield f"curves in {data['curves']}"


def _spread(name: str, data: dict[str, Any]) -> dict[str, str]:
    """Mean and standard deviation over the seeds, in a column of their own."""
    if "seeds" not in data:
        return {}
    mean, std = (figures(data[k]).get(name, "–") for k in ("after_mean", "after_std"))
    return {f"mean of {len(data['seeds'])} seeds": "–" if mean == "–" else f"{mean} ± {std}"}


COMMAND = Command("run", "replays a recipe on a model, with the score before and after", _arguments, _run)
