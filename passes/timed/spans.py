"""A span of torch's profiler around each node of a built model, so that what it sees can be told node by node."""

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
MEMORY = "[memory]"  # what the profiler calls allocations and frees
RUN, AT = "espalier run", "espalier "  # names of the spans; the second is followed by a node's place


@dataclass(frozen=True, slots=True)
class Seen:
    """Median seconds of a run without the profiler, what it saw of those with it, and which node each place is.

    `memory`: microseconds, and bytes by which what is held on the device changes. `others`: the share of the processors
    that other programs took meanwhile.
    """

    plain: float
    events: list[FunctionEvent]
    places: list[tuple[str, bool]]
    memory: list[tuple[float, int]]
    others: float | None = None


class Spans:
    """Puts a named span around each node of a built module: the fx graph's, or a recorded module's own calls."""

    def __init__(self, module: nn.Module, graph: Graph) -> None:
        from torch import fx

        self.names: list[tuple[str, bool]] = []  # by place: the node, and whether it is the rounding of an operand
        self._hooks: list[Any] = []
        self.module: Any = module
        self.run = self._interpreted() if isinstance(module, fx.GraphModule) else self._hooked(module, graph)

    def end(self) -> None:
        """Leave the module as it was."""
        while self._hooks:
            self._hooks.pop().remove()

    def _place(self, name: str, rounds: bool = False) -> str:
        self.names.append((name, rounds))
        return f"{AT}{len(self.names) - 1}"

    def _interpreted(self) -> Any:
        from torch import fx
        from torch.profiler import record_function

        from espalier.model.torch.build import NODE, PORT

        places: dict[fx.Node, str] = {}
        for n in self.module.graph.nodes:
            if name := n.meta.get(NODE):
                places[n] = self._place(name)
            elif readers := n.meta.get(PORT):
                places[n] = self._place(readers[0][0], rounds=True)

        class Noted(fx.Interpreter):
            def run_node(self, n: fx.Node) -> Any:
                if n not in places:
                    return super().run_node(n)
                with record_function(places[n]):
                    return super().run_node(n)

        noted = Noted(self.module)
        names = [str(n.target) for n in self.module.graph.nodes if n.op == "placeholder"]
        return lambda inputs: noted.run(*(inputs.get(n) for n in names))

    def _hooked(self, module: nn.Module, graph: Graph) -> Any:
        from torch.profiler import record_function

        open_spans: list[Any] = []

        def begin(place: str) -> Any:
            def hook(*_: object) -> None:
                span = record_function(place)
                span.__enter__()
                open_spans.append(span)

            return hook

        def close(*_: object) -> None:
            open_spans.pop().__exit__(None, None, None)

        first = {n.target: n.id for n in reversed([n for n in graph if n.call == "call_module"])}
        for target, name in first.items():
            leaf = module.get_submodule(target)
            self._hooks += [leaf.register_forward_pre_hook(begin(self._place(name))), leaf.register_forward_hook(close)]
        return lambda inputs: module(**inputs)


def profiled(
    module: nn.Module, graph: Graph, inputs: dict[str, Any], runs: int, context: Context, trace: str = ""
) -> Seen:
    """Runs a built module as often without the profiler as with it; `trace`: a file for its Chrome trace.

    Raises DataError for inputs that do not fit, ExportError where the trace cannot be written.
    """
    spans = Spans(module, graph)
    try:
        return _seen(spans, inputs, runs, context, trace)
    finally:
        spans.end()


def _seen(spans: Spans, inputs: dict[str, Any], runs: int, context: Context, trace: str) -> Seen:
    import torch
    from torch.profiler import ProfilerActivity, record_function
    from torch.profiler import profile as profiler

    from espalier.kernels.bench.others import Others
    from espalier.passes.running.batches import fit_error

    cuda = any(v.is_cuda for v in inputs.values())
    settle = torch.cuda.synchronize if cuda else _nothing
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]
    plain: list[float] = []
    watch = Others()
    with torch.no_grad(), fit_error(inputs):
        for number in range(WARM + runs):
            context.progress(number, WARM + 2 * runs, "timing")
            begun = time.perf_counter()
            spans.module(**inputs)
            settle()
            plain.append(time.perf_counter() - begun)
        with profiler(activities=activities, profile_memory=True) as seen:
            for number in range(runs):
                context.progress(WARM + runs + number, WARM + 2 * runs, "profiling")
                with record_function(RUN):
                    spans.run(inputs)
                    settle()
    others = watch.share()
    if trace:
        _save(seen, Path(trace), spans.names)
    return Seen(statistics.median(plain[WARM:]), list(seen.events() or ()), spans.names, _memory(seen, cuda), others)


def _nothing() -> None:
    """No device to wait for."""


def _save(seen: Any, path: Path, places: list[tuple[str, bool]]) -> None:
    with placing(path, ExportError) as part:
        seen.export_chrome_trace(str(part))
        _rename(part, places)


def _rename(path: Path, places: list[tuple[str, bool]]) -> None:
    """Nodes' names into a trace that lies there; one that torch wrote amiss stays as it is."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:  # torch escapes not all that kernels' names hold
        return
    path.write_text(json.dumps(_named(told, places)), encoding="utf-8")


def _named(told: dict[str, Any], places: list[tuple[str, bool]]) -> dict[str, Any]:
    """A Chrome trace whose spans are called as the graph's nodes are; it goes to others, so it names no machine."""
    for event in told["traceEvents"]:
        name = str(event.get("name", ""))
        if name.startswith(AT) and name != RUN:
            node, rounds = places[int(name.removeprefix(AT))]
            event["name"] = f"{node}: rounding an operand" if rounds else node
    return {k: v for k, v in told.items() if k != "host_name"} | {"traceName": "Espalier"}


def by_host(found: Iterable[FunctionEvent]) -> list[FunctionEvent]:
    """Those of the host, which know the device time of what they launched; a GPU tells it all once more."""
    return [e for e in found if e.device_type.name == "CPU"]


def _memory(seen: Any, cuda: bool) -> list[tuple[float, int]]:
    """Allocations and frees in their order: when, in microseconds, and by how many bytes what is held changes.

    They are the profiler's own events: in its tree what is freed between operations counts at the end of the run.
    """
    told = seen.profiler.kineto_results
    begun, device = told.trace_start_ns(), "CUDA" if cuda else "CPU"
    found = ((e.start_ns(), e.nbytes()) for e in told.events() if e.name() == MEMORY and e.device_type().name == device)
    return sorted(((at - begun) / 1e3, size) for at, size in found)


def peak(memory: Iterable[tuple[float, int]]) -> int:
    """Most bytes that were held at once beyond what was there before."""
    held = most = 0
    for _, change in memory:
        held += change
        most = max(most, held)
    return most


def tensors_of(module: nn.Module) -> Iterable[Any]:
    """Parameters and buffers, each once."""
    return {id(v): v for v in (*module.parameters(), *module.buffers())}.values()
