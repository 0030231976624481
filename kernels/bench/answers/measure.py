"""Measurements for the kernels' questions: runs of the bench, and measurements without a kernel."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from espalier.kernels.bench import machine, run
from espalier.kernels.bench.answers.measured_data import Fact
from espalier.kernels.bench.request import Request
from espalier.kernels.bench.results import Row
from espalier.kernels.bench.run import OnResult, Progress
from espalier.kernels.bench.spec import KERNELS, KernelError, parse_shape
from espalier.kernels.bench.timing import Clock, take_turns
from espalier.model.errors import nearest
from espalier.model.torch.compiling import compiled_afresh

SECONDS = 0.3
TOKENS = {"cpu": (64, 128, 256, 512, 1024, 2048), "cuda": (256, 512, 1024, 2048, 4096, 8192)}
SIDE = {"cpu": 4096, "cuda": 16384}
SMALL, LARGE = {"rows": 1, "columns": 32}, {"rows": 1024, "columns": 2048}
LEAST = 2e-3  # seconds per timed batch of calls, so that the clock's own cost is negligible


def measure(question: str, device: str, progress: Progress, on_result: OnResult) -> None:
    """Measure the answer to a question; `on_result` receives Rows, Facts and Ceilings. `progress` may raise to stop.

    Raises KernelError for an unknown question or device.
    """
    if question not in WAYS:
        raise KernelError(f"The question {question!r} has no measurement.", nearest(question, WAYS))
    if problem := machine.no_device(device):
        raise KernelError(f"Kernels cannot run on {device}: {problem}.", "Choose the cpu.")
    with torch.no_grad():
        WAYS[question](device, progress, on_result)


def _request(device: str, kernels: tuple[str, ...], shapes: tuple[str, ...] = (), **options: Any) -> Request:
    dtypes = ("bfloat16",) if device == "cuda" else ("float32",)
    return Request(kernels, device, dtypes, shapes, seconds=SECONDS, **options)


def _softmax(device: str, progress: Progress, on_result: OnResult) -> None:
    shape = "4096x2048" if device == "cpu" else "16384x8192"
    run.run(_request(device, ("softmax",), (shape,)), progress, on_result)


def _attention(device: str, progress: Progress, on_result: OnResult) -> None:
    """Times by number of tokens, and the peak memory of each version besides its inputs."""
    batch, heads, deep = (1, 4, 64) if device == "cpu" else (1, 16, 128)
    shapes = tuple(f"{batch}x{heads}x{s}x{deep}x0x0" for s in TOKENS[device])
    run.run(_request(device, ("attention",), shapes, ceilings=False), progress, on_result)
    kernel = KERNELS.get("attention")
    for shape in shapes:
        sizes = parse_shape(shape, kernel)
        progress(0, 0, f"memory of attention over {sizes['s']} tokens")
        inputs = kernel.inputs(sizes, torch.bfloat16 if device == "cuda" else torch.float32, device, 0)
        for version in (v for v in kernel.versions if not machine.unavailable(v, device) and "triton" not in v.needs):
            peak = peak_bytes(lambda v=version, given=inputs: v.run(*given), device)
            on_result(Fact(f"attention memory {version.name}", peak, "bytes", sizes["s"], device))


def peak_bytes(call: Callable[[], Any], device: str) -> int:
    """Peak bytes allocated by a call, besides those allocated before."""
    call()
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        base = torch.cuda.memory_allocated()
        call()
        torch.cuda.synchronize()
        return int(torch.cuda.max_memory_allocated() - base)
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        result = call()
    del result
    allocated = peak = 0
    changes = sorted((e.time_range.end, e.self_cpu_memory_usage) for e in profiler.events() or ())
    for _, change in changes:
        allocated += change
        peak = max(peak, allocated)
    return peak


def _mxint8(device: str, progress: Progress, on_result: OnResult) -> None:
    run.run(_request(device, ("mxint8_dequantize",), ceilings=False), progress, on_result)


def _roofline(device: str, progress: Progress, on_result: OnResult) -> None:
    """Kernels on both sides of the ridge of the roofline."""
    names = ("softmax", "layer_norm", "mxint8_linear", "linear_gelu", "attention")
    run.run(_request(device, names, versions=("torch", "triton", "naive")), progress, on_result)


def _tiles(device: str, progress: Progress, on_result: OnResult) -> None:
    """The same elements copied along rows, in memory order, and down columns."""
    side = SIDE[device]
    x = torch.empty(side, side, dtype=torch.float32, device=device).normal_()
    out, turned = torch.empty_like(x), x.t()
    calls = {"along rows": lambda: out.copy_(x), "down columns": lambda: out.copy_(turned)}
    _timed("copy", calls, {"rows": side, "columns": side}, 2 * x.numel() * 4, 0, device, progress, on_result)


def _memory(device: str, progress: Progress, on_result: OnResult) -> None:
    """Bytes of the storage of a Linear's weight in float32, MXINT8 and MXINT4."""
    from espalier.model.formats.mxint import MXInt
    from espalier.model.torch.mx_weights import packed

    progress(0, 0, "packing a weight")
    weight = torch.empty(3072, 768, device=device).normal_()
    on_result(Fact("weight in float", weight.untyped_storage().nbytes(), "bytes", 32, device))
    for width in (8, 4):
        weights = packed(MXInt(width, 32), weight)
        size = sum(t.untyped_storage().nbytes() for t in (weights.codes, weights.exponents))
        on_result(Fact("weight packed", size, "bytes", width, device))


