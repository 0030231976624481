"""Command `run`: replays a recipe on a model, with the score before and after."""

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
    age_text,
    baseline_score,
    changed,
    data_options,
    figures,
    noise_lines,
    plain,
    print_warning,
    score,
    state_name,
)
from espalier.app.figures.curves import figure_title
from espalier.model.document.recipe import Recipe
from espalier.model.document.selections import selections_of
from espalier.model.errors import EspalierError
from espalier.passes.base import StepResult
from espalier.passes.figure import main_figure
from espalier.passes.recipes.config import load_recipe
from espalier.passes.recipes.replay import Memo, Replayed, check_ready, prefix_keys, remembered, replay
from espalier.passes.recipes.set_up import check_set_up, extended, from_anywhere, options_of
from espalier.passes.saved import recipe_with_members
from espalier.passes.sweep.results import mean_of, metric_names
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


def _run(args: Arguments, console: Console) -> Answer:
    return replayed_answer(args, from_anywhere(load_recipe(args.recipe, args.seed)), console)


def replayed_answer(args: Arguments, recipe: Recipe, console: Console) -> Answer:
    """Replay a recipe on the model of `args`, with the score before and after."""
    if not 1 <= args.seeds <= 1000:
        raise UsageError(f"--seeds is {args.seeds}.", "It must be a whole number from 1 to 1000.")
    curves = Curves(args)
    check_ready(recipe)
    if not recipe.steps:
        console.note("The recipe has no steps.")
    with (
        until_saved() as trained,
        opened(args.target, args, console) as target,
        curves.recording(target.context, console) as recorder,
    ):
        base = target.project.graph
        recipe = recipe_with_members(recipe, selections_of(target.project))
        check_set_up(options_of(recipe.active), base, target.context)
        options = data_options(args, target)
        if options is None and (named := _data_of(recipe)):
            console.note(f"The accuracy is not measured. To measure it, add --data {named}.")
        before = baseline_score(base, target, options)
        print_warning(before, console)
        replayed = _replayed(recipe, target, args, recorder)
        target.context.seed = args.seed
        after = score(replayed.graph, target, options)
        problems = _unsound(replayed, target, console)
        for result in replayed.results:
            print_warning(result.report.summary if result else {}, console)
        name = state_name(target)
        data: dict[str, Any] = {"before": plain(before), "after": plain(after), "baseline": name,
                                "change": changed(before, after, name), "steps": _steps(recipe, replayed.results),
                                "problems": problems}  # fmt: skip
        data |= _repeated(recipe, args, target, console, after, recorder) if args.seeds > 1 else {}
        if args.output:
            data["output"] = save(target, extended(target.project, recipe, replayed), args.output)
        for folder in trained:
            clear(folder)
        data |= {"curves": curves.written} if curves.written else {}
    return Answer(data, lambda: _lines(data))


def _unsound(replayed: Replayed, target: Target, console: Console) -> list[str]:
    """Messages on non-finite weights of the result, which formats would round silently."""
    from espalier.model.trace.weight_checks import counts_of, non_finite, weight_problems, weight_warning

    problems = weight_problems(replayed.graph, target.store)
    console.warn(weight_warning(non_finite(replayed.graph, target.store)))
    for problem in problems:
        if not counts_of([problem]):
            console.note(problem.message)
    return [p.message for p in problems]


def _replayed(recipe: Recipe, target: Target, args: Arguments, recorder: Recorder) -> Replayed:
    """Replay the recipe; if a step fails, save the steps before it to the output."""
    memo = Memo()
    try:
        return replay(target.project.graph, recipe, target.context, memo, recorder.begins)
    except EspalierError as error:
        done = remembered(prefix_keys(recipe.active), memo)
        if args.output and done:
            active = iter(range(len(recipe.active)))
            steps = tuple(replace(s, enabled=s.enabled and next(active) < done) for s in recipe.steps)
            project = extended(target.project, Recipe(steps), _partial(recipe, done, memo))
            try:
                saved = save(target, project, args.output)
            except EspalierError as other:  # the failed step is the news
                error.hint = f"{error.hint} {other.message} {other.hint}".strip()
                raise error from other
            before = "The step before it is" if done == 1 else f"The {done} steps before it are"
            error.hint = f"{error.hint} {before} saved in {saved}, with the others switched off.".strip()
        raise


def _partial(recipe: Recipe, count: int, memo: Memo) -> Replayed:
    """The result of the first active steps."""
    results = [memo.graphs.get(k) for k in prefix_keys(recipe.active)[:count]]
    last = results[-1]
    assert last is not None
    return Replayed(last.graph, tuple(results))


def _repeated(
    recipe: Recipe, args: Arguments, target: Target, console: Console, first: dict[str, Any], recorder: Recorder
) -> dict[str, Any]:
    """Scores after the recipe with further seeds: each, mean, standard deviation and extremes."""
    scores = [(args.seed, first)]
    for extra in range(1, args.seeds):
        again = Recipe(tuple(replace(s, seed=s.seed + extra) for s in recipe.steps))
        recorder.seed = args.seed + extra
        graph = replay(target.project.graph, again, target.context, begins=recorder.begins).graph
        target.context.seed = args.seed + extra
        scores.append((args.seed + extra, score(graph, target, data_options(args, target))))
        console.note(f"[{extra + 1}/{args.seeds}] seed {args.seed + extra}: {_short(scores[-1][1])}")
        target.store.flush(f"seed-{extra}")
    present = [k for k in metric_names() if any(k in s for _, s in scores)]
    means = {k: mean_of([s[k] for _, s in scores if s.get(k) is not None]) for k in present}
    ends = {"mean": "mean", "std": "std", "min": "low", "max": "high"}
    statistics = {f"after_{n}": {k: getattr(m, a) if m else None for k, m in means.items()} for n, a in ends.items()}
    return {**statistics, "seeds": [{"seed": n, "after": plain(s)} for n, s in scores]}


def _short(score_: dict[str, Any]) -> str:
    main = main_figure(score_)
    return f"{figure_title(main.name)} {main.value:.4f}" if main is not None else f"{score_['size_bytes']} bytes"


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
    before_title = f"before ({data['baseline']})"
    yield from table([{"": k, before_title: before[k], "after": after[k], **_spread(k, data)} for k in after])
    yield from noise_lines(data["after"], data["change"])
    if age := age_text(data["before"], before_title):
        yield age
    yield ""
    for number, step in enumerate(data["steps"], 1):
        summary = {k: v for k, v in step["report"]["summary"].items() if v not in ([], (), {})}
        text = ", ".join(f"{k.replace('_', ' ')} {cell(v)}" for k, v in summary.items())
        yield f"{number}  {step['pass']}  {seconds(step['seconds'])}  {text}"
    if "output" in data:
        yield f"saved as {data['output']}"
    if "curves" in data:
        yield f"curves in {data['curves']}"


def _spread(name: str, data: dict[str, Any]) -> dict[str, str]:
    """Column with mean and standard deviation over the seeds."""
    if "seeds" not in data:
        return {}
    mean, std = (figures(data[k]).get(name, "–") for k in ("after_mean", "after_std"))
    return {f"mean of {len(data['seeds'])} seeds": "–" if mean == "–" else f"{mean} ± {std}"}


COMMAND = Command("run", "replays a recipe on a model, with the score before and after", _arguments, _run)
