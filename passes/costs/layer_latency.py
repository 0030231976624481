"""Seconds that each layer took on this machine, and those of rounding its operands: measured once, then added up.

Formats are simulated on a processor: layers multiply in float, whatever their format. A format of what flows in costs
the time of rounding it; one of a stored weight costs none, since it is rounded once; and zeros are multiplied too.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from espalier.model.errors import OptionsError
from espalier.model.formats.base import Format
from espalier.model.graph.graph import Graph, Node
from espalier.passes.choices.edits import bare
from espalier.passes.costs.base import COSTS, Cost, Shares
from espalier.passes.timed.layer_times import MEASURE, PORTS, keep, known

if TYPE_CHECKING:
    from espalier.passes.base import Context
    from espalier.passes.running.splits import EvaluateOptions


def seconds_of(graph: Graph) -> float:
    """Seconds of all layers; no number where one, or its formats, were not measured."""
    times = known()
    if times is None:
        return math.nan
    try:
        found = [times.of(n) for n in graph]
    except OptionsError:
        return math.nan
    told = [s for s in found if s is not None]
    return sum(told) if told else math.nan


def of_node(node: Node, graph: Graph) -> float:
    """Seconds of a node with its formats; raises OptionsError where they were not measured."""
    times = known()
    found = times.of(node) if times is not None else None
    if found is None:
        raise OptionsError("How long these layers take on this machine has not been measured.", MEASURE, node.id)
    return found


def measured(graph: Graph, options: EvaluateOptions, context: Context) -> float:
    """The same, measured where it is not known."""
    from espalier.passes.timed.layer_times import measure

    keep(measure(graph, options, formats_of(graph), context))
    return seconds_of(graph)


def formats_of(graph: Graph) -> tuple[Format, ...]:
    """The formats at the operands of its layers, each once."""
    held = (n.precision[p].format for n in graph for p in PORTS if p in n.precision)
    return tuple({bare(f): f for f in held}.values())


COSTS.add("layer_latency", Cost(
    "layer_latency", "Layer latency", "s", "low",
    "seconds of a batch on this machine, layer by layer, as measured. Formats are simulated here: those of inputs cost "
    "the time of rounding them, those of stored weights and zeros change nothing",
    of=lambda graph, score: seconds_of(graph),
    measure=measured,
    shares=Shares(node=of_node, ports=PORTS),
    finder="layer_latency",
))  # fmt: skip
