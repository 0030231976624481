"""What a training will do, does and did, in a line each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from espalier.app.words import count, duration, percent, plural, scaled, signed
from espalier.model.graph.graph import Graph
from espalier.model.graph.ops import category
from espalier.passes.base import Report

TRANSFORMER, OTHER, ADAPTERS = 1e-4, 1e-3, 5e-4  # learning rates to begin with


def will_do(told: Mapping[str, Any]) -> str:
    """The estimate: steps, time, what trains, what is trained through."""
    words = [
        plural(int(told["steps"]), "step"),
        f"about {duration(float(told['seconds']))} on this machine",
        f"{scaled(told['trainable_parameters'])} of {scaled(told['parameters'])} parameters train",
    ]
    through = [plural(told[k], k[:-1]) for k in ("formats", "masks") if told.get(k)]
    if through:
        words.append(f"{', '.join(through)} {'is' if through[0].startswith('1 ') else 'are'} trained through")
    return " · ".join(words)


def did(report: Report) -> str:
    """How a training ended: the best validation against that at its start, the step whose weights are kept.

    Of a training whose result came out of a file, where its report need not be whole, what there is.
    """
    told, rows = report.summary, report.rows
    words = [str(told.get("ended", "finished")).capitalize()]
    best, start = told.get("validation_accuracy"), rows[0].get("validation_accuracy") if rows else None
    if best is not None:
        change = f" ({signed(100 * (best - start), 1)} points)" if start is not None else ""
        words.append(f"validation accuracy {percent(best)}{change}")
    if told.get("kept_step"):  # else the warning says that the training did not help
        words.append(f"weights of step {count(told['kept_step'])} of {count(told['steps'])} are kept")
    if "seconds" in told:
        words.append(duration(float(told["seconds"])))
    if told.get("resumed_from"):
        words.append(f"went on from step {count(told['resumed_from'])}")
    return " · ".join(words) + "." + (f" {told['warning']}" if told.get("warning") else "")


def begins_with(graph: Graph) -> tuple[float, str]:
    """The learning rate to begin with for a model, and why."""
    if any(n.adapters for n in graph):
        return ADAPTERS, "adapters take a higher rate than all weights would"
    if any(category(n) == "embedding" or n.op == "layer_norm" for n in graph):
        return TRANSFORMER, "usual for all weights of a transformer; 1e-5 changes a trained one less"
    return OTHER, "usual for a small network without attention"


def through(graph: Graph) -> str:
    """What is trained through, before an estimate is known."""
    formats = sum(len(n.precision) for n in graph)
    masks = sum(s.mask is not None for n in graph for s in n.sparsity.values())
    parts = [plural(v, k) for v, k in ((formats, "format"), (masks, "mask")) if v]
    return f"{' and '.join(parts)} in the graph" if parts else ""
