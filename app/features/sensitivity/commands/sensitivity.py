"""Command `sensitivity`: predicts and measures the output divergence of each format at each port."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable
from typing import Any

from espalier.app.commands.command import Answer, Arguments, Command, Parser
from espalier.app.commands.console import Console, cell, facts, seconds, table
from espalier.app.commands.opening import opened
from espalier.app.commands.option_flags import add_options, read_options
from espalier.app.commands.report import write_report, writer
from espalier.app.number_text import plural
from espalier.model.document.codec import encode
from espalier.model.document.recipe import Step
from espalier.model.errors import DataError, OptionsError
from espalier.model.formats.base import Format, parse_format
from espalier.passes.analysis.sensitivity import SensitivityOptions
from espalier.passes.base import Report, run_step
from espalier.passes.search.format_lists import FLOAT, formats_of

DETAILS = """examples
  main.py sensitivity demo:reviews --data demo:reviews
  main.py sensitivity P.espalier --data FOLDER --formats "integer(width=4|8), mxint" --ports weight,data_in -o S.csv
  main.py sensitivity demo:digits --data demo:digits --sparsities 0.5,0.8 --exact
predicted is the KL divergence of the outputs from the baseline's, nats a sample; noise the error over the signal.
Formats without a scale get the binary point or exponent bias of least error at each port."""


def _arguments(parser: Parser) -> None:
    parser.add_argument("target", metavar="SOURCE|PROJECT", help="the model")
    parser.add_argument("--formats", metavar="A,B", help="formats, such as integer(width=4|8), mxint (default all)")
    parser.add_argument("--ports", metavar="a,b", help="of weight, bias, data_in, data_out (default all)")
    parser.add_argument("--sparsities", metavar="0.5,0.8", help="shares of weights and layers' inputs to prune as well")
    parser.add_argument("--exact", "--true", action="store_true", default=None,
                        help="measure every candidate, one at a time; an interrupted run can be continued")  # fmt: skip
    parser.add_argument("-o", "--output", metavar="FILE", help="write a .csv, .html or .json file")
    add_options(parser, SensitivityOptions, skip=("formats", "ports", "sparsities", "select", "exact"))


def _run(args: Arguments, console: Console) -> Answer:
    write = writer(args.output) if args.output else None
    overrides = {
        "formats": encode(_formats(args.formats)),
        "ports": _split_list(args.ports),
        "sparsities": _shares(args.sparsities),
    }
    with opened(args.target, args, console) as target:
        data = args.data or target.project.source.data
        if not data:
            raise DataError("Sensitivities need data, and none is named.",
                            "Give --data demo:NAME, hub:NAME, a file or a folder.")  # fmt: skip
        options = read_options(SensitivityOptions, _plain(args), data=data, **overrides)
        report = run_step(target.project.graph, Step("sensitivity", options, args.seed), target.context).report
    answer: dict[str, Any] = {
        "rows": list(report.rows),
        "summary": report.summary,
        "seconds": report.summary["seconds"],
    }
    if write:
        answer["output"] = write_report(args.output, write([report], answer))
    return Answer(answer, lambda: _lines(report, args.output if write else None))


def _plain(args: Arguments) -> Arguments:
    """The arguments without the list flags."""
    return Namespace(**{k: v for k, v in vars(args).items() if k not in ("formats", "ports", "sparsities")})


def _formats(text: str | None) -> tuple[Format, ...]:
    """Parse a list of formats without float; all formats if none is given."""
    return tuple(parse_format(n) for n in formats_of(text, "--formats") if n != FLOAT) if text else ()


def _split_list(text: str | None) -> list[str]:
    return [w.strip() for w in (text or "").split(",") if w.strip()]


def _shares(text: str | None) -> list[float]:
    try:
        return [float(w) for w in _split_list(text)]
    except ValueError:
        raise OptionsError(f"--sparsities is {text!r}.", "Write shares such as 0.5,0.8.") from None


def _lines(report: Report, file: str | None) -> Iterable[str]:
    """Lines of the summary, and of the rows unless written to a file."""
    summary = {k: v for k, v in report.summary.items() if k not in ("correction", "evidence")}
    yield from facts({k.replace("_", " "): cell(v) for k, v in summary.items()}, "  ")
    yield ""
    if file is None:
        rows = [{k: v for k, v in row.items() if k not in ("format", "sparsity")} for row in report.rows]
        yield from table(rows, "  ")
    else:
        yield f"{plural(len(report.rows), 'row')} written to {file}"
    yield seconds(report.summary["seconds"])


COMMAND = Command("sensitivity", "predicts what formats do to the outputs, layer by layer", _arguments, _run, DETAILS)
