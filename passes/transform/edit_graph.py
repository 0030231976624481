"""Edits of the graph itself: remove, insert, connect and resize nodes."""

from __future__ import annotations

from dataclasses import dataclass, field

from espalier.model.errors import EspalierError, PassError
from espalier.model.graph.graph import Graph
from espalier.passes.base import Context, Report, Row, transform
from espalier.passes.edits.base import Edit


@dataclass(frozen=True, slots=True)
class EditGraphOptions:
    """Operations in order."""

    edits: tuple[Edit, ...] = field(
        default=(),
        metadata={
            "help": 'operations in order, such as {"replace": {"node": "act", "op": "relu"}}',
            "positional": True,
        },
    )

    @property
    def only_writes(self) -> bool:
        """Whether they only write on nodes: that needs no torch and no worker, and changes nothing that is computed."""
        return all(e.writes for e in self.edits)


@transform("edit_graph", "Edit graph", EditGraphOptions)
def edit_graph(graph: Graph, options: EditGraphOptions, context: Context) -> tuple[Graph, Report]:
    """Run operations on the graph: bypass, insert_after, replace, rewire, set_attr, mute, add_output, remove_output.

    `rename`, `note` and `tag` write on nodes, and change nothing that is computed.

    Shapes and dtypes are inferred from each edited node on. An invalid operation raises an error and changes nothing.
    New weights have a row with their origin.
    """
    if graph.runs == "module" and not all(e.writes for e in options.edits):
        raise PassError("A recorded model runs its own code, so its graph cannot be edited.",
                        "Open a model that torch.export can capture.")  # fmt: skip
    after, rows = graph, list[Row]()
    for number, edit in enumerate(options.edits):
        for target in edit.targets(after):
            before = after
            try:
                after = edit.apply(before, before[target], context)
            except EspalierError as error:
                text = f"edits[{number}] ({edit.tag}): {error.message}"
                raise type(error)(text, error.hint, error.node or target) from error
            rows.append(_row(edit, target, before, after))
    return after, Report("edit_graph", tuple(rows), _summary(rows, graph, after))


def _row(edit: Edit, target: str, before: Graph, after: Graph) -> Row:
    change = after.delta(before)
    new = {k: w for k, w in after.weights.items() if w.key not in {o.key for o in before.weights.values()}}
    return {
        "node": target if target in after.nodes else None, "edit": edit.tag, "target": target,
        "added": ", ".join(change.added), "removed": ", ".join(change.removed),
        "new_weights": ", ".join(new), "parameters": _parameters(after) - _parameters(before),
    }  # fmt: skip


def _summary(rows: list[Row], before: Graph, after: Graph) -> Row:
    added = _parameters(after) - _parameters(before)
    return {"edits": len(rows), "nodes_added": len(after) - len(before), "parameters_added": added}


def _parameters(graph: Graph) -> int:
    return sum(w.elements for w in graph.weights.values() if w.role == "parameter")
