"""`sweep`: one option over a list of values, in variants, over seeds; each point a recipe with its score."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from espalier.app.commands.command import Answer, Arguments, Command, Parser, UsageError
from espalier.app.commands.console import Console, cell, seconds, size, table
from espalier.app.commands.interrupts import ToldInterrupt
from espalier.app.commands.known_steps import known_steps
from espalier.app.commands.opening import Target, opened, save
from espalier.app.commands.option_flags import over
from espalier.app.commands.scoring import add_data, plain
from espalier.app.features.sweep.commands.sweep_files import KINDS, Record, keeper, write_result
from espalier.app.figures.curves import figure_title
from espalier.app.number_text import noise_text
from espalier.model.document.recipe import Recipe
from espalier.model.document.selections import selections_of
from espalier.passes.figure import OPENED, main_figure
from espalier.passes.recipes.config import recipe_to_dict
from espalier.passes.recipes.set_up import texts_of
from espalier.passes.running.data_fit import truncation_note
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.saved import recipe_with_members
from espalier.passes.sweep import journal
from espalier.passes.sweep.journal import Journal
from espalier.passes.sweep.results import (
    KEPT_STEP,
    Outcome,
    baseline_label,
    baseline_of,
    change_of,
    curves,
    main_name,
    mean_rows,
    metric_names,
    point_text,
    rows,
)
from espalier.passes.sweep.run import run
from espalier.passes.sweep.spec import SweepSpec, build_sweep, load_spec, with_overrides
from espalier.passes.sweep.sweep import Sweep, axis_name, axis_title, points
from espalier.passes.sweep.values import value_text

NOISE = "~"
TESTS = {"McNemar": "exact McNemar test on the same samples", "Newcombe": "Newcombe's interval of the difference",
         "paired t": "t-test on the same samples", "unpaired intervals": "the intervals of both"}  # fmt: skip

DETAILS = """examples
  main.py sweep demo:digits recipe.toml --over prune.sparsity=0.1:0.9:0.1 --variant prune.method=l1,random
  main.py sweep demo:digits recipe.toml --over quantize.width=4:32:4 --variant finetune=on,off -o curve.svg
  main.py sweep P.espalier --over quantize.frac_width=1:6 --along quantize.width=4:9 --seeds 3 -o P.espalier
The step is its pass's name (prune, prune#2 for the second) or its number. A short option means all that are called
so (width: that of every format); weight.width, rules.0.formats.weight.width name one. A file with the keys over, along,
variants, seeds and score beside the recipe's own does instead of the flags. A sweep that was cut off goes on where it
was when the same command runs again. One that is done knows its points again where they
went to a .jsonl or to the project that it varies (-o P.espalier); into any other kind all of them run anew."""


def _arguments(parser: Parser) -> None:
    parser.add_argument("target", metavar="SOURCE|PROJECT", help="the model")
    parser.add_argument("recipe", metavar="RECIPE", nargs="?", help="TOML or JSON; default: the project's own steps")
    parser.add_argument("--over", metavar="STEP.OPTION=VALUES", help="such as prune.sparsity=0.1:0.9:0.1 or 4,8,16")
    parser.add_argument("--along", metavar="STEP.OPTION=VALUES", action="append", default=[],
                        help="an option that moves along, value by value; may repeat")  # fmt: skip
    parser.add_argument("--variant", metavar="STEP[.OPTION]=VALUES", action="append", default=[],
                        help="a line for each: prune.method=l1,random or finetune=on,off; may repeat")  # fmt: skip
    parser.add_argument("--seeds", type=int, default=0, metavar="N", help="repeat with N seeds: means and spreads")
    parser.add_argument("--baseline", choices=("start", OPENED), default="start",
                        help="baseline of the points: the present project, or the model as opened")  # fmt: skip
    parser.add_argument("--figure", choices=metric_names(),
                        help="default: the main metric of the task; perplexity of language models")  # fmt: skip
    parser.add_argument("-o", "--output", metavar="FILE", help=f"{', '.join(KINDS)}; a project keeps its sweeps")
    add_data(parser)


@dataclass(slots=True)
class _Done:
    """The state of the sweep."""

    sweep: Sweep
    outcomes: list[Outcome]
    seconds: float = 0.0


def _run(arguments: Arguments, console: Console) -> Answer:
    if arguments.output and Path(arguments.output).suffix.lower() not in KINDS:
        raise UsageError(f"{arguments.output} has an unknown file type.", f"End it in {', '.join(KINDS)}.")
    recipe, wish = load_spec(arguments.recipe, arguments.seed) if arguments.recipe else (Recipe(), SweepSpec())
    wish = with_overrides(
        wish,
        over=arguments.over,
        along=tuple(arguments.along),
        variants=tuple(arguments.variant),
        seeds=arguments.seeds,
    )
    if not wish.varies:
        raise UsageError("There is nothing to vary.", "Add --over prune.sparsity=0.1:0.9:0.1, --variant or --seeds.")
    with opened(arguments.target, arguments, console) as target:
        project_recipe = target.project.recipe
        recipe = recipe_with_members(recipe, selections_of(target.project))
        sweep = build_sweep(
            Recipe((*project_recipe.steps, *recipe.steps)), wish, _score(arguments, wish, target), len(project_recipe)
        )
        if not sweep.recipe.steps:
            raise UsageError("There is no recipe to sweep.", "Give one, or a project that has steps.")
        sweep = replace(sweep, baseline=Recipe() if arguments.baseline == OPENED else project_recipe)
        points(sweep)
        with keeper(arguments.output, sweep) as record:
            done = _swept(sweep, target, record, console)
            data = _data(done, arguments) | texts_of(sweep.score, target.project.base, target.context)
            if arguments.output:
                data["output"] = _write(done, data, target, arguments)
            record.finish()
    return Answer(data, lambda: _lines(done, data))


def _score(arguments: Arguments, wish: SweepSpec, target: Target) -> EvaluateOptions | None:
    """Options of the score: data from --data, the file, or a demo's training data; flags override the file."""
    options = wish.score or EvaluateOptions()
    data = arguments.data or options.data or target.project.source.data
    overridden = over(options, arguments, data=data or "")
    return overridden if data else None


