"""`kernels --answers`: the kernels' questions with figures measured here, and those of a model's memory."""

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
    from espalier.kernels.bench.answers.known import Known
    from espalier.kernels.bench.answers.questions import Question

WIDTH = 100


def answered(found: Arguments, console: Console) -> Answer:
    """Measure what answers the questions that are named, or all, and tell."""
    import torch

    from espalier.kernels.bench import machine
    from espalier.kernels.bench.answers.known import Known, gathered
    from espalier.kernels.bench.answers.measure import measure
    from espalier.kernels.bench.answers.questions import QUESTIONS, question
    from espalier.kernels.bench.results import check_place

    asked = [question(n) for n in found.names] or list(QUESTIONS)
    if found.model and "memory" not in [q.key for q in asked]:
        raise UsageError("--model is of use to the question memory alone.", "Add memory to the questions.")
    if found.output:
        check_place(Path(found.output))
    device = found.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if why := machine.no_device(device):
        raise UsageError(f"Kernels cannot run on {device}: {why}.", "Choose --device cpu.")
    heard: list[object] = []
    known = Known(device)
    for one in asked:
        measure(one.key, device, console.progress, heard.append)
        known = gathered(device, heard, known)
    if found.model:
        known = with_project(known, _ledger(found, console), found.model)
    console.clear()
    data = {"machine": machine.facts(device), "answers": [_told(q, known) for q in asked]}
    if found.output:
        _write(found.output, data)
        data["output"] = found.output
    return Answer(data, lambda: _lines(asked, known, found.output))


def with_project(known: Known, rows: Iterable[Mapping[str, Any]], name: str) -> Known:
    """Beside the lines of a model's memory."""
    return replace(known, project=tuple(rows), project_name=name)


def _ledger(found: Arguments, console: Console) -> tuple[dict[str, Any], ...]:
    from espalier.model.document.recipe import Step
    from espalier.passes.analysis.memory import MemoryOptions
    from espalier.passes.base import run_step

    with opened(found.model, found, console) as target:
        step = Step("memory", MemoryOptions(device=found.device or "cpu"), found.seed)
        return run_step(target.project.graph, step, target.context).report.rows


def _told(asked: Question, known: Known) -> dict[str, Any]:
    from espalier.kernels.bench.answers.lines import lines_of

    lines = [asdict(line) for line in lines_of(asked.key, known)]
    return {"question": asked.key, "title": asked.title, "text": list(asked.text), "formulas": list(asked.formulas),
            "lines": lines, "links": [link.url for link in asked.links]}  # fmt: skip


def _write(path: str, data: dict[str, Any]) -> None:
    from espalier.app.commands.report import write_report

    write_report(path, json.dumps(data, indent=1, ensure_ascii=False) + "\n")


def _lines(asked: list[Question], known: Known, output: str | None) -> Iterator[str]:
    from espalier.app.features.kernels.state.answer_words import note_text, value_text
    from espalier.kernels.bench.answers.lines import lines_of

    for number, one in enumerate(asked):
        if number:
            yield ""
        yield one.title
        for text in one.text:
            yield from textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="  ")
        yield from (f"    {formula}" for formula in one.formulas)
        held = lines_of(one.key, known)
        yield from table([{"": x.label, "value": value_text(x), " ": note_text(x)} for x in held], "  ")
    if output:
        yield f"written to {output}"
