"""Options of a pass as its form first shows them: for the selected nodes, on the data that the score is of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from espalier.model.errors import EspalierError
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ops import category, decomposable
from espalier.passes.base import PassSpec
from espalier.passes.select import Select

if TYPE_CHECKING:
    from espalier.app.session.session import Session

BY_HAND = 200  # more selected nodes than this are named by type instead
# Passes that take one kind of node: others that happen to be selected are no subject of theirs.
TAKES: dict[str, Callable[[Node], bool]] = {
    "decompose_attention": decomposable,
    "replace_linear": lambda n: n.op == "linear",
    "pack_mx": lambda n: n.op == "linear",
    "fold_batch_norm": lambda n: n.op == "batch_norm",
}


def default_select(session: Session) -> Select:
    """The selected nodes, or all linear and convolution layers that the graph has."""
    if chosen := selected(session):
        return chosen
    document = session.document
    ops = {n.op for n in document.graph if category(n) == "linear" and "weight" in n.weights} if document else set()
    return Select("type", tuple(sorted(ops)) or ("linear",))


def selected(session: Session) -> Select | None:
    """The selected nodes; None where there are none, or too many to name."""
    chosen = session.selection
    return Select("name", chosen) if 0 < len(chosen) <= BY_HAND else None


def default_options(session: Session, spec: PassSpec) -> Any:
    """A pass's options as its form first shows them: for the selected nodes, on the data that the score is of."""
    from espalier.model.formats.integer import Integer
    from espalier.passes.choices.prune import PruneOptions
    from espalier.passes.choices.quantize import QuantizeOptions, Rule

    if spec.options is QuantizeOptions:
        fmt = Integer(8, 4)
        return QuantizeOptions((Rule(default_select(session), {"data_in": fmt, "weight": fmt, "bias": fmt}),))
    options = spec.options()
    names = {f.name for f in fields(options)}
    chosen = default_select(session) if spec.options is PruneOptions else _taken(session, spec.name)
    if spec.name == "remove_pruned":  # what is masked lies elsewhere than what happens to be selected
        chosen = None
    if "select" in names and chosen:
        options = replace(options, select=chosen)
    document = session.document
    if spec.name == "pack_mx" and document and not any(_in_mxint(n) for n in document.graph):
        options = replace(options, width="8")  # as they are they could not be packed
    if spec.name == "prune_structured" and chosen and document:
        options = _present(document.graph, options)
    known = session.measured_on
    if "data" in names and known.data:
        options = replace(options, **{n: v for n, v in known.which.items() if n in names})
    return options


def _taken(session: Session, name: str) -> Select | None:
    """The selected nodes that a pass can take; None where it can take none of them, or takes all kinds."""
    document, chosen, takes = session.document, selected(session), TAKES.get(name)
    if document is None or chosen is None or takes is None:
        return chosen
    able = tuple(i for i in chosen.values if takes(document.graph.nodes[i]))
    return Select("name", able) if able else None


def _in_mxint(node: Node) -> bool:
    from espalier.model.formats.mxint import MXInt

    chosen = node.precision.get("weight")
    return chosen is not None and isinstance(chosen.format, MXInt)


def _present(graph: Graph, options: Any) -> Any:
    """Structured pruning of a kind of unit that the selected nodes have."""
    from espalier.app.figures.structure import STRUCTURES
    from espalier.passes.structure.preview import kinds_of

    try:
        kinds = kinds_of(STRUCTURES.of(graph), options.select)
    except EspalierError:  # the form tells it
        return options
    return options if options.what in kinds or not kinds else replace(options, what=kinds[0])
