"""The first lines of the panel Deploy as HTML: of a plan, and of a run."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from espalier.app.number_text import cell, data_size, mebibytes, plural
from espalier.app.theme import Palette
from espalier.app.translation import message, tr

Row = dict[str, Any]


def plan_html(summary: Row, compared: Sequence[Row], outdated: str, look: Palette) -> str:
    """The step of a plan against the baselines, and the memory; first, what the plan is `outdated` by."""
    parts = [
        tr("<b>step {} ms</b> predicted, mesh {} of {}", cell(summary["step_ms"]), summary["mesh"], summary["device"])
    ]
    if outdated:
        parts.insert(0, tr('<b style="color:{}">{}: plan again</b>', look.bad, outdated))
    for row in compared[1:]:
        if row["problem"]:
            parts.append(escape(message(row["problem"]).rstrip(".")))
        elif summary["step_ms"]:
            fits = "" if row["fits"] else tr(", does not fit")
            parts.append(tr("{} takes {:.2f} ×{}", row["plan"], row["step_ms"] / summary["step_ms"], fits))
    parts.append(tr("{} of a rank", mebibytes(summary["memory_bytes"])))
    if "moved_bytes" in summary:
        parts.append(tr("{} moved by a rank", data_size(summary["moved_bytes"])))
    if summary.get("saved_bytes"):
        parts.append(tr("formats save {} of it", data_size(summary["saved_bytes"])))
    notes = summary.get("notes", "")
    for row in compared:
        notes = notes.replace(row["problem"], "") if row["problem"] else notes  # said already
    if notes.strip():
        parts.append(escape(message(notes.strip())))
    source = summary["source"]
    parts.append(f'<span style="color:{look.muted}">{escape(message(source))}</span>' if source else "")
    return " · ".join(p for p in parts if p)


def devices_html(row: Row, outdated: str, look: Palette) -> str:
    """The prediction of one number of devices; first, what it is `outdated` by."""
    parts = [tr('<b style="color:{}">{}: predict again</b>', look.bad, outdated)] if outdated else []
    if row["problem"]:
        return " · ".join([*parts, f"mesh {row['mesh']}", escape(message(row["problem"]))])
    parts += [
        tr("<b>step {} ms</b> predicted, mesh {}", cell(row["step_ms"]), row["mesh"]),
        tr("compute {} ms, communication {} ms", cell(row["compute_ms"]), cell(row["communication_ms"])),
        tr("{} of a rank", mebibytes(row["memory_bytes"])),
    ]
    if "speedup" in row:
        parts.append(tr("{:.2f} × as fast as 1 device, efficiency {:.0f} %", row["speedup"], 100 * row["efficiency"]))
    return " · ".join(parts)


def run_html(summary: Row, what: str, random: bool, stale: bool, look: Palette) -> str:
    """How a run of `what` compares with one process. `random`: its inputs were random."""
    parts = [tr('<b style="color:{}">Of an earlier state of the model: run again</b>', look.bad)] if stale else []
    for name, found in summary["difference"].items():
        if not summary["compared"][name]:
            continue
        verdict = (
            tr("equal bit for bit")
            if found["equal"]
            else tr("equal within rounding")
            if found["within"]
            else tr("different")
        )
        colour = look.good if found["within"] else look.bad
        size = "" if found["equal"] else tr(", largest difference {}", cell(found["largest"]))
        count = plural(summary["compared"][name], "tensor")
        parts.append(tr('<b style="color:{}">{} {}</b> to one process{} (n = {})', colour, name, verdict, size, count))
    samples = plural(summary["samples"], "random sample" if random else "sample")
    parts.append(
        tr(
            "{} over the mesh {}: {} over {}, {} in {}",
            what,
            summary["mesh"],
            plural(summary["ranks"], "process", "processes"),
            summary["backend"],
            samples,
            plural(summary["batches"], "batch", "batches"),
        )
    )
    return " · ".join(parts)


def run_notes(summary: Row) -> str:
    """What limits the figures of a run."""
    predicted = summary["predicted"]
    why = tr("No prediction: {}", message(predicted["why"])) if "why" in predicted else ""
    source = predicted.get("source", "")
    notes = map(message, summary["notes"])
    basis = tr("Predicted: {}.", message(source)) if source and not why else ""
    return " ".join(filter(None, (*notes, why, basis)))


def run_figures(summary: Row, rows: Sequence[Row]) -> list[Row]:
    """A row per figure of a run: predicted, measured, and of one process. Times are those of the first batch."""
    predicted, figures = summary["predicted"], list[Row]()

    def add(figure: str, unit: str, *values: float | None) -> None:
        columns = ("predicted", "measured", tr("one process"))
        figures.append({"figure": f"{figure}, {unit}", **dict(zip(columns, values, strict=True))})

    for key, name in (("forward_seconds", "forward"), ("step_seconds", tr("forward + backward"))):
        if key in summary["sharded"]:
            add(
                name,
                "ms",
                *(_scaled(found.get(key), 1e3) for found in (predicted, summary["sharded"], summary["single"])),
            )
    stored = max(m["stored_bytes"] for m in summary["memory"])
    add(tr("weights of a rank"), "MiB", _scaled(predicted.get("weight_bytes"), 2**-20), stored / 2**20, None)
    add(tr("peak memory of a rank"), "MiB", None, max(m["peak_bytes"] for m in summary["memory"]) / 2**20, None)
    for name in dict.fromkeys(r["collective"] for r in rows if r["collective"]):
        own = [r for r in rows if r["collective"] == name]
        kind = name.replace("_", "-")
        for title, planned, counted in (
            ("forward", "planned_bytes", "bytes"),
            ("backward", "planned_backward", "backward"),
        ):
            add(f"{kind}, {title}", "bytes", sum(r[planned] for r in own), sum(r[counted] for r in own), None)
    return figures


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
