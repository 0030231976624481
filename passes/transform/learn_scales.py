"""Gives formats trainable scales, which fine-tuning updates together with the weights."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from espalier.model.errors import OptionsError, PassError, nearest
from espalier.model.formats.scaled import ScaledFormat
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Weight
from espalier.model.graph.ports import weight_at
from espalier.passes.base import Context, Report, Row, transform
from espalier.passes.choices.quantize import PORTS
from espalier.passes.choices.scale_names import scale_name
from espalier.passes.select import Select, chosen

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class LearnScalesOptions:
    """Selected ports, and the initial values of their scales."""

    select: Select = field(default=Select(), metadata={"help": "nodes whose formats have a scale"})
    ports: tuple[str, ...] = field(default=("weight",), metadata={"help": "weight, bias, data_in, data_out"})
    start: Literal["source", "data"] = field(
        default="source",
        metadata={"help": "source: as the format's paper begins (integers: 2·mean|x|/√q, LSQ); data: the format's own"},
    )

    def __post_init__(self) -> None:
        for port in self.ports:
            if port not in PORTS:
                raise OptionsError(f"ports: {port!r} is not a port.", nearest(port, PORTS))


@transform("learn_scales", "Learn scales", LearnScalesOptions)
def learn_scales(graph: Graph, options: LearnScalesOptions, context: Context) -> tuple[Graph, Report]:
    """Make the scales of the selected nodes' formats trainable weights of the graph.

    Initial values are those of the format's paper (integers: 2·mean|x|/√q, LSQ, Esser et al. 2020), or the format's own
    scale of the masked tensor. An existing scale keeps its value; an activation without a calibrated one is skipped.
    Uses of one tensor in one format share their scale.
    """
    first = "Give these ports a format with a scale first: scaled_integer, binary_scaled, binary_residual or ternary."
    nodes = chosen(
        graph, options.select, lambda n: bool(_ports(n, options)), "given a learned scale", no_node_hint=first
    )
    ports = [(n, p) for n in nodes for p in _ports(n, options)]
    learner = _Learner(graph, options, context)
    for i, (node, port) in enumerate(ports):
        context.progress(i, len(ports), node.id)
        learner.learn(node, port)
    if not learner.rows:
        node, port = ports[0]
        raise PassError(f"{node.id}.{port} has no scale yet, so none can be learned.",
                        "Calibrate it first: the initial scale of an activation comes from data.", node.id)  # fmt: skip
    scales = {str(r["scale"]): int(r["elements"]) for r in learner.rows}
    summary = {"ports": len(learner.rows), "scales": sum(scales.values()), "skipped": len(learner.skipped)}
    after = graph.replace(*learner.nodes.values()).with_weights(learner.weights)
    return after, Report("learn_scales", (*learner.rows, *learner.skipped), summary)


def _ports(node: Node, options: LearnScalesOptions) -> list[str]:
    formats = {p: c.format for p, c in node.precision.items()}
    return [p for p in options.ports if isinstance(formats.get(p), ScaledFormat)]


class _Learner:
    """Adds learned scales port by port; collects changed nodes and new weights."""

    def __init__(self, graph: Graph, options: LearnScalesOptions, context: Context) -> None:
        self.graph, self.options, self.context = graph, options, context
        self.nodes: dict[str, Node] = {}
        self.weights: dict[str, Weight] = {}
        self.rows: list[Row] = []
        self.skipped: list[Row] = []
        self._scales: dict[Any, str] = {}

    def learn(self, node: Node, port: str) -> None:
        """Give one port a learned scale, if it has an initial value."""
        chosen_ = node.precision[port]
        if chosen_.scale is None and weight_at(node, port, self.graph) is None:
            self.skipped.append({"node": node.id, "port": port, "skipped": "it has no initial scale; calibrate it"})
            return
        name = chosen_.scale or self._shared(node, port)
        weight = self.weights.get(name) or self.graph.weights[name]
        self.weights[name] = replace(weight, role="parameter", trainable=True)
        current = self.nodes.get(node.id, node)
        self.nodes[node.id] = replace(current, precision={**current.precision, port: replace(chosen_, scale=name)})
        self.rows.append({"node": node.id, "port": port, "format": chosen_.label, "scale": name,
                          "elements": weight.elements})  # fmt: skip

    def _shared(self, node: Node, port: str) -> str:
        """The name of the scale for a tensor with this format and mask, created on first use."""
        tensor = weight_at(node, port, self.graph)
        assert tensor is not None
        pruned = node.sparsity.get(port)
        use = tensor, str(node.precision[port].format), pruned.mask if pruned else None
        if use not in self._scales:
            name = scale_name(node, port, {**self.graph.weights, **self.weights})
            self.weights[name] = self._initial(node, port, self.graph.weights[tensor])
            self._scales[use] = name
        return self._scales[use]

    def _initial(self, node: Node, port: str, weight: Weight) -> Weight:
        """A new scale with its stored initial value."""
        from espalier.model.torch.tensors import to_numpy

        fmt = node.precision[port].format
        assert isinstance(fmt, ScaledFormat)
        values = self._values(node, port, weight)
        scale = to_numpy(fmt.first_scale(values) if self.options.start == "source" else fmt.scale_of(values))
        return Weight(self.context.store.hold(scale), scale.shape, scale.dtype)

    def _values(self, node: Node, port: str, weight: Weight) -> Tensor:
        """The stored tensor as the port's format receives it."""
        from espalier.model.torch.leaf_builder import effective
        from espalier.model.torch.tensors import to_torch

        if weight.key is None:
            text = "The model was opened without weights, so no scale can be initialised."
            raise PassError(text, "Open it with weights.")
        return effective(node, port, self.graph, self.context.store).seen(to_torch(self.context.store.get(weight.key)))
