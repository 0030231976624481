"""How long an evaluation takes, judged from the last one: by its processor time and by the model's cost. No Qt."""

from __future__ import annotations

from dataclasses import dataclass

from espalier.model.graph.graph import Graph
from espalier.model.graph.ops import macs
from espalier.passes.score import one_sample

QUICK = 8.0  # processor seconds that an evaluation may take to be run at once after an edit
PATIENT = 60.0  # and to be run once no edit has come for as long as it takes


@dataclass(frozen=True, slots=True)
class Pace:
    """The last evaluation: its processor seconds, and the MACs of one sample of the model that it ran."""

    seconds: float
    macs: int

    def seconds_of(self, graph: Graph) -> float:
        """Processor seconds that an evaluation of `graph` on as many samples is expected to take.

        Proportional to the MACs. A format adds work that MACs do not count; the evaluation itself then corrects it.
        """
        return self.seconds * macs_of(graph) / self.macs if self.macs else self.seconds


def macs_of(graph: Graph) -> int:
    """Multiply–accumulates of one sample at the example's sizes."""
    sizes = one_sample(graph)
    return sum(macs(node, sizes) for node in graph)
