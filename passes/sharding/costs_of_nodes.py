"""Time and memory of a node on each rank."""

from __future__ import annotations

import math
from dataclasses import dataclass

from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import BITS, Weight
from espalier.model.graph.ops import category, floating, macs, spec
from espalier.model.graph.ports import choice
from espalier.passes.sharding.collectives import Collective, seconds, shards
from espalier.passes.sharding.factors import Call
from espalier.passes.sharding.mesh import Device, Mesh
from espalier.passes.sharding.options import ShardPlanOptions
from espalier.passes.sharding.strategies import Strategy

PER_ELEMENT = {"activation": 1, "add": 1, "norm": 5}
OPTIMISER_BYTES = {"adam": 8, "sgd": 0}  # per parameter: two moments in float32


@dataclass(frozen=True, slots=True)
class Sizing:
    """What costs are counted with. `accumulated`: runs after which gradients of weights are reduced once;
    `alive`: runs whose activations are kept at once."""

    graph: Graph
    mesh: Mesh
    device: Device
    options: ShardPlanOptions
    sizes: dict[str, int]
    accumulated: int = 1
    alive: int = 1

    def element_bytes(self, dtype: str) -> float:
        """Bytes of an element, floats as the options count them."""
        if self.options.dtype and dtype.startswith(("float", "bfloat")):
            return BITS[self.options.dtype] / 8
        return BITS.get(dtype, 32) / 8

    def port_bytes(self, node: Node, port: str) -> float:
        """Bytes of the whole tensor at a port, without formats."""
        meta = node.ports[port]
        return meta.elements(self.sizes) * self.element_bytes(meta.dtype)

    def coded(self, node: Node, port: str) -> float | None:
        """Bytes of the tensor at a port in its format; None for no format."""
        chosen = choice(node, port)
        if chosen is None or not self.options.formats or not floating(node.ports.get(port)):
            return None
        return chosen.format.stored_bits(node.ports[port].sizes(self.sizes)) / 8

    def weight_bytes(self, weight: Weight, coded: float | None) -> float:
        """Bytes that a whole stored weight takes: in training with its gradient and optimiser state, else in its
        format."""
        plain = self.element_bytes(weight.dtype)
        if not self.options.training:
            return coded if coded is not None else weight.elements * plain
        if not trained(weight):
            return weight.elements * plain
        master = 4 if plain < 4 else 0  # float32 copy of a 16-bit parameter
        return weight.elements * (2 * plain + OPTIMISER_BYTES[self.options.optimiser] + master)

    def compute(self, call: Call, strategy: Strategy, gradients: int) -> float:
        """Seconds of a node on a rank: the larger of arithmetic and memory traffic; in training with the backward pass,
        which takes as long as the forward pass for each of the `gradients` operands that get one."""
        node = call.node
        if spec(node.op).moves:
            return self._synchronised(call, strategy)
        out = math.prod(call.shapes["data_out"])
        flops = 2 * macs(node, self.sizes) or out * (5 if "softmax" in node.op else PER_ELEMENT.get(category(node), 1))
        moved = sum(self._accessed(call, p) / shards(at, self.mesh.shape) for p, at in strategy.ports.items())
        times = 1 + gradients if self.options.training else 1
        forward = max(flops * strategy.share / self.device.flops, moved / self.device.bandwidth)
        return times * forward + self._synchronised(call, strategy)

    def _accessed(self, call: Call, port: str) -> float:
        """Bytes read or written; an embedding reads only the indexed rows."""
        if call.node.op == "embedding" and port == "weight":
            port = "data_out"
        return self.coded(call.node, port) or self.port_bytes(call.node, port)

    def _synchronised(self, call: Call, strategy: Strategy) -> float:
        return seconds(self.synchronising(call, strategy), self.device)

    def synchronising(self, call: Call, strategy: Strategy) -> tuple[Collective, ...]:
        """In training, the all-reduces of two statistics per channel, forward and backward, of a batch norm whose
        samples are split."""
        if not self.options.training or not strategy.synchronised:
            return ()
        split = math.prod(n for n, p in zip(self.mesh.shape, strategy.ports["data_in"], strict=True) if p == "S1")
        size = 2 * 4 * call.shapes["data_in"][1] // split
        return tuple(Collective("all_reduce", axis, self.mesh.shape[axis], size, size)
                     for axis in strategy.synchronised for _ in range(2))  # fmt: skip

    def saved(self, call: Call, strategy: Strategy) -> float:
        """Bytes that a rank keeps for the backward pass: the results of what computes."""
        if not self.options.training or spec(call.node.op).moves:
            return 0.0
        kept = sum(self.port_bytes(call.node, p) / shards(strategy.ports[p], self.mesh.shape) for p in call.outs)
        return kept * self.alive

    def transient(self, call: Call, strategy: Strategy) -> float:
        """Bytes of a node's activations on a rank while it runs."""
        return sum(self.port_bytes(call.node, p) / shards(at, self.mesh.shape)
                   for p, at in strategy.ports.items() if p not in call.stored)  # fmt: skip


def trained(weight: Weight) -> bool:
    """Whether training changes a weight."""
    return weight.role == "parameter" and weight.trainable and not weight.rests and weight.dtype.startswith(
        ("float", "bfloat"))  # fmt: skip