def _swept(sweep: Sweep, target: Target, record: Record, console: Console) -> _Done:
    """Run the sweep; every point is on disk before the next one starts."""
    outcomes = [o for j in journal.journals(target.project.extras).values() for o in j.outcomes]
    start, done, count = time.perf_counter(), _Done(sweep, []), len(points(sweep))
    try:
        for outcome in run(sweep, target.project.base, target.context, known_steps(target), [*outcomes, *record.known]):
            done.outcomes.append(outcome)
            record.add(outcome)
            target.store.flush(f"point-{len(done.outcomes)}-{id(done):x}")
            console.note(f"[{len(done.outcomes)}/{count}] {_told(sweep, outcome)}")
    except KeyboardInterrupt:
        message = f"Stopped after {len(done.outcomes)} of {count} points. {record.hint}".rstrip()
        console.note(message)
        raise ToldInterrupt(message) from None
    done.seconds = time.perf_counter() - start
    _refuse_nothing(done, record)
    return done


def _refuse_nothing(done: _Done, record: Record) -> None:
    """Raise UsageError with the first error if all points failed."""
    points = [o for o in done.outcomes if o.variant >= 0]
    if points and all(o.error for o in points):
        record.finish()  # no point to continue from
        first = points[0]
        raise UsageError(f"All {len(points)} points failed; {point_text(done.sweep, first)}: {first.error}",
                         first.hint or "Correct the recipe.")  # fmt: skip


def _figure(done: _Done) -> str:
    """The metric of tables and pictures where none is asked for."""
    if any("perplexity" in o.score for o in done.outcomes):
        return "perplexity"
    return main_name(done.outcomes) if done.sweep.score.data else "size_bytes"


def _told(sweep: Sweep, outcome: Outcome) -> str:
    text = point_text(sweep, outcome)
    if outcome.error:
        return f"{text}: {outcome.error} {outcome.hint}".rstrip()
    known = outcome.score
    main = main_figure(known)
    figure = f"{figure_title(main.name)} {main.value:.4f}" if main else size(known["size_bytes"])
    figure = f"perplexity {known['perplexity']:.4g}" if "perplexity" in known else figure
    took = "known already" if outcome.reused else seconds(sum(outcome.seconds.values()))
    return f"{text}: {figure}, {took}"


# -- the answer


