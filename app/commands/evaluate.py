"""Command `evaluate`: measures the score of a model on data, and its change from a baseline."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any

from espalier.app.commands.command import Answer, Arguments, Command, Parser, UsageError
from espalier.app.commands.console import Console, cell, facts
from espalier.app.commands.known_steps import known_steps
from espalier.app.commands.opening import Target, opened
from espalier.app.commands.scoring import (
    add_data,
    data_options,
    figures,
    graph_fields,
    noise_lines,
    plain,
    print_warning,
    score,
)
from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import DataError
from espalier.passes.analysis.baseline import ComparedOptions
from espalier.passes.base import run_step
from espalier.passes.figure import OPENED
from espalier.passes.recipes.replay import replay
from espalier.passes.running.splits import EvaluateOptions

NONE = "none"


def _arguments(parser: Parser) -> None:
    parser.add_argument("target", metavar="SOURCE|PROJECT", help="the model")
    parser.add_argument("--baseline", default=OPENED, metavar=f"{OPENED}|@N|{NONE}",
                        help="baseline of a project's score: the model as opened, the state after its first "
                        "N active steps, or none")  # fmt: skip
    add_data(parser)


def _run(args: Arguments, console: Console) -> Answer:
    with opened(args.target, args, console) as target:
        options = data_options(args, target)
        if options is None:
            raise DataError("There is no data to measure on.", "Give --data demo:NAME, hub:NAME, a file or a folder.")
        data = _score(target, options, args.baseline)
    print_warning(data, console)
    return Answer(plain(data), lambda: _lines(data))


def _score(target: Target, options: EvaluateOptions, baseline: str) -> dict[str, Any]:
    """The score, compared with the baseline if the project has steps."""
    recipe = target.project.recipe
    count = 0 if baseline in (OPENED, NONE) else _position(baseline, len(recipe.active))
    if baseline == NONE or not recipe.active:
        return score(target.project.graph, target, options)
    steps = Recipe(recipe.active[:count])
    graph = replay(target.project.base, steps, target.context, known_steps(target)).graph
    context = replace(target.context, base=graph)
    compared = ComparedOptions(**asdict(options), baseline=f"step {count}" if count else OPENED)
    report = run_step(target.project.graph, Step("evaluate", compared, context.seed), context).report
    return report.summary | graph_fields(target.project.graph)


def _position(text: str, steps: int) -> int:
    number = text.removeprefix("@")
    if text[:1] != "@" or not number.isdecimal() or int(number) > steps:
        raise UsageError(f"--baseline is {text!r}.", f"Write {OPENED}, {NONE}, or @N for the first N of {steps} steps.")
    return int(number)


def _lines(data: dict[str, Any]) -> Iterable[str]:
    texts = figures(data)
    if "kl" in data:
        texts["KL"] = f"{cell(data['kl'])} from {data['baseline']}"
    yield from facts(texts)
    yield from noise_lines(data, data.get("change", {}))


COMMAND = Command("evaluate", "measures a model's score on data", _arguments, _run)
