"""Initial options of a pass form: the selected nodes, and the data that the score is measured on."""

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

MAX_NAMED = 200  # larger selections are not named node by node
# Passes that apply to one kind of node: a selection is reduced to nodes of that kind.
APPLIES_TO: dict[str, Callable[[Node], bool]] = {
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
    """The selected nodes; None if there are none or more than MAX_NAMED."""
    chosen = session.selection
    return Select("name", chosen) if 0 < len(chosen) <= MAX_NAMED else None


def default_options(session: Session, spec: PassSpec) -> Any:
    """The initial options of a pass form: for the selected nodes, on the data of the score."""
    from espalier.model.formats.integer import Integer
    from espalier.passes.choices.prune import PruneOptions
    from espalier.passes.choices.quantize import QuantizeOptions, Rule

    if spec.options is QuantizeOptions:
        fmt = Integer(8, 4)
        return QuantizeOptions((Rule(default_select(session), {"data_in": fmt, "weight": fmt, "bias": fmt}),))
    options = spec.options()
    names = {f.name for f in fields(options)}
    chosen = default_select(session) if spec.options is PruneOptions else _applicable(session, spec.name)
    if spec.name == "remove_pruned":  # the masked units need not be in the selected nodes
        chosen = None
    if "select" in names and chosen:
        options = replace(options, select=chosen)
    document = session.document
    if spec.name == "pack_mx" and document and not any(_in_mxint(n) for n in document.graph):
        options = replace(options, width="8")  # without MXInt formats there is nothing to pack
    if spec.name == "prune_structured" and chosen and document:
        options = _with_present_kind(document.graph, options)
    data = session.measured_on
    if "data" in names and data.data:
        options = replace(options, **{n: v for n, v in data.which.items() if n in names})
    return options


def _applicable(session: Session, name: str) -> Select | None:
    """The selected nodes that a pass applies to; None if there are none."""
    document, chosen, applies = session.document, selected(session), APPLIES_TO.get(name)
    if document is None or chosen is None or applies is None:
        return chosen
    ids = tuple(i for i in chosen.values if applies(document.graph.nodes[i]))
    return Select("name", ids) if ids else None


def _in_mxint(node: Node) -> bool:
    from espalier.model.formats.mxint import MXInt

    precision = node.precision.get("weight")
    return precision is not None and isinstance(precision.format, MXInt)


def _with_present_kind(graph: Graph, options: Any) -> Any:
    """Options of structured pruning, for a kind of unit that the selected nodes have."""
    from espalier.app.figures.structure_cache import STRUCTURES
    from espalier.passes.structure.preview import kinds_of

    try:
        kinds = kinds_of(STRUCTURES.of(graph), options.select)
    except EspalierError:  # the form shows it
        return options
    return options if options.what in kinds or not kinds else replace(options, what=kinds[0])
