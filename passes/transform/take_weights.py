"""Copies trained weights from another model, as far as names and shapes allow: initial values for training."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph
from espalier.model.leftovers import scratch
from espalier.passes.base import Context, Report, transform


@dataclass(frozen=True, slots=True)
class TakeWeightsOptions:
    """The other model."""

    source: str = field(
        default="", metadata={"help": "a project, a Hugging Face folder, or another source", "edit": "file"}
    )


@transform("take_weights", "Take weights over", TakeWeightsOptions, lasting=True)
def take_weights(graph: Graph, options: TakeWeightsOptions, context: Context) -> tuple[Graph, Report]:
    """Copy weights of the same name from another model; for other sizes the leading rows and columns.

    Within heads, the leading rows of the leading heads; layers by relative depth. Formats and masks stay; those of the
    other model are not copied.
    """
    if not options.source:
        raise PassError("No model is named to take weights from.", "Give a project or a Hugging Face folder.")
    from espalier.model.opening import open_any
    from espalier.passes.structure.weight_inheritance import inherit

    with scratch() as folder:
        other = open_any(options.source, folder)
        inherited = inherit(graph, context.store, other.project.graph, other.store)
    if not inherited.taken:
        raise PassError(f"{Path(options.source).name} has no weight that fits this model.",
                        "Take one of the same family; names of layers must be equal.")  # fmt: skip
    changed = [n for n, w in inherited.graph.weights.items() if w.key != graph.weights[n].key]
    rows = tuple({"weight": n, "shape": list(graph.weights[n].shape)} for n in changed)
    summary = {"share": inherited.share, "taken": inherited.taken, "elements": inherited.elements,
               "changed": len(changed)}  # fmt: skip
    return inherited.graph, Report("take_weights", rows, summary)
