"""Estimates the time of an evaluation from the last one's processor time and the model's MACs. Free of Qt."""

from __future__ import annotations

from dataclasses import dataclass

from espalier.model.graph.graph import Graph
from espalier.model.graph.ops import macs
from espalier.passes.score import one_sample

IMMEDIATE_LIMIT = 8.0  # processor seconds up to which an evaluation runs right after an edit
DELAYED_LIMIT = 60.0  # up to which it runs after a pause of the same length


@dataclass(frozen=True, slots=True)
class EvaluationTime:
    """The last evaluation: processor seconds, and MACs of one sample of its model."""

    seconds: float
    macs: int

    def seconds_of(self, graph: Graph) -> float:
        """Expected processor seconds of an evaluation of `graph` on the same number of samples.

        Proportional to the MACs, which exclude the cost of formats; the next evaluation corrects the estimate.
        """
        return self.seconds * macs_of(graph) / self.macs if self.macs else self.seconds


def macs_of(graph: Graph) -> int:
    """Multiply–accumulates of one sample at the example's sizes."""
    sizes = one_sample(graph)
    return sum(macs(node, sizes) for node in graph)
