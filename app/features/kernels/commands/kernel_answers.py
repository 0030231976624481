"""Option `kernels --answers`: the answers with metrics measured on this machine, and a model's memory ledger."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.app.commands.command import Answer, Arguments, UsageError
from espalier.app.commands.console import Console, table
from espalier.app.commands.opening import opened

if TYPE_CHECKING:
    from espalier.kernels.bench.answers.measured_data import MeasuredData
    from espalier.kernels.bench.answers.questions import Question

WIDTH = 100


def measure_answers(args: Arguments, console: Console) -> Answer:
    """Measure and print the named answers, or all."""
    import torch

    from espalier.kernels.bench import machine
    from espalier.kernels.bench.answers.measure import measure
    from espalier.kernels.bench.answers.measured_data import MeasuredData, merge_measurements
    from espalier.kernels.bench.answers.questions import QUESTIONS, question
    from espalier.kernels.bench.results import check_writable

    questions = [question(n) for n in args.names] or list(QUESTIONS)
    if args.model and "memory" not in [q.key for q in questions]:
        raise UsageError("--model applies to the question memory only.", "Add memory to the questions.")
    if args.output:
        check_writable(Path(args.output))
    device = args.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if reason := machine.no_device(device):
        raise UsageError(f"Kernels cannot run on {device}: {reason}.", "Choose --device cpu.")
    parts: list[object] = []
    measured = MeasuredData(device)
    for each in questions:
        measure(each.key, device, console.progress, parts.append)
        measured = merge_measurements(device, parts, measured)
    if args.model:
        measured = with_project(measured, _ledger(args, console), args.model)
    console.clear()
    data = {"machine": machine.facts(device), "answers": [_as_dict(q, measured) for q in questions]}
    if args.output:
        _write(args.output, data)
        data["output"] = args.output
    return Answer(data, lambda: _lines(questions, measured, args.output))


def with_project(measured: MeasuredData, rows: Iterable[Mapping[str, Any]], name: str) -> MeasuredData:
    """Add the ledger lines of a model."""
    return replace(measured, project=tuple(rows), project_name=name)


def _ledger(args: Arguments, console: Console) -> tuple[dict[str, Any], ...]:
    from espalier.model.document.recipe import Step
    from espalier.passes.analysis.memory import MemoryOptions
    from espalier.passes.base import run_step

    with opened(args.model, args, console) as target:
        step = Step("memory", MemoryOptions(device=args.device or "cpu"), args.seed)
        return run_step(target.project.graph, step, target.context).report.rows


def _as_dict(question: Question, measured: MeasuredData) -> dict[str, Any]:
    from espalier.kernels.bench.answers.lines import lines_of

    lines = [asdict(line) for line in lines_of(question.key, measured)]
    return {"question": question.key, "title": question.title, "text": list(question.text),
            "formulas": list(question.formulas), "lines": lines,
            "links": [link.url for link in question.links]}  # fmt: skip


def _write(path: str, data: dict[str, Any]) -> None:
    from espalier.app.commands.report import write_report

    write_report(path, json.dumps(data, indent=1, ensure_ascii=False) + "\n")


def _lines(questions: list[Question], measured: MeasuredData, output: str | None) -> Iterator[str]:
    from espalier.app.features.kernels.state.answer_text import note_text, value_text
    from espalier.kernels.bench.answers.lines import lines_of

    for number, each in enumerate(questions):
        if number:
            yield ""
        yield each.title
        for text in each.text:
            yield from textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="  ")
        yield from (f"    {formula}" for formula in each.formulas)
        rows = lines_of(each.key, measured)
        yield from table([{"": x.label, "value": value_text(x), " ": note_text(x)} for x in rows], "  ")
    if output:
        yield f"written to {output}"
