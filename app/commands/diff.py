"""`diff`: what differs between two models or projects."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from espalier.app.commands.command import Answer, Arguments, Command, Parser, UsageError
from espalier.app.commands.console import Console, cell, facts, table
from espalier.app.commands.opening import opened
from espalier.app.figures.difference import FIGURES, compared
from espalier.model.files import write_text
from espalier.model.graph.graph import Graph

ENDINGS = (".csv", ".svg")
COLUMNS = ("node", "what", "before", "after")
DETAILS = """\
Both are projects, packed models or sources, as other commands take them. Nodes are the same where their ids are. With
-o FILE.csv the table is written, with -o FILE.svg the graph of AFTER: added nodes are outlined in green, changed ones
in orange. The exit code is 0 where nothing differs, else 1."""


def _arguments(parser: Parser) -> None:
    parser.add_argument("before", metavar="BEFORE", help="the first model or project")
    parser.add_argument("after", metavar="AFTER", help="the second one")
    parser.add_argument("-o", "--output", metavar="FILE", help="write a .csv or .svg file")


def _run(found: Arguments, console: Console) -> Answer:
    ending = Path(found.output).suffix.lower() if found.output else ""
    if found.output and ending not in ENDINGS:
        raise UsageError(f"{found.output} has no known ending.", f"Use {' or '.join(ENDINGS)}.")
    with opened(found.before, found, console) as first, opened(found.after, found, console) as second:
        graphs = first.project.graph, second.project.graph
        figures, rows = compared(*graphs, (first.store, second.store))
    data: dict[str, Any] = {"summary": figures, "rows": list(rows)}
    if found.output:
        text = _csv(data["rows"]) if ending == ".csv" else _svg(*graphs)
        write_text(found.output, text, UsageError)
        data["output"] = found.output
    return Answer(data, lambda: _lines(data), 1 if rows else 0)


def _csv(rows: list[dict[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([row[c] for c in COLUMNS] for row in rows)
    return out.getvalue()


def _svg(before: Graph, after: Graph) -> str:
    from espalier.app.canvas.svg import to_svg
    from espalier.app.theme import CATEGORIES, LIGHT

    delta = after.delta(before)
    outlines = dict.fromkeys(delta.added, LIGHT.good) | dict.fromkeys(delta.changed, CATEGORIES["activation"])
    return to_svg(after, outlines=outlines)


def _lines(data: dict[str, Any]) -> Iterable[str]:
    figures = data["summary"]
    if not data["rows"]:
        yield "Nothing differs."
        return
    nodes = {k: str(figures[k]) for k in ("added", "removed", "changed")}
    costs = {n.replace("_", " "): f"{cell(figures[f'{n}_before'])} → {cell(figures[n])}" for n in FIGURES}
    yield from facts({"nodes": ", ".join(f"{v} {k}" for k, v in nodes.items()), **costs})
    yield ""
    yield from table(data["rows"])
    if "output" in data:
        yield f"written to {data['output']}"


COMMAND = Command("diff", "show what differs between two models or projects", _arguments, _run, DETAILS)
