"""Writes a comparison of two states as text, CSV, HTML and SVG."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from espalier.app.canvas.svg import to_svg
from espalier.app.commands.console import plain, table
from espalier.app.figures.difference import (
    Row,
    StateComparison,
    score_rows,
    table_rows,
    test_words,
)
from espalier.app.theme import CATEGORIES, LIGHT, css_fonts
from espalier.model.errors import EspalierError, OptionsError

COLUMNS = ("node", "what", "before", "after", "size_bytes", "distance", "node_a")
ORANGE = CATEGORIES["activation"]
Writer = Callable[[StateComparison], str]
MAX_DRAWN = 4000  # nodes of a graph that is drawn into a page


def to_csv(comparison: StateComparison) -> str:
    """A line a change; where it was measured, also the divergence of the row of similar nodes that it is in."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    extra = ("row_kl", "row_kl_note") if comparison.costs else ()
    writer.writerow((*COLUMNS, *extra))
    for row, change in zip(comparison.diff.rows(), comparison.diff.changes, strict=True):
        cost = comparison.cost_of(change)
        more = [cost.kl if cost else None, (cost.note or None) if cost else None] if extra else []
        writer.writerow([*(row[c] for c in COLUMNS), *more])
    return out.getvalue()


def to_json(comparison: StateComparison) -> str:
    """The comparison as JSON text."""
    return json.dumps(plain(comparison.to_dict()), ensure_ascii=False, indent=1) + "\n"


def to_text(comparison: StateComparison) -> str:
    """Headline, scores and groups as aligned columns."""
    return "\n".join(lines(comparison)) + "\n"


def lines(comparison: StateComparison) -> Iterable[str]:
    """The lines of `to_text`."""
    yield f"A: {comparison.name_a}"
    yield f"B: {comparison.name_b}"
    yield comparison.headline
    yield ""
    yield from table(score_rows(comparison.scores))
    if words := test_words(comparison.scores):
        yield words
    if comparison.diff:
        yield ""
        yield from table(table_rows(comparison))
    if comparison.costs:
        yield comparison.costs.words


def drawing(comparison: StateComparison, *, first: bool = False) -> str:
    """The graph of B as SVG, or of A if `first`; outlined: changed nodes orange, added ones green, removed ones red."""
    diff, pairs = comparison.diff, comparison.diff.pairing.pairs
    if first:
        outlines = dict.fromkeys(diff.removed, LIGHT.bad) | {pairs[n]: ORANGE for n in diff.changed}
        return to_svg(comparison.a, outlines=outlines, arrangement=comparison.arrangements[0])
    outlines = dict.fromkeys(diff.added, LIGHT.good) | dict.fromkeys(diff.changed, ORANGE)
    return to_svg(comparison.b, outlines=outlines, arrangement=comparison.arrangements[1])


def to_html(comparison: StateComparison) -> str:
    """A page of its own: scores, groups, and both graphs where they are not too large."""
    title = f"{comparison.name_a} and {comparison.name_b}"
    graphs = "".join(
        f"<h2>Graph of {side}</h2><p>{escape(name)}</p>"
        f"<div class='graph'>{_picture(drawing(comparison, first=first), name)}</div>"
        for side, name, graph, first in (("A", comparison.name_a, comparison.a, True),
                                         ("B", comparison.name_b, comparison.b, False))
        if len(graph) <= MAX_DRAWN
    )  # fmt: skip
    words = test_words(comparison.scores)
    return (
        f"<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'><title>{escape(title)}</title>"
        f"<style>{_STYLE}</style></head><body><h1>Differences</h1>"
        f"<p><b>A</b> {escape(comparison.name_a)}<br><b>B</b> {escape(comparison.name_b)}</p>"
        f"<p>{escape(comparison.headline)}</p>"
        f"<h2>Score</h2>{html_table(score_rows(comparison.scores))}<p>{escape(words)}</p>"
        f"<h2>Changes</h2>{html_table(table_rows(comparison))}"
        f"<p>{escape(comparison.costs.words) if comparison.costs else ''}</p>{graphs}</body></html>\n"
    )


def _picture(svg: str, name: str) -> str:
    """An SVG document inside a page, apart from ids and styles of another one."""
    data = base64.b64encode(svg.encode()).decode()
    return f"<img alt='Graph of {escape(name, quote=True)}' src='data:image/svg+xml;base64,{data}'>"


def html_table(rows: Sequence[Row]) -> str:
    """Rows as an HTML table; empty without rows."""
    if not rows:
        return ""
    head = "".join(f"<th>{escape(name)}</th>" for name in rows[0])
    body = "".join("<tr>" + "".join(_cell(v) for v in row.values()) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    number = isinstance(value, int | float)
    return f"<td class='number'>{value}</td>" if number else f"<td>{escape(str(value))}</td>"


_STYLE = (
    f"body{{font:14px {css_fonts()};color:{LIGHT.text};max-width:1200px;margin:24px auto;padding:0 16px}}"
    "table{border-collapse:collapse}th,td{text-align:left;padding:3px 12px 3px 0;"
    f"border-bottom:1px solid {LIGHT.line};"
    "vertical-align:top}th{font-weight:600}.number{text-align:right;font-variant-numeric:tabular-nums}"
    f".graph{{overflow:auto;max-height:900px;border:1px solid {LIGHT.line};border-radius:6px}}"
)


WRITERS: dict[str, Writer] = {".csv": to_csv, ".html": to_html, ".json": to_json, ".txt": to_text}


def writer_for(
    path: Path, writers: Mapping[str, Writer] = WRITERS, error: type[EspalierError] = OptionsError
) -> Writer:
    """The writer for the suffix of a file; raises `error` for an unknown suffix."""
    if path.suffix.lower() not in writers:
        raise error(f"{path.name} has no known ending.", f"Use {', '.join(writers)}.")
    return writers[path.suffix.lower()]
