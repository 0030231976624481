"""Measured times of a graph's layers with formats, cached for this machine."""

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


RUNS, WARM, SECONDS = 9, 2, 3.0  # runs of a format, warm-up runs; time limit after three runs
PORTS = ("data_in", "weight")


FILE = "layer_latency.json"


MEASURE = "Measure in Allocate, or with report --what layer_latency --data …"


@dataclass(frozen=True, slots=True)
class Times:
    """`layers`: kind of layer → seconds per batch; `rounding`: kind, port and format → seconds; `formats`: measured.

    A kind is an operation with its sizes, so that equal layers share an entry.
    """

    batch: int
    layers: Mapping[str, float]
    rounding: Mapping[str, float]
    formats: frozenset[str]

    def of(self, node: Node) -> float | None:
        """Seconds of a node with its formats; None if not measured. Raises OptionsError for an unmeasured format."""
        kind = kind_of(node)
        total = self.layers.get(kind)
        if total is None:
            return None
        for port in PORTS:
            precision = node.precision.get(port)
            if precision is None:
                continue
            name = bare(precision.format)
            if name not in self.formats:
                raise OptionsError(f"The time of {precision.format.label} has not been measured.", MEASURE, node.id)
            total += self.rounding.get(f"{kind} {port} {name}", 0.0)
        return total


def kind_of(node: Node) -> str:
    """A node's operation and its sizes."""
    sizes = (f"{p}:{'x'.join(map(str, meta.shape))}" for p, meta in sorted(node.ports.items()))
    return f"{node.op} {' '.join(sizes)}"


def path() -> Path:
    """File of this machine's times."""
    return cache_folder().parent / FILE


def keep(new: Times) -> None:
    """Add times to the file, atomically; times of other batch sizes are removed."""
    file, old = path(), known()
    same = old if old is not None and old.batch == new.batch else Times(new.batch, {}, {}, frozenset())
    times = Times(
        new.batch, {**same.layers, **new.layers}, {**same.rounding, **new.rounding}, same.formats | new.formats
    )
    with explained(file):
        file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, json.dumps({"batch": times.batch, "layers": dict(times.layers), "rounding": dict(times.rounding),
                                 "formats": sorted(times.formats)}))  # fmt: skip


_read: tuple[tuple[str, int], Times | None] = (("", 0), None)


def known() -> Times | None:
    """The times of this machine; the file is read again when it changes."""
    global _read
    file = path()
    try:
        version = str(file), file.stat().st_mtime_ns
    except OSError:
        return None
    if _read[0] != version:
        _read = version, _parsed(file)
    return _read[1]


def _parsed(file: Path) -> Times | None:
    """The file's content; None if it cannot be read."""

    def read() -> Times:
        data = read_json(file)
        layers, rounding = ({str(k): float(v) for k, v in data[n].items()} for n in ("layers", "rounding"))
        return Times(int(data["batch"]), layers, rounding, frozenset(map(str, data["formats"])))

    return tried(read, None)


def measure(graph: Graph, options: EvaluateOptions, formats: Sequence[Format], context: Context) -> Times:
    """Minimum seconds by kind of layer. Raises DataError without data."""
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
    """The graph with one format at all operands that take one, or without formats."""
    precision = Precision(each) if each is not None else None
    nodes = (
        replace(n, precision={p: precision for p in PORTS if p in offered(n)} if precision else {})
        for n in graph if n.call not in ("placeholder", "output")
    )  # fmt: skip
    return graph.replace(*nodes)


def _timed(graph: Graph, inputs: dict[str, Any], context: Context) -> tuple[dict[str, float], dict[Any, float]]:
    """(minimum seconds of each node, of the rounding of each operand, divided among its readers)."""
    import torch

    from espalier.model.torch.build import NODE, PORT, build
    from espalier.passes.running.batches import fit_error

    module = build(graph, context.store, context.callables, packed=True)
    times: dict[fx.Node, list[float]] = defaultdict(list)
    run = _clocked(module, times)
    with torch.no_grad(), fit_error(inputs, graph):
        begin = time.perf_counter()
        for number in range(WARM + RUNS):
            if number == WARM:
                times.clear()
                begin = time.perf_counter()
            if number >= WARM + 3 and time.perf_counter() - begin > SECONDS:
                break
            run(inputs)
    own: dict[str, float] = {}
    rounds: dict[Any, float] = {}
    for node, seconds in times.items():
        if name := node.meta.get(NODE):
            own[name] = min(seconds)
        elif readers := [(n, p) for n, p in node.meta.get(PORT, ()) if p in PORTS]:
            rounds |= {reader: min(seconds) / len(readers) for reader in readers}
    return own, rounds


def _clocked(module: Any, times: dict[Any, list[float]]) -> Any:
    """A function that runs the module and appends the seconds of each node to `times`."""
    from torch import fx

    class Clock(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            begin = time.perf_counter()
            value = super().run_node(n)
            if n.op in ("call_module", "call_function", "call_method"):
                times[n].append(time.perf_counter() - begin)
            return value

    clock = Clock(module)
    names = [n.target for n in module.graph.nodes if n.op == "placeholder"]
    return lambda inputs: clock.run(*(inputs.get(str(n)) for n in names))
