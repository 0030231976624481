"""Option `--check` of the command `export`: the figures of the file in its runtime, and their table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from espalier.app.commands.command import Arguments
from espalier.app.commands.console import count, size
from espalier.app.commands.opening import Target
from espalier.app.commands.option_flags import read_options
from espalier.app.figures.curves import figure_title
from espalier.app.number_text import change_text
from espalier.kernels.bench.other_load import busy_note
from espalier.passes.export.checking.target import CheckOptions
from espalier.passes.figure import change_of

COLUMNS = ("model", "accuracy", "95 % interval", "largest difference", "ms", "of float", "bytes", "peak memory")


def check_options(args: Arguments, target: Target) -> CheckOptions:
    """The options of a check, on --data or else the data of the source."""
    options: CheckOptions = read_options(CheckOptions, args, data=args.data or target.project.source.data or "")
    return options


def check_lines(found: dict[str, Any], file_bytes: int) -> Iterable[str]:
    """A table of the runs, and what they are relative to."""
    metric = next((row["metric"] for row in found["rows"] if row.get("value") is not None), "accuracy")
    titles = tuple(figure_title(metric) if name == "accuracy" else name for name in COLUMNS)
    cells = [titles, *(_cells(row) for row in found["rows"] if not row["reason"])]
    widths = [max(len(row[i]) for row in cells) for i in range(len(COLUMNS))]
    yield ""
    yield from ("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in cells)
    yield from (f"{row['name']}: not made ({row['reason']})" for row in found["rows"] if row["reason"])
    n = next((row["n"] for row in found["rows"] if row["n"]), 0)
    samples = f", accuracies of {count(n)} samples" if n else ""
    threads = f"{found['threads']} thread{'' if found['threads'] == 1 else 's'}"
    yield (f"{found['runtime']}, {threads}: medians of {found['runs']} alternated runs of a batch of "
           f"{found['batch_size']}; differences from Espalier's results on that batch{samples}")  # fmt: skip
    yield f"packed file: {size(found['packed_bytes'])}; this file: {file_bytes / found['packed_bytes']:.2f} of it"
    own = next((row for row in found["rows"] if row["change"]), None)
    if own:
        yield f"{figure_title(metric)} of this file: {change_text(change_of(own['change']))}"
    if busy := busy_note(found["others"]):
        yield busy


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    interval = row["interval"]
    return (
        row["name"],
        _number(row["accuracy"] if row.get("value") is None else row["value"], ".4f"),
        "" if interval is None else f"{interval[0]:.4f}–{interval[1]:.4f}",
        _number(row["difference"], ".3g"),
        _number(row["milliseconds"], ".3f"),
        _number(row["ratio"], ".2f"),
        "" if row["bytes"] is None else f"{row['bytes']:,}",
        "" if row["peak_bytes"] is None else size(row["peak_bytes"]),
    )


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
