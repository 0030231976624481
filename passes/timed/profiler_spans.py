"""Profiles a built model with a span of torch's profiler around each node, so that results are attributed to nodes."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.model.errors import ExportError
from espalier.model.files import placing
from espalier.model.graph.graph import Graph
from espalier.passes.base import Context

if TYPE_CHECKING:
    from torch import nn
    from torch.autograd.profiler_util import FunctionEvent

WARM = 2
MEMORY = "[memory]"  # the profiler's name of allocations and frees
RUN, AT = "espalier run", "espalier "  # span names; AT is followed by an index into `nodes`


@dataclass(frozen=True, slots=True)
class Profile:
    """`plain`: median seconds of a run without the profiler. `events`: of the profiled runs. `nodes`: (node, whether
    the span is the rounding of an operand) by span index.

    `memory`: (microseconds, change of the allocated bytes). `others`: share of the processors used by other programs.
    """

    plain: float
    events: list[FunctionEvent]
    nodes: list[tuple[str, bool]]
    memory: list[tuple[float, int]]
    others: float | None = None


class Spans:
    """A named span around each node of a built module: of the fx graph, or the leaf calls of a recorded module."""

    def __init__(self, module: nn.Module, graph: Graph) -> None:
        from torch import fx

        self.nodes: list[tuple[str, bool]] = []  # by span index: node, whether it is the rounding of an operand
        self._hooks: list[Any] = []
        self.module: Any = module
        self.run = self._interpreted() if isinstance(module, fx.GraphModule) else self._hooked(module, graph)

    def end(self) -> None:
        """Remove the hooks."""
        while self._hooks:
            self._hooks.pop().remove()

    def _span(self, name: str, rounds: bool = False) -> str:
        self.nodes.append((name, rounds))
        return f"{AT}{len(self.nodes) - 1}"

    def _interpreted(self) -> Any:
        from torch import fx
        from torch.profiler import record_function

        from espalier.model.torch.build import NODE, PORT

        spans: dict[fx.Node, str] = {}
        for n in self.module.graph.nodes:
            if name := n.meta.get(NODE):
                spans[n] = self._span(name)
            elif readers := n.meta.get(PORT):
                spans[n] = self._span(readers[0][0], rounds=True)

        class Recorder(fx.Interpreter):
            def run_node(self, n: fx.Node) -> Any:
                if n not in spans:
                    return super().run_node(n)
                with record_function(spans[n]):
                    return super().run_node(n)

        recorder = Recorder(self.module)
        names = [str(n.target) for n in self.module.graph.nodes if n.op == "placeholder"]
        return lambda inputs: recorder.run(*(inputs.get(n) for n in names))

    def _hooked(self, module: nn.Module, graph: Graph) -> Any:
        from torch.profiler import record_function

        open_spans: list[Any] = []

        def begin(name: str) -> Any:
            def hook(*_: object) -> None:
                span = record_function(name)
                span.__enter__()
                open_spans.append(span)

            return hook

        def close(*_: object) -> None:
            open_spans.pop().__exit__(None, None, None)

        first = {n.target: n.id for n in reversed([n for n in graph if n.call == "call_module"])}
        for target, name in first.items():
            leaf = module.get_submodule(target)
            self._hooks += [leaf.register_forward_pre_hook(begin(self._span(name))), leaf.register_forward_hook(close)]
        return lambda inputs: module(**inputs)


def profiled(
    module: nn.Module, graph: Graph, inputs: dict[str, Any], runs: int, context: Context, trace: str = ""
) -> Profile:
    """Time `runs` runs of a built module without the profiler and as many with it; `trace`: file of a Chrome trace.

    Raises DataError for inputs that do not fit, ExportError if the trace cannot be written.
    """
    spans = Spans(module, graph)
    try:
        return _seen(spans, inputs, runs, context, trace)
    finally:
        spans.end()


def _seen(spans: Spans, inputs: dict[str, Any], runs: int, context: Context, trace: str) -> Profile:
    import torch
    from torch.profiler import ProfilerActivity, record_function
    from torch.profiler import profile as profiler

    from espalier.kernels.bench.other_load import OtherLoad
    from espalier.passes.running.batches import fit_error

    cuda = any(v.is_cuda for v in inputs.values())
    synchronise = torch.cuda.synchronize if cuda else _nothing
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]
    plain: list[float] = []
    watch = OtherLoad()
    with torch.no_grad(), fit_error(inputs):
        for number in range(WARM + runs):
            context.progress(number, WARM + 2 * runs, "timing")
            begun = time.perf_counter()
            spans.module(**inputs)
            synchronise()
            plain.append(time.perf_counter() - begun)
        with profiler(activities=activities, profile_memory=True) as seen:
            for number in range(runs):
                context.progress(WARM + runs + number, WARM + 2 * runs, "profiling")
                with record_function(RUN):
                    spans.run(inputs)
                    synchronise()
    others = watch.share()
    if trace:
        _save(seen, Path(trace), spans.nodes)
    return Profile(statistics.median(plain[WARM:]), list(seen.events() or ()), spans.nodes, _memory(seen, cuda), others)


def _nothing() -> None:
    """Do nothing: a CPU needs no synchronisation."""


def _save(seen: Any, path: Path, nodes: list[tuple[str, bool]]) -> None:
    with placing(path, ExportError) as part:
        seen.export_chrome_trace(str(part))
        _rename(part, nodes)


def _rename(path: Path, nodes: list[tuple[str, bool]]) -> None:
    """Rename the spans of a trace file to the nodes; a file of invalid JSON is unchanged."""
    try:
        trace = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:  # torch does not escape all characters of kernel names
        return
    path.write_text(json.dumps(_named(trace, nodes)), encoding="utf-8")


def _named(trace: dict[str, Any], nodes: list[tuple[str, bool]]) -> dict[str, Any]:
    """A Chrome trace with the graph's node names, and without the host name, since traces are shared."""
    for event in trace["traceEvents"]:
        name = str(event.get("name", ""))
        if name.startswith(AT) and name != RUN:
            node, rounds = nodes[int(name.removeprefix(AT))]
            event["name"] = f"{node}: rounding an operand" if rounds else node
    return {k: v for k, v in trace.items() if k != "host_name"} | {"traceName": "Espalier"}


def host_events(events: Iterable[FunctionEvent]) -> list[FunctionEvent]:
    """The host's events, which include the device time of the kernels they launch; a GPU reports these again."""
    return [e for e in events if e.device_type.name == "CPU"]


def _memory(seen: Any, cuda: bool) -> list[tuple[float, int]]:
    """Allocations and frees in order: (microseconds, change of the allocated bytes).

    From the profiler's raw events: in its tree, frees between operations count at the end of the run.
    """
    raw = seen.profiler.kineto_results
    begun, device = raw.trace_start_ns(), "CUDA" if cuda else "CPU"
    events = (e for e in raw.events() if e.name() == MEMORY and e.device_type().name == device)
    return sorted(((e.start_ns() - begun) / 1e3, e.nbytes()) for e in events)


def peak(memory: Iterable[tuple[float, int]]) -> int:
    """Peak of the allocated bytes, relative to the start."""
    allocated = highest = 0
    for _, change in memory:
        allocated += change
        highest = max(highest, allocated)
    return highest


def tensors_of(module: nn.Module) -> Iterable[Any]:
    """Parameters and buffers, without duplicates."""
    return {id(v): v for v in (*module.parameters(), *module.buffers())}.values()
