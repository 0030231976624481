"""Command `report`: prints or writes reports of analyses."""

from __future__ import annotations

import csv
import dataclasses
import html
import io
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from espalier.app.commands.command import Answer, Arguments, Command, Parser, UsageError
from espalier.app.commands.console import Console, cell, facts, table
from espalier.app.commands.measured import row_cells, summary_text
from espalier.app.commands.opening import opened
from espalier.app.commands.option_flags import add_options, read_options
from espalier.app.number_text import row_value
from espalier.model.document.recipe import Step
from espalier.model.errors import OptionsError, nearest
from espalier.model.files import write_text
from espalier.model.registry import PASSES
from espalier.passes.analysis.compile import CompileOptions
from espalier.passes.analysis.generation_scores import GenerationScoresOptions
from espalier.passes.analysis.profile import ProfileOptions
from espalier.passes.base import Report, run_step
from espalier.passes.observed.options import ObserveOptions

DEFAULT = "graph,parameters,cost"


def _arguments(parser: Parser) -> None:
    parser.add_argument("target", metavar="SOURCE|PROJECT", help="the model")
    names = ", ".join(n for n, spec in PASSES.items() if spec.kind == "analysis")
    parser.add_argument("--what", metavar="a,b", default=DEFAULT, help=f"reports: {names} (default {DEFAULT})")
    parser.add_argument("-o", "--output", metavar="FILE", help="write a .csv, .html or .json file")
    add_options(parser, ObserveOptions)
    known = {f.name for f in dataclasses.fields(ObserveOptions)}
    known |= {"baseline"}  # reports compare with the model as opened
    for more in (ProfileOptions, CompileOptions, GenerationScoresOptions):
        add_options(parser, more, skip=tuple(known))
        known |= {f.name for f in dataclasses.fields(more)}


def _run(args: Arguments, console: Console) -> Answer:
    names = [_analysis(n.strip()) for n in args.what.split(",") if n.strip()]
    if not names:
        raise UsageError("--what names no report.", f"Name some, such as {DEFAULT}.")
    write = writer(args.output) if args.output else None
    options = [_options(n, args) for n in names]
    if args.data and not any(hasattr(o, "data") for o in options):
        raise UsageError(f"--data does not apply to {', '.join(names)}.", "Add --what statistics or quantization.")
    with opened(args.target, args, console) as target:
        steps = [Step(n, o, args.seed) for n, o in zip(names, options, strict=True)]
        reports = [run_step(target.project.graph, s, target.context).report for s in steps]
    rows = [{"report": r.pass_name, **row} for r in reports for row in r.rows]
    data: dict[str, Any] = {"rows": rows, "summary": {r.pass_name: r.summary for r in reports}}
    if write:
        data["output"] = write_report(args.output, write(reports, data))
    return Answer(data, lambda: _lines(reports) if not write else [f"written to {args.output}"])


def _analysis(name: str) -> str:
    known = [n for n, spec in PASSES.items() if spec.kind == "analysis"]
    if name not in known:
        raise OptionsError(f"There is no report {name!r}.", nearest(name, known))
    return name


def _options(name: str, args: Arguments) -> Any:
    """Options of a pass; from the command line if it uses data."""
    kind = PASSES.get(name).options
    return read_options(kind, args) if "data" in kind.__dataclass_fields__ else kind()


def _lines(reports: list[Report]) -> Iterable[str]:
    for number, report in enumerate(reports):
        if number:
            yield ""
        yield PASSES.get(report.pass_name).title
        yield from facts(summary_text(report), "  ")
        if report.rows:
            yield ""
            yield from table(row_cells(report), "  ")


# -- files

Writer = Callable[[list[Report], dict[str, Any]], str]


def writer(path: str) -> Writer:
    """The writer of a file type; raises UsageError for unknown types."""
    kind = Path(path).suffix.lower()
    if kind not in _WRITERS:
        raise UsageError(f"{path} has an unknown file type.", f"End it in {', '.join(_WRITERS)}.")
    return _WRITERS[kind]


def write_report(path: str, text: str) -> str:
    """Write a file and return its path."""
    write_text(path, text, UsageError)
    return path


def _csv(reports: list[Report], data: dict[str, Any]) -> str:
    """CSV of all rows; with several reports the first column names the report."""
    rows: list[dict[str, Any]] = data["rows"] if len(reports) > 1 else [dict(r) for r in reports[0].rows]
    names = list(dict.fromkeys(k for row in rows for k in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: _bare(v) for k, v in row.items()} for row in rows)
    return out.getvalue()


def _bare(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return " ".join(map(str, value))
    return "" if value is None else value


def _html(reports: list[Report], data: dict[str, Any]) -> str:
    style = (
        "body{font:14px system-ui,sans-serif;margin:2rem}table{border-collapse:collapse;margin:.5rem 0 2rem}"
        "th,td{padding:.2rem .7rem;text-align:left;border-bottom:1px solid #ddd}td.n{text-align:right;"
        "font-variant-numeric:tabular-nums}"
    )
    head = f'<meta charset="utf-8"><title>Report</title><style>{style}</style>'
    return f'<!doctype html><html lang="en">{head}{"".join(_section(r) for r in reports)}</html>\n'


def _section(report: Report) -> str:
    cells = row_cells(report)
    names = list(dict.fromkeys(k for row in cells for k in row))
    head = "".join(f"<th>{html.escape(n.replace('_', ' '))}</th>" for n in names)
    rows = "".join("<tr>" + "".join(_td(row_value(row, n)) for n in names) + "</tr>" for row in cells)
    facts_ = ", ".join(f"{k}: {v}" for k, v in summary_text(report).items())
    title = html.escape(PASSES.get(report.pass_name).title)
    return f"<h2>{title}</h2><p>{html.escape(facts_)}</p><table><tr>{head}</tr>{rows}</table>"


def _td(value: Any) -> str:
    kind = ' class="n"' if isinstance(value, int | float) and not isinstance(value, bool) else ""
    return f"<td{kind}>{html.escape(cell(value))}</td>"


def _json(reports: list[Report], data: dict[str, Any]) -> str:
    from espalier.app.commands.console import plain

    return json.dumps(plain(data), ensure_ascii=False, indent=1, allow_nan=False) + "\n"


_WRITERS: dict[str, Writer] = {".csv": _csv, ".html": _html, ".json": _json}
COMMAND = Command("report", "prints or writes reports of the analyses", _arguments, _run)
