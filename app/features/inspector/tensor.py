"""Values of a port: a stored tensor or an activation sample, or why there are none."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace

from espalier.app.features.inspector.figures.activations import ActivationSamples, PortSample
from espalier.app.figures.facts import weight_of
from espalier.app.number_text import NOT_MEASURED, count
from espalier.app.translation import tr
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Weight
from espalier.model.graph.ops import quantisable
from espalier.model.graph.views import View, view_at
from espalier.model.store.weights import Tensor, WeightStore
from espalier.passes.analysis.activations import activation_ports

STORED = ("weight", "bias")


@dataclass(frozen=True, slots=True)
class Values:
    """Values of a port; `load` is None if there are none, and `trouble` says why.

    `key` identifies the content; `mask`: key of the pruning mask; `note`: description of the values.
    """

    port: str
    key: Hashable = None
    load: Callable[[], Tensor] | None = None
    mask: str | None = None
    view: View | None = None
    trouble: str = ""
    note: str = ""
    measurable: bool = False


def ports_shown(node: Node, graph: Graph) -> tuple[str, ...]:
    """The ports of a node whose values can be shown, stored ones first."""
    return (*(p for p in STORED if weight_of(node, p, graph)), *activation_ports(node))


def values_of(node: Node, port: str, graph: Graph, store: WeightStore, samples: ActivationSamples) -> Values:
    """The values of a port."""
    if port in STORED:
        return _stored(node, port, weight_of(node, port, graph), store)
    sample = samples.sample(node.id, port)
    return _measured(port, sample, samples) if port in quantisable(node) else Values(port)


def _stored(node: Node, port: str, weight: Weight | None, store: WeightStore) -> Values:
    trouble = _why_not(weight)
    if trouble or weight is None or weight.key is None:
        return Values(port, trouble=trouble)
    key, sparsity = weight.key, node.sparsity.get(port)
    return Values(port, key, lambda: store.get(key), sparsity.mask if sparsity else None, view_at(node, port))


def _why_not(weight: Weight | None) -> str:
    if weight is None:
        return tr("There is no stored tensor.")
    if weight.key is None:
        return tr("The model was opened without weights.")
    return "" if weight.dtype.startswith(("float", "bfloat")) else tr("Values of type {} have no grid.", weight.dtype)


def _measured(port: str, sample: PortSample | None, samples: ActivationSamples) -> Values:
    if sample is None:
        return _unmeasured(port, samples)
    data, number = sample.sample, sample.number
    note = tr("{} of {} values", count(data.rows.size), count(data.elements))
    tensor = Tensor(data.rows, "float32")
    values = Values(port, (data.node, port, number), lambda: tensor, note=note)
    if sample.present:
        return values
    state = tr("measuring again …") if samples.busy else tr("measured before the last edits")
    return replace(values, note=f"{note}, {state}", measurable=not samples.busy)


def _unmeasured(port: str, samples: ActivationSamples) -> Values:
    if samples.busy:
        return Values(port, trouble=tr("{}: measuring …", port))
    if samples.options is None:
        return Values(port, trouble=tr("{}: {}. Evaluate on data first (Run → Evaluate on…).", port, tr(NOT_MEASURED)))
    return Values(port, trouble=f"{port}: {tr(NOT_MEASURED)}.", measurable=True)
