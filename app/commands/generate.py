"""Command `generate`: continues a text with a language model, beside the model as opened."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from espalier.app.commands.command import Answer, Arguments, Command, Parser
from espalier.app.commands.console import Console, table
from espalier.app.commands.opening import opened
from espalier.app.commands.option_flags import add_options, read_options
from espalier.model.document.recipe import Step
from espalier.passes.analysis.generate import GenerateOptions
from espalier.passes.base import run_step


def _arguments(parser: Parser) -> None:
    parser.add_argument("target", metavar="SOURCE|PROJECT", help="the model")
    parser.add_argument("prompt", metavar="TEXT", help="the text to continue, or the source of a target")
    add_options(parser, GenerateOptions, skip=("prompt", "baseline"))


def _run(args: Arguments, console: Console) -> Answer:
    options = read_options(GenerateOptions, args)
    with opened(args.target, args, console) as target:
        project = target.project
        base = project.base if project.recipe.active else None
        step = Step("generate", options, target.context.seed)
        report = run_step(project.graph, step, replace(target.context, base=base)).report
    if note := report.summary.get("note"):
        console.note(note)
    data = {**report.summary, "rows": [dict(row) for row in report.rows]}
    from espalier.passes.running.target_decoding import decodes_targets

    before = f"{args.prompt} → " if decodes_targets(project.graph) else args.prompt
    return Answer(data, lambda: _lines(before, data, compared=base is not None))


def _lines(prompt: str, data: dict[str, Any], *, compared: bool) -> Iterable[str]:
    yield f"{prompt}{data['text']}"
    if not compared:
        return
    yield ""
    yield f"{data['baseline']}: {prompt}{data['baseline_text']}"
    yield ""
    rows = [{**row, "token": repr(row["token"])[1:-1], "baseline": repr(row["baseline"])[1:-1]} for row in data["rows"]]
    yield from table(rows)
    same = f"the first {data['same_tokens']} of {data['tokens']} tokens are those of the model as {data['baseline']}"
    yield f"{same}; mean KL {data['kl']:.4g} nats per token"


COMMAND = Command("generate", "continues a text, or writes the target of one, with a language model", _arguments, _run)