def _data(done: _Done, arguments: Arguments) -> dict[str, Any]:
    sweep, outcomes = done.sweep, done.outcomes
    base = baseline_of(outcomes)
    recipes = {(p.variant, p.x, p.seed): p.recipe for p in points(sweep)}
    table = rows(sweep, outcomes)
    for row, o in zip(table, outcomes, strict=True):
        row["recipe"] = recipe_to_dict(recipes[o.place])
    failed = [o for o in outcomes if o.error]
    return {
        "axis": axis_name(sweep.recipe, sweep.axis) if sweep.axis else None,
        "values": list(sweep.values) if sweep.axis else [], "variants": [v.label for v in sweep.variants],
        "seeds": list(sweep.seeds), "figure": arguments.figure or _figure(done),
        "baseline": sweep.baseline_name, "baseline_score": plain(base.score) if base else {},
        "points": table, "curves": mean_rows(sweep, outcomes),
        "ran": sum(not o.reused for o in outcomes), "reused": sum(o.reused for o in outcomes),
        "failed": len(failed), "seconds": round(done.seconds, 3),
    }  # fmt: skip


def _write(done: _Done, data: dict[str, Any], target: Target, arguments: Arguments) -> str:
    path = Path(arguments.output)
    if path.suffix.lower() != ".espalier":
        write_result(path, Journal(done.sweep, tuple(done.outcomes)), data)
        return str(arguments.output)
    extras = target.project.extras
    same = next((n for n, j in journal.journals(extras).items() if j.sweep == done.sweep), journal.member(extras))
    record = journal.dump(Journal(done.sweep, tuple(done.outcomes)))
    return save(target, replace(target.project, extras={**extras, same: record}), arguments.output)


def _lines(done: _Done, data: dict[str, Any]) -> Iterable[str]:
    sweep, figure = done.sweep, data["figure"]
    lines = curves(sweep, done.outcomes, figure)
    title = figure_title(figure)
    labels = [v.label or title for v in sweep.variants]
    means = [dict(line) for line in lines]
    main = main_name(done.outcomes)
    marks = _within_noise(done) if figure == main else {}
    body = [
        {axis_title(sweep) if sweep.axis else "": value_text(value) if sweep.axis else f"{len(sweep.seeds)} seeds",
         **{label: _mean(means[v].get(x)) + marks.get((v, x), "") for v, label in enumerate(labels)}}
        for x, value in enumerate(sweep.values)
    ]  # fmt: skip
    yield title
    yield from table(body)
    if base := data["baseline_score"]:
        yield f"{baseline_label(sweep)} {cell(base.get(figure))}"
    yield from _noise_lines(done, data, bool(marks)) if figure == main else ()
    yield from [f"texts: {note}"] if (note := truncation_note(data)) else []
    yield from _failures(sweep, done.outcomes)
    yield from _unhelped(sweep, done.outcomes)
    counts = f"{data['ran']} points run, {data['reused']} known already, {data['failed']} failed"
    yield f"{counts}; {seconds(data['seconds'])}"
    if "output" in data:
        yield f"written to {data['output']}"


def _within_noise(done: _Done) -> dict[tuple[int, int], str]:
    """A mark for each point whose seeds are all within noise of the baseline."""
    by_point: dict[tuple[int, int], list[bool]] = {}
    for outcome in done.outcomes:
        if change := change_of(outcome, done.outcomes, done.sweep):
            by_point.setdefault(outcome.place[:2], []).append(change.noise)
    return {point: f" {NOISE}" for point, noise in by_point.items() if all(noise)}


def _noise_lines(done: _Done, data: dict[str, Any], marked: bool) -> Iterable[str]:
    """Lines on the number of samples, the noise of the baseline, and the meaning of the marks."""
    if accuracy := main_figure(data["baseline_score"]):
        yield noise_text(accuracy)
    if marked:
        changes = (change_of(o, done.outcomes, done.sweep) for o in done.outcomes)
        tests = dict.fromkeys(TESTS[c.test] for c in changes if c and c.noise)
        yield f"{NOISE} within noise of the baseline (95 %; {' or '.join(tests)})"


def _mean(mean: Any) -> str:
    if mean is None:
        return "failed"
    return cell(mean.mean) if mean.count == 1 else f"{cell(mean.mean)} ± {mean.std:.2g}"


def _failures(sweep: Sweep, outcomes: Sequence[Outcome]) -> Iterable[str]:
    for outcome in outcomes:
        if outcome.error:
            yield f"failed: {point_text(sweep, outcome)}: {outcome.error}"


def _unhelped(sweep: Sweep, outcomes: Sequence[Outcome]) -> Iterable[str]:
    """Lines on points whose training did not help, so that the earlier weights were kept."""
    unhelped = [point_text(sweep, o) for o in outcomes if o.variant >= 0 and o.score.get(KEPT_STEP) == 0]
    if unhelped:
        yield f"training did not help; the weights from before are kept: {'; '.join(unhelped)}"


COMMAND = Command("sweep", "varies an option of a recipe: a curve of scores", _arguments, _run, DETAILS)
