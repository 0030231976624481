"""Formats that a pass chooses without values, such as `quantize`, on one segment after the other."""

from __future__ import annotations

from dataclasses import replace

from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph, Node, without_unused_scales
from espalier.passes.streaming.stages import Stage, Work


class ChoiceStage(Stage):
    """The differences between the whole graph before and after a pass. Raises PassError where nodes come or go."""

    def __init__(self, before: Graph, after: Graph, title: str) -> None:
        super().__init__(title, (), count=0)
        delta = after.delta(before)
        if delta.added or delta.removed or before.weights.keys() != after.weights.keys():
            name = next(iter((*delta.added, *delta.removed)), next(iter(before.nodes)))
            raise PassError(f"{title} adds or removes nodes or weights ({name}), which a model that is streamed cannot "
                            "have.", "Select other nodes, or run the recipe in memory.", name)  # fmt: skip
        self.before, self.after, self.changed = before, after, frozenset(delta.changed)

    def run(self, work: Work) -> Graph:
        """Set what the pass has changed in the segment's nodes."""
        nodes = [self._with(n) for n in work.graph if n.id in self.changed and n.id in work.segment.nodes]
        return without_unused_scales(work.graph.replace(*nodes), work.graph)

    def _with(self, node: Node) -> Node:
        old, new = self.before.nodes[node.id], self.after.nodes[node.id]
        ports = {p for p in old.precision.keys() | new.precision.keys() if old.precision.get(p) != new.precision.get(p)}
        kept = {p: c for p, c in node.precision.items() if p not in ports}
        precision = {p: new.precision[p] if p in ports else kept[p] for p in new.precision if p in ports or p in kept}
        return replace(node, precision=precision, packed=new.packed, annotation=new.annotation)
