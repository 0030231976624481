"""Time and memory of each node in a run, by torch's profiler around the built model."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from espalier.kernels.bench.other_load import busy_note
from espalier.model.errors import ExportError
from espalier.model.graph.graph import Graph
from espalier.model.graph.ops import macs
from espalier.passes.base import Context, Report, Row, analysis
from espalier.passes.running.timed_inputs import TimedOptions, check_device, inputs_on, size_errors
from espalier.passes.timed.profiler_spans import AT, RUN, Profile, host_events, peak, profiled, tensors_of
from espalier.passes.timed.timeline import timeline

if TYPE_CHECKING:
    from torch.autograd.profiler_util import FunctionEvent

ABOUT = ("Formats are simulated: layers multiply in float, and rounding their operands takes additional time. The "
         "profiler slows small nodes: the time of a run without it is given too.")  # fmt: skip


@dataclass(frozen=True, slots=True)
class ProfileOptions(TimedOptions):
    """Inputs and number of runs; without data, random inputs of the model's sizes."""

    runs: int = field(
        default=5, metadata={"min": 1, "max": 100, "help": "number of profiled runs; medians are reported"}
    )
    trace: str = field(
        default="",
        metadata={
            "help": "a .json file for the Chrome trace (chrome://tracing, Perfetto)",
            "writes": "report --what profile --trace F.json",
        },
    )


@analysis("profile", "Profile", ProfileOptions, timed=True)
def profile(graph: Graph, options: ProfileOptions, context: Context) -> tuple[Graph, Report]:
    """Start, seconds, device seconds, memory and rate of each node in a run of the built model.

    `found` gets the timeline of one run. Raises OptionsError for a missing device, ExportError if the trace cannot be
    written.
    """
    from espalier.model.torch.build import build

    _check(options)
    inputs = inputs_on(options, graph, context)
    module = build(graph, context.store, context.callables, packed=True).to(options.device)
    with size_errors(options):
        recorded = profiled(module, graph, inputs, options.runs, context, options.trace)
    context.found({"timeline": timeline(recorded, options.device == "cuda")})
    rows = tuple(_rows(graph, recorded, _sizes(graph, inputs)))
    spans = [e.time_range.elapsed_us() for e in host_events(recorded.events) if e.name == RUN]
    weights = sum(v.numel() * v.element_size() for v in tensors_of(module))
    summary = {"seconds": statistics.median(spans) / 1e6, "plain": recorded.plain, "runs": options.runs,
               "batch": _batch(inputs), "device": options.device, "weights_bytes": weights,
               "peak_bytes": peak(recorded.memory), "others": recorded.others,
               "about": " ".join(t for t in (ABOUT, busy_note(recorded.others)) if t)}  # fmt: skip
    return graph, Report("profile", rows, summary | ({"trace": options.trace} if options.trace else {}))


def _check(options: ProfileOptions) -> None:
    check_device(options.device)
    if options.trace and not options.trace.endswith(".json"):
        raise ExportError(f"{options.trace} has an unknown file type.", "End it in .json.")


# -- rows


def _rows(graph: Graph, recorded: Profile, sizes: dict[str, int]) -> Iterator[Row]:
    """A row for each node that ran, in the order of the run; times are medians over the runs."""
    events = host_events(recorded.events)
    runs = [e.time_range for e in events if e.name == RUN]
    by_node: dict[str, _Sums] = defaultdict(lambda: _Sums(len(runs)))
    for event in events:
        number = next((i for i, r in enumerate(runs) if r.start <= event.time_range.start <= r.end), None)
        if event.name.startswith(AT) and event.name != RUN and number is not None:
            name, rounds = recorded.nodes[int(event.name.removeprefix(AT))]
            by_node[name].add(event, number, runs[number].start, rounds)
    total = sum(s.seconds() for s in by_node.values())
    for name, sums in sorted(by_node.items(), key=lambda pair: pair[1].begins()):
        seconds, count = sums.seconds(), macs(graph.nodes[name], sizes)
        yield {
            "node": name, "op": graph.nodes[name].op, "begins": sums.begins(), "calls": sums.calls(),
            "seconds": seconds, "share": seconds / total if total else 0.0, "rounding": sums.rounding(),
            "device_seconds": sums.on_device(), "allocated_bytes": sums.allocated(),
            "gflop_s": 2e-9 * count / seconds if count and seconds else None, "largest": sums.largest(),
        }  # fmt: skip


class _Sums:
    """Seconds and bytes of a node in each run, with the rounding of its operands."""

    def __init__(self, runs: int) -> None:
        self._seconds, self._rounds, self._device = ([0.0] * runs for _ in range(3))
        self._begins: list[float | None] = [None] * runs
        self._bytes, self._calls = [0] * runs, [0] * runs
        self._ops: dict[str, float] = defaultdict(float)

    def add(self, event: FunctionEvent, run: int, begun: float, rounds: bool) -> None:
        seconds = event.time_range.elapsed_us() / 1e6
        self._seconds[run] += seconds
        self._rounds[run] += seconds if rounds else 0.0
        self._calls[run] += not rounds
        self._device[run] += event.device_time_total / 1e6
        begins = (event.time_range.start - begun) / 1e6
        earliest = self._begins[run]
        self._begins[run] = begins if earliest is None else min(earliest, begins)
        for op in _below(event):
            self._bytes[run] += max(op.self_cpu_memory_usage, 0) + max(op.self_device_memory_usage, 0)
            self._ops[op.name] += op.self_cpu_time_total + op.self_device_time_total

    def seconds(self) -> float:
        return statistics.median(self._seconds)

    def calls(self) -> int:
        return round(statistics.median(self._calls))

    def rounding(self) -> float:
        return statistics.median(self._rounds)

    def on_device(self) -> float:
        return statistics.median(self._device)

    def begins(self) -> float:
        return statistics.median(b for b in self._begins if b is not None)

    def allocated(self) -> int:
        return round(statistics.median(self._bytes))

    def largest(self) -> str:
        """The longest torch operation; empty if all the time is in Espalier's kernels or in Python."""
        return max(self._ops, key=lambda n: self._ops[n], default="")


def _below(event: FunctionEvent) -> Iterator[FunctionEvent]:
    for child in event.cpu_children:
        yield child
        yield from _below(child)


def _sizes(graph: Graph, inputs: dict[str, Any]) -> dict[str, int]:
    """The values of the graph's symbols for these inputs."""
    sizes = dict(graph.symbols)
    for node in graph.placeholders:
        value = inputs.get(node.target)
        if node.out is not None and value is not None:
            sizes |= {s: int(v) for s, v in zip(node.out.shape, value.shape, strict=False) if isinstance(s, str)
                      and s in sizes}  # fmt: skip
    return sizes


def _batch(inputs: dict[str, Any]) -> int:
    return next((int(v.shape[0]) for v in inputs.values() if v.dim()), 1)
