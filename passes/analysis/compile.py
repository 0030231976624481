"""Benefit of torch.compile for a model on this machine: first call, later calls, and break-even number of calls."""

from __future__ import annotations

import importlib
import logging
import math
import os
import shutil
import statistics
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import shorten
from typing import Any, Literal

from espalier.kernels.bench.other_load import OtherLoad
from espalier.model.errors import OptionsError, PassError
from espalier.model.graph.graph import Graph
from espalier.model.torch.compiling import compiled_afresh
from espalier.passes.base import Context, Report, Row, analysis
from espalier.passes.running.batches import fit_error
from espalier.passes.running.timed_inputs import TimedOptions, check_device, inputs_on, size_errors
from espalier.passes.timed.compile_explanation import CompileFacts, explanation
from espalier.passes.timed.profiler_spans import host_events
from espalier.passes.timed.rounded_weights import round_weights
from espalier.passes.timed.subgraph_call import subgraph_call

WARM, MIN_ROUNDS, SECONDS = 3, 5, 2.0  # untimed calls; minimum of timed rounds; seconds after which no further begins
PRODUCTS = ("addmm", "bmm", "aten::mm", "conv", "attention")  # in names of operations that multiply matrices
VERSIONS = ("eager", "captured", "compiled")
Backend = Literal["inductor", "aot_eager", "eager"]
Mode = Literal["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"]
COMPILER = "torch.compile with inductor needs a C++ compiler on the CPU, but none is installed."


@dataclass(frozen=True, slots=True)
class CompileOptions(TimedOptions):
    """Compiler settings and inputs; without data, random inputs of the model's sizes."""

    backend: Backend = field(default="inductor", metadata={"help": "backend that compiles the captured graphs"})
    mode: Mode = field(default="default", metadata={"help": "inductor's mode: how much it optimises"})
    dynamic: bool = field(default=False, metadata={"help": "one program for all sizes instead of one per size"})
    runs: int = field(
        default=50, metadata={"min": 5, "max": 1000, "help": "maximum number of rounds, each eager and compiled"}
    )
    part: str = field(
        default="",
        metadata={"help": "module paths, such as encoder.layer.0, or nodes, separated by commas; empty: all"},
    )


@analysis("compile", "Compile", CompileOptions, timed=True)
def compiled(graph: Graph, options: CompileOptions, context: Context) -> tuple[Graph, Report]:
    """Eager against compiled: seconds of the first and of later calls, break-even number of calls, graph breaks.

    Rows: eager, captured (the captured graphs, run by torch) and compiled; ratios are of the shortest times, since
    other processes only add time. Weights are rounded to their formats beforehand. `found` gets the time of each call
    and the breaks. Raises OptionsError for a missing device or compiler, PassError if the compiler fails.
    """
    import torch

    from espalier.model.torch.build import build
    from espalier.model.torch.emulators import in_float

    _check(options)
    dynamo = _dynamo()
    module = round_weights(build(in_float(graph), context.store, context.callables, packed=True)).to(options.device)
    inputs = inputs_on(options, graph, context)
    dynamo.reset()
    try:
        with torch.no_grad(), _unlogged():
            with size_errors(options), fit_error(inputs, graph):
                module(**inputs)
            call = subgraph_call(module, graph, options.part, inputs)
            times = _measured(call, options, context)
    finally:
        dynamo.reset()
    calls = {n: {"first": times.first[n], "later": times.later[n]} for n in VERSIONS}
    context.found({"calls": calls, "breaks": times.breaks})
    return graph, Report("compile", *_report(times, options))


@dataclass(slots=True)
class CompileTimes:
    """Seconds of the first and of later calls by version; number of graphs, and reasons of the breaks."""

    first: dict[str, float]
    later: dict[str, list[float]]
    graphs: int
    breaks: list[str]
    facts: CompileFacts
    difference: float


def _check(options: CompileOptions) -> None:
    check_device(options.device)
    if options.device != "cpu" or options.backend != "inductor":
        return
    if not has_compiler():
        raise OptionsError(COMPILER, "Install one (apt install g++), or choose the backend aot_eager.")
    from espalier.kernels.bench.machine import has_space_in_torch_path

    if has_space_in_torch_path():
        raise OptionsError("The path of torch contains a space, so inductor cannot link on the CPU.",
                           "Install it elsewhere, or choose the backend aot_eager.")  # fmt: skip


def _dynamo() -> Any:
    """torch._dynamo, which captures graphs: documented, but under a private name."""
    import torch

    untyped: Any = torch
    return untyped._dynamo


def has_compiler() -> bool:
    """Whether a C++ compiler is installed, which inductor needs on the CPU."""
    return any(shutil.which(n) for n in (os.environ.get("CXX", "g++"), "g++", "clang++"))


def _measured(call: Callable[[], Any], options: CompileOptions, context: Context) -> CompileTimes:
    compiler: Any = importlib.import_module("torch")
    context.progress(0, 0, "eager")
    first = {"eager": _seconds(call, options)}
    graphs, breaks = _breaks(call)
    versions: dict[str, Callable[[], Any]] = {"eager": call}
    settings: dict[str, Any] = {"dynamic": options.dynamic or None}
    if options.backend == "inductor" and options.mode != "default":
        settings["mode"] = options.mode
    _dynamo().reset()
    with compiled_afresh():
        for name, how in (("captured", {"backend": "eager"}), ("compiled", {"backend": options.backend, **settings})):
            context.progress(0, 0, f"first call, {name}")
            versions[name] = compiler.compile(call, **how)
            first[name] = _first(versions[name], options)
        monitor = OtherLoad()
        later = _rounds(versions, options, context)  # in turns, so that other processes affect all versions alike
        others = monitor.share()
        difference = _difference(call(), versions["compiled"]())
    least = {n: min(times) for n, times in later.items()}
    products, operations = _shares(call, options)
    spread = _spread(later["eager"])
    facts = CompileFacts(least["eager"], least["compiled"], least["captured"], graphs, products, operations, spread,
                  options.backend == "inductor", others)  # fmt: skip
    return CompileTimes(first, later, graphs, breaks, facts, difference)