def _compile(device: str, progress: Progress, on_result: OnResult) -> None:
    """A small layer and a large chain of operations, eager and compiled: first call and later calls; and the captured
    graph run by torch, which shows the cost of entering it."""
    problem = machine.unavailable(KERNELS.get("softmax").version("compiled"), device)
    for name, function, shape in (("small layer", layer, SMALL), ("large chain", chain, LARGE)):
        if problem:
            on_result(Row(name, "compiled", device, "float32", dict(shape), problem=problem))
        _compiled(name, function, shape, device, not problem, progress, on_result)


def layer(x: Tensor, weight: Tensor) -> Tensor:
    """A Linear with its activation: two operations, of a few microseconds for small sizes."""
    return torch.relu(F.linear(x, weight))


def chain(x: Tensor, weight: Tensor) -> Tensor:
    """An activation, a sum and a norm, as between large products: ten operations, each reading and writing memory."""
    y = x * weight[0]
    y = y * torch.sigmoid(1.702 * y) + x
    y = y - y.mean(-1, keepdim=True)
    return y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-5)


def _compiled(
    name: str,
    function: Callable[[Tensor, Tensor], Tensor],
    shape: Mapping[str, int],
    device: str,
    compiles: bool,
    progress: Progress,
    on_result: OnResult,
) -> None:
    columns = shape["columns"]
    x, weight = torch.randn(shape["rows"], columns, device=device), torch.randn(columns, columns, device=device)
    weight = weight / columns**0.5
    calls: dict[str, Callable[[], Any]] = {"eager": lambda: function(x, weight)}
    moved, flops = 2 * x.numel() * 4, (2 * columns if function is layer else 12) * x.numel()
    if not compiles:
        _timed(name, calls, shape, moved, flops, device, progress, on_result)
        return
    dynamo: Any = importlib.import_module("torch._dynamo")
    compiler: Any = importlib.import_module("torch")
    dynamo.reset()
    try:
        with compiled_afresh():
            for version, backend in (("captured", "eager"), ("compiled", "inductor")):
                compiled_call = compiler.compile(function, backend=backend)
                calls[version] = lambda compiled_call=compiled_call: compiled_call(x, weight)
            _timed(name, calls, shape, moved, flops, device, progress, on_result)
    finally:
        dynamo.reset()


def _timed(
    kernel: str, calls: Mapping[str, Callable[[], Any]], shape: Mapping[str, int], moved: int, flops: int, device: str,
    progress: Progress, on_result: OnResult,
) -> None:  # fmt: skip
    """Rows of calls that take turns, with the first call separate. Short calls are timed warm, in batches."""
    clock, first = Clock(device), dict[str, float]()
    for name, call in calls.items():
        progress(0, 0, f"{kernel}: first call, {name}")
        try:
            first[name] = clock.wall(call)
        except Exception as error:  # dynamo, inductor and the C++ compiler raise many types
            if not isinstance(error, run.caught_errors()) and "torch._" not in type(error).__module__:
                raise
            text = " ".join(str(error).split())[:200]
            on_result(Row(kernel, name, device, "float32", dict(shape), problem=f"{type(error).__name__}: {text}"))
    able = {n: c for n, c in calls.items() if n in first}
    if not able:
        return
    counts = _count(able, clock)
    repeated = {n: _repeated(c, counts) for n, c in able.items()}
    samples = take_turns(repeated, device, SECONDS, 200, lambda: progress(0, 0, f"{kernel}: later calls"))
    base = next(iter(able))
    for name, timed in samples.items():
        times = sorted(t / counts for t in (timed.warm if counts > 1 else timed.cold))
        middle = times[len(times) // 2]
        on_result(Row(kernel, name, device, "float32", dict(shape), middle, middle, times[0], None, first[name],
                      len(times), flops, moved, moved, None, base, others=timed.others))  # fmt: skip


def _count(calls: Mapping[str, Callable[[], Any]], clock: Clock) -> int:
    """Number of calls per timed batch, of at least LEAST seconds, at most 1000."""
    for call in calls.values():
        clock.wall(call)
    return max(1, min(1000, int(LEAST / max(min(clock.wall(c) for c in calls.values()), 1e-7))))


def _repeated(call: Callable[[], Any], count: int) -> Callable[[], None]:
    def repeat() -> None:
        for _ in range(count):
            call()

    return repeat


WAYS: dict[str, Callable[[str, Progress, OnResult], None]] = {
    "compile": _compile, "softmax": _softmax, "attention": _attention, "mxint8": _mxint8, "tiles": _tiles,
    "memory": _memory, "roofline": _roofline,
}  # fmt: skip
