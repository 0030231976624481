"""Texts on a training: estimate, result, suggested learning rate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from espalier.app.figures.curves import figure_title, shares
from espalier.app.number_text import cell, count, duration, percent, plural, scaled, signed
from espalier.app.translation import message, tr
from espalier.model.graph.graph import Graph
from espalier.model.graph.ops import category
from espalier.passes.base import Report
from espalier.passes.tasks.base import all_metrics

TRANSFORMER, OTHER, ADAPTERS = 1e-4, 1e-3, 5e-4  # suggested learning rates


def estimate_text(summary: Mapping[str, Any]) -> str:
    """Text of an estimate: steps, time, trainable parameters, formats and masks."""
    parts = [
        plural(int(summary["steps"]), "step"),
        tr("about {} on this machine", duration(float(summary["seconds"]))),
        tr("{} of {} parameters train", scaled(summary["trainable_parameters"]), scaled(summary["parameters"])),
    ]
    formats, masks = summary.get("formats", 0), summary.get("masks", 0)
    items = [t for n, t in ((formats, plural(formats, "format")), (masks, plural(masks, "mask"))) if n]
    if items:
        one = (formats or masks) == 1
        items_text = ", ".join(items)
        parts.append(tr("{} is trained through", items_text) if one else tr("{} are trained through", items_text))
    return " · ".join(parts)


def result_text(report: Report) -> str:
    """Text of a result: best validation against the start, and the step whose weights are kept.

    Missing keys are skipped: a report read from a file may be incomplete.
    """
    summary, rows = report.summary, report.rows
    parts = [message(str(summary.get("ended", "finished"))).capitalize()]
    name = next((n for n in _metrics() if summary.get(f"validation_{n}") is not None), "")
    if name:
        best, start = summary[f"validation_{name}"], rows[0].get(f"validation_{name}") if rows else None
        parts.append(tr("validation {} {}", figure_title(name), _value(name, best, start)))
    if summary.get("kept_step"):  # otherwise the warning tells that the training did not help
        parts.append(tr("weights of step {} of {} are kept", count(summary["kept_step"]), count(summary["steps"])))
    if "seconds" in summary:
        parts.append(duration(float(summary["seconds"])))
    if summary.get("resumed_from"):
        parts.append(tr("resumed from step {}", count(summary["resumed_from"])))
    return " · ".join(parts) + "." + (f" {message(summary['warning'])}" if summary.get("warning") else "")


def _metrics() -> tuple[str, ...]:
    """Names of metrics, those of shares first and the loss last."""
    metrics = all_metrics()
    return (
        *(n for n, m in metrics.items() if m.share),
        *(n for n, m in metrics.items() if not m.share and n != "loss"),
    )


def _value(name: str, value: float, start: float | None) -> str:
    """A metric and its change from the start of the training."""
    if name in shares():
        change = tr(" ({} points)", signed(100 * (value - start), 1)) if start is not None else ""
        return f"{percent(value)}{change}"
    return cell(float(f"{value:.4g}")) + (f" ({value - start:+.3g})".replace("-", "−") if start is not None else "")


def suggested_rate(graph: Graph) -> tuple[float, str]:
    """Suggested learning rate for a model, and the reason."""
    if any(n.adapters for n in graph):
        return ADAPTERS, tr("adapters need a higher rate than full fine-tuning")
    if any(category(n) == "embedding" or n.op == "layer_norm" for n in graph):
        return TRANSFORMER, tr("usual for full fine-tuning of a transformer; 1e-5 changes a trained model less")
    return OTHER, tr("usual for a small network without attention")


def graph_text(graph: Graph) -> str:
    """Formats and masks of the graph, before an estimate."""
    formats = sum(len(n.precision) for n in graph)
    masks = sum(s.mask is not None for n in graph for s in n.sparsity.values())
    parts = [t for n, t in ((formats, plural(formats, "format")), (masks, plural(masks, "mask"))) if n]
    return tr("{} in the graph", tr(" and ").join(parts)) if parts else ""
