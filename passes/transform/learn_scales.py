"""Give formats trainable scales, so that fine-tuning moves them together with the weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from espalier.model.errors import OptionsError, PassError, nearest
from espalier.model.formats.scaled import ScaledFormat
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Weight
from espalier.model.graph.ports import weight_at
from espalier.passes.base import Context, Report, Row, transform
from espalier.passes.choices.quantize import PORTS
from espalier.passes.select import Select, chosen

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class LearnScalesOptions:
    """Which ports, and where their scales begin."""

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
    """Make the scales of the selected nodes' formats weights of the graph, which training then moves.

    They begin as the format's source says (integers: 2·mean|x|/√q, LSQ, Esser et al. 2020), or at the format's own
    scale, of the stored tensor after its mask. A port that has a scale already keeps its value; an activation needs one
    from calibration, and is passed over without. Uses of one tensor in one format share their scale.
    """
    first = "Give these ports a format with a scale first: scaled_integer, binary_scaled, binary_residual or ternary."
    nodes = chosen(graph, options.select, lambda n: bool(_ports(n, options)), "given a learned scale", first=first)
    places = [(n, p) for n in nodes for p in _ports(n, options)]
    learner = _Learner(graph, options, context)
    for i, (node, port) in enumerate(places):
        context.progress(i, len(places), node.id)
        learner.learn(node, port)
    if not learner.rows:
        node, port = places[0]
        raise PassError(f"{node.id}.{port} has no scale yet, so none can be learned.",
                        "Calibrate it first: the scale of an activation begins from data.", node.id)  # fmt: skip
    scales = {str(r["scale"]): int(r["elements"]) for r in learner.rows}
    summary = {"ports": len(learner.rows), "scales": sum(scales.values()), "skipped": len(learner.left)}
    after = graph.replace(*learner.nodes.values()).with_weights(learner.weights)
    return after, Report("learn_scales", (*learner.rows, *learner.left), summary)


def _ports(node: Node, options: LearnScalesOptions) -> list[str]:
    held = node.precision
    return [p for p in options.ports if p in held and isinstance(held[p].format, ScaledFormat)]


class _Learner:
    """The graph's nodes and weights as they come to be."""

    def __init__(self, graph: Graph, options: LearnScalesOptions, context: Context) -> None:
        self.graph, self.options, self.context = graph, options, context
        self.nodes: dict[str, Node] = {}
        self.weights: dict[str, Weight] = {}
        self.rows: list[Row] = []
        self.left: list[Row] = []
        self._known: dict[Any, str] = {}

    def learn(self, node: Node, port: str) -> None:
        """Give one port a learned scale, if one can begin."""
        chosen_ = node.precision[port]
        if chosen_.scale is None and weight_at(node, port, self.graph) is None:
            self.left.append({"node": node.id, "port": port, "skipped": "it has no scale to begin with; calibrate it"})
            return
        name = chosen_.scale or self._shared(node, port)
        held = self.weights.get(name) or self.graph.weights[name]
        self.weights[name] = replace(held, role="parameter", trainable=True)
        now = self.nodes.get(node.id, node)
        self.nodes[node.id] = replace(now, precision={**now.precision, port: replace(chosen_, scale=name)})
        self.rows.append({"node": node.id, "port": port, "format": chosen_.label, "scale": name,
                          "elements": held.elements})  # fmt: skip

    def _shared(self, node: Node, port: str) -> str:
        """The name of the scale that this use of a tensor has in common with others; made at the first."""
        tensor = weight_at(node, port, self.graph)
        assert tensor is not None
        pruned = node.sparsity.get(port)
        use = tensor, str(node.precision[port].format), pruned.mask if pruned else None
        if use not in self._known:
            name = scale_name(node, port, {**self.graph.weights, **self.weights})
            self.weights[name] = self._begun(node, port, self.graph.weights[tensor])
            self._known[use] = name
        return self._known[use]

    def _begun(self, node: Node, port: str, weight: Weight) -> Weight:
        """The new weight, its value stored."""
        from espalier.model.torch.tensors import to_numpy

        fmt = node.precision[port].format
        assert isinstance(fmt, ScaledFormat)
        seen = self._seen(node, port, weight)
        scale = to_numpy(fmt.first_scale(seen) if self.options.start == "source" else fmt.scale_of(seen))
        return Weight(self.context.store.hold(scale), scale.shape, scale.dtype)

    def _seen(self, node: Node, port: str, weight: Weight) -> Tensor:
        """The stored tensor as the port's format sees it."""
        from espalier.model.torch.build import effective
        from espalier.model.torch.tensors import to_torch

        if weight.key is None:
            text = "The model was opened without weights, so no scale can begin from them."
            raise PassError(text, "Open it with weights.")
        return effective(node, port, self.graph, self.context.store).seen(to_torch(self.context.store.get(weight.key)))


def scale_name(node: Node, port: str, weights: Mapping[str, Weight]) -> str:
    """The name of a new scale among `weights`: `<module>.weight_scale`, numbered where that is taken."""
    first = f"{node.target if node.call == 'call_module' else node.id}.{port}_scale"
    name, count = first, 0
    while name in weights:
        count += 1
        name = f"{first}_{count}"
    return name
