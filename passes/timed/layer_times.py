"""Times of a graph's layers under formats, measured here and kept for this machine.

The runs take turns between formats, so that what else the machine does falls on all of them.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.model.borders import read_json, tried
from espalier.model.data.cache import cache_folder
from espalier.model.errors import OptionsError
from espalier.model.files import explained, write_text
from espalier.model.formats.base import Format
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Precision
from espalier.model.graph.ops import offered
from espalier.passes.base import Context
from espalier.passes.choices.edits import bare
from espalier.passes.running.splits import EvaluateOptions

if TYPE_CHECKING:
    from torch import fx


RUNS, WARM, SECONDS = 9, 2, 3.0  # runs of a format; at least three, then as many as this time allows
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


def measure(graph: Graph, options: EvaluateOptions, formats: Sequence[Format], context: Context) -> Times:
    """Least seconds by kind of layer: whatever else runs adds to them. Raises DataError without data."""
    from espalier.passes.running.batches import batches
    from espalier.passes.running.splits import load_split

    inputs, labels = next(batches(load_split(options, context), graph, options.batch_size))
    layers: dict[str, list[float]] = defaultdict(list)
    rounding: dict[str, float] = {}
    columns: list[Format | None] = [None, *formats]
    for number, each in enumerate(columns):
        context.progress(number, len(columns), f"timing {each.label if each else 'layers in float'}")
        tried = _with(graph, each)
        own, rounds = _timed(tried, inputs, context)
        for name, seconds in own.items():
            layers[kind_of(graph.nodes[name])].append(seconds)
        if each is not None:
            spread: dict[str, list[float]] = defaultdict(list)
            for (name, port), seconds in rounds.items():
                spread[f"{kind_of(graph.nodes[name])} {port} {bare(each)}"].append(seconds)
            rounding |= {k: sum(v) / len(v) for k, v in spread.items()}
    return Times(len(labels), {k: min(v) for k, v in layers.items()}, rounding, frozenset(map(bare, formats)))


def _with(graph: Graph, each: Format | None) -> Graph:
    """The graph with one format at all operands that take one, or with none at all."""
    held = Precision(each) if each is not None else None
    nodes = (
        replace(n, precision={p: held for p in PORTS if p in offered(n)} if held else {})
        for n in graph if n.call not in ("placeholder", "output")
    )  # fmt: skip
    return graph.replace(*nodes)


def _timed(graph: Graph, inputs: dict[str, Any], context: Context) -> tuple[dict[str, float], dict[Any, float]]:
    """Least seconds of each node, and of what rounds an operand, shared among those that read it."""
    import torch

    from espalier.model.torch.build import NODE, PORT, build
    from espalier.passes.running.batches import fit_error

    module = build(graph, context.store, context.callables, packed=True)
    found: dict[fx.Node, list[float]] = defaultdict(list)
    run = _clocked(module, found)
    with torch.no_grad(), fit_error(inputs):
        begin = time.perf_counter()
        for number in range(WARM + RUNS):
            if number == WARM:
                found.clear()
                begin = time.perf_counter()
            if number >= WARM + 3 and time.perf_counter() - begin > SECONDS:
                break
            run(inputs)
    own: dict[str, float] = {}
    rounds: dict[Any, float] = {}
    for node, seconds in found.items():
        if name := node.meta.get(NODE):
            own[name] = min(seconds)
        elif readers := [(n, p) for n, p in node.meta.get(PORT, ()) if p in PORTS]:
            rounds |= {place: min(seconds) / len(readers) for place in readers}
    return own, rounds


def _clocked(module: Any, found: dict[Any, list[float]]) -> Any:
    """Runs the module node by node, and notes how long each took."""
    from torch import fx

    class Clock(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            begin = time.perf_counter()
            value = super().run_node(n)
            if n.op in ("call_module", "call_function", "call_method"):
                found[n].append(time.perf_counter() - begin)
            return value

    clock = Clock(module)
    names = [n.target for n in module.graph.nodes if n.op == "placeholder"]
    return lambda inputs: clock.run(*(inputs.get(str(n)) for n in names))
