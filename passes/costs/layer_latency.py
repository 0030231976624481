"""Seconds that each layer took on this machine, and those of rounding its operands: measured once, then added up.

Formats are simulated on a processor: layers multiply in float, whatever their format. A format of what flows in costs
the time of rounding it; one of a stored weight costs none, since it is rounded once; and zeros are multiplied too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from espalier.model.borders import read_json, tried
from espalier.model.data.cache import cache_folder
from espalier.model.errors import OptionsError
from espalier.model.files import explained, write_text
from espalier.model.formats.base import Format
from espalier.model.graph import Graph, Node
from espalier.passes.allocation.places import bare
from espalier.passes.costs.base import COSTS, Cost, Shares

if TYPE_CHECKING:
    from espalier.passes.analysis.evaluate import EvaluateOptions
    from espalier.passes.base import Context

PORTS = ("data_in", "weight")
FILE = "layer_latency.json"
MEASURE = "Allocate has a link that measures; elsewhere it is report --what layer_latency --data …"


@dataclass(frozen=True, slots=True)
class Times:
    """`layers`: kind of layer → seconds of a batch; `rounding`: kind, port and format → seconds; `formats`: measured.

    A kind is an operation at its sizes, so that layers that are alike share a figure.
    """

    batch: int
    layers: Mapping[str, float]
    rounding: Mapping[str, float]
    formats: frozenset[str]

    def of(self, node: Node) -> float | None:
        """Seconds of a node with its formats; None where it was not measured. Raises OptionsError for a format."""
        kind = kind_of(node)
        held = self.layers.get(kind)
        if held is None:
            return None
        for port in PORTS:
            precision = node.precision.get(port)
            if precision is None:
                continue
            name = bare(precision.format)
            if name not in self.formats:
                raise OptionsError(f"How long {precision.format.label} takes has not been measured.", MEASURE, node.id)
            held += self.rounding.get(f"{kind} {port} {name}", 0.0)
        return held


def kind_of(node: Node) -> str:
    """A node's operation and its sizes."""
    sizes = (f"{p}:{'x'.join(map(str, meta.shape))}" for p, meta in sorted(node.ports.items()))
    return f"{node.op} {' '.join(sizes)}"


def path() -> Path:
    """Where this machine's times lie."""
    return cache_folder().parent / FILE


def keep(new: Times) -> None:
    """Add them to what is known of batches of that size, in one go; of other sizes nothing stays."""
    held, old = path(), known()
    same = old if old is not None and old.batch == new.batch else Times(new.batch, {}, {}, frozenset())
    times = Times(
        new.batch, {**same.layers, **new.layers}, {**same.rounding, **new.rounding}, same.formats | new.formats
    )
    with explained(held):
        held.parent.mkdir(parents=True, exist_ok=True)
    write_text(held, json.dumps({"batch": times.batch, "layers": dict(times.layers), "rounding": dict(times.rounding),
                                 "formats": sorted(times.formats)}))  # fmt: skip


_read: tuple[tuple[str, int], Times | None] = (("", 0), None)


def known() -> Times | None:
    """What was measured last on this machine; read again when the file is another."""
    global _read
    held = path()
    try:
        stamp = str(held), held.stat().st_mtime_ns
    except OSError:
        return None
    if _read[0] != stamp:
        _read = stamp, _parsed(held)
    return _read[1]


def _parsed(held: Path) -> Times | None:
    """None where the file cannot be read: then it is as if nothing had been measured."""

    def read() -> Times:
        data = read_json(held)
        layers, rounding = ({str(k): float(v) for k, v in data[n].items()} for n in ("layers", "rounding"))
        return Times(int(data["batch"]), layers, rounding, frozenset(map(str, data["formats"])))

    return tried(read, None)


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
    from espalier.passes.analysis.layer_latency import measure

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