def _seconds(call: Callable[[], Any], options: CompileOptions) -> float:
    import torch

    begun = time.perf_counter()
    call()
    if options.device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - begun


def _first(call: Callable[[], Any], options: CompileOptions) -> float:
    try:
        return _seconds(call, options)
    # Dynamo and inductor fail in any way that Python and a C++ compiler can.
    except Exception as error:
        text = " ".join(str(error).rpartition("Output:")[2].split())[:300]  # of a C++ compiler: what it found wrong
        raise PassError(f"The model could not be compiled: {type(error).__name__}: {text}",
                        "Choose the backend aot_eager, or a part of the model.") from error  # fmt: skip


def _rounds(
    versions: dict[str, Callable[[], Any]], options: CompileOptions, context: Context
) -> dict[str, list[float]]:
    """Seconds of later calls, in turns, so that other work on the machine meets all alike."""
    found: dict[str, list[float]] = {n: [] for n in versions}
    for _ in range(WARM):
        for call in versions.values():
            _seconds(call, options)
    begun = time.perf_counter()
    for number in range(options.runs):
        if number >= MIN_ROUNDS and time.perf_counter() - begun > SECONDS:
            break
        context.progress(number, options.runs, " and ".join(versions))
        for name, call in versions.items():
            found[name].append(_seconds(call, options))
    return found


def _breaks(call: Callable[[], Any]) -> tuple[int, list[str]]:
    """How many graphs are found, and why each began anew."""
    _dynamo().reset()
    told = _dynamo().explain(call)()
    return int(told.graph_count), [_line(r) for r in told.break_reasons]


def _line(reason: Any) -> str:
    """The reason and location of a graph break, without torch's hints on its settings."""
    place = reason.user_stack[-1] if reason.user_stack else None
    where = f" ({Path(place.filename).name}, line {place.lineno}, in {place.name})" if place is not None else ""
    title, _, rest = " ".join(str(reason.reason).split()).partition(" Explanation: ")
    explanation = rest.partition(" Hint:")[0].partition(" Developer debug context:")[0]
    return shorten(f"{title}: {explanation}" if explanation else title, 200, placeholder=" …") + where


@contextmanager
def _unlogged() -> Generator[None]:
    """Silence torch's log of graph breaks, which are in the report."""
    log = logging.getLogger("torch._dynamo")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


def _shares(call: Callable[[], Any], options: CompileOptions) -> tuple[float, int]:
    """(share of matrix products and convolutions in the operations' time, number of operations of a call)."""
    from torch.profiler import ProfilerActivity, profile

    with profile(
        activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if options.device == "cuda" else [])]
    ) as p:
        call()
    return _counted(p.events() or (), device=options.device == "cuda")


def _counted(events: Iterable[Any], *, device: bool) -> tuple[float, int]:
    times = [(e, e.self_device_time_total if device else e.self_cpu_time_total) for e in host_events(events)]
    total = sum(t for _, t in times)
    products = sum(t for e, t in times if any(w in e.name for w in PRODUCTS))
    leaves = sum(e.name.startswith("aten::") and not e.cpu_children for e, _ in times)
    return products / total if total else 0.0, leaves


def _difference(one: Any, other: Any) -> float:
    """The largest difference of two results' tensors; NaN if only one of two values is NaN."""
    import torch
    import torch.utils._pytree as pytree

    pairs = zip(pytree.tree_leaves(one), pytree.tree_leaves(other), strict=True)
    both = [(a.double(), b.double()) for a, b in pairs if isinstance(a, torch.Tensor) and a.numel()]
    apart = [(a - b).abs().masked_fill((a == b) | (a.isnan() & b.isnan()), 0.0).max() for a, b in both]
    return float(torch.stack(apart).max()) if apart else 0.0


def _report(times: CompileTimes, options: CompileOptions) -> tuple[tuple[Row, ...], Row]:
    rows = tuple(_row(name, times) for name in VERSIONS)
    saved = rows[0]["least"] - rows[-1]["least"]
    cost = times.first["compiled"] - times.first["eager"]
    return rows, {
        "graphs": times.graphs, "breaks": "; ".join(times.breaks), "break_even_calls": _calls(cost, saved),
        "speedup": rows[-1]["speedup"], "compile_seconds": cost, "max_error": times.difference,
        "products_share": times.facts.products, "operations": times.facts.operations, "backend": options.backend,
        "mode": options.mode, "device": options.device, "part": options.part, "others": times.facts.others,
        "why": " ".join(explanation(times.facts)),
    }  # fmt: skip


def _row(name: str, times: CompileTimes) -> Row:
    later = times.later[name]
    seconds = statistics.median(later)
    return {"version": name, "first": times.first[name], "seconds": seconds, "least": min(later),
            "spread": _spread(later), "calls": len(later),
            "speedup": min(times.later["eager"]) / min(later)}  # fmt: skip


def _spread(times: list[float]) -> float:
    """Half the interquartile range, relative to the median."""
    low, middle, high = statistics.quantiles(times, n=4)
    return (high - low) / 2 / middle


def _calls(cost: float, saved: float) -> int | None:
    """The number of calls, the first included, after which compiling saves time; None: never."""
    return max(1, math.ceil(1 + cost / saved)) if saved > 0 else None
