"""Measurements that answer the kernels' questions: runs of the bench, and others without a kernel."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from espalier.kernels.bench import machine, run
from espalier.kernels.bench.answers.known import Fact
from espalier.kernels.bench.request import Request
from espalier.kernels.bench.results import Row
from espalier.kernels.bench.run import Found, Progress
from espalier.kernels.bench.spec import KERNELS, KernelError, parse_shape
from espalier.kernels.bench.timing import Clock, take_turns
from espalier.model.errors import nearest

SECONDS = 0.3
TOKENS = {"cpu": (64, 128, 256, 512, 1024, 2048), "cuda": (256, 512, 1024, 2048, 4096, 8192)}
SIDE = {"cpu": 4096, "cuda": 16384}
SMALL, LARGE = {"rows": 1, "columns": 32}, {"rows": 1024, "columns": 2048}
LEAST = 2e-3  # seconds of a timed stretch of calls, so that a clock's own cost does not count


def measure(question: str, device: str, progress: Progress, found: Found) -> None:
    """Measure what answers a question; `found` hears Rows, Facts and Ceilings. `progress` may raise to stop.

    Raises KernelError for a question or a device that is not there.
    """
    if question not in WAYS:
        raise KernelError(f"There is no question {question!r} that is measured.", nearest(question, WAYS))
    if why := machine.no_device(device):
        raise KernelError(f"Kernels cannot run on {device}: {why}.", "Choose the cpu.")
    with torch.no_grad():
        WAYS[question](device, progress, found)


def _request(device: str, kernels: tuple[str, ...], shapes: tuple[str, ...] = (), **more: Any) -> Request:
    dtypes = ("bfloat16",) if device == "cuda" else ("float32",)
    return Request(kernels, device, dtypes, shapes, seconds=SECONDS, **more)


def _softmax(device: str, progress: Progress, found: Found) -> None:
    shape = "4096x2048" if device == "cpu" else "16384x8192"
    run.run(_request(device, ("softmax",), (shape,)), progress, found)


def _attention(device: str, progress: Progress, found: Found) -> None:
    """Times over lengths, and the most memory that each version takes beside its inputs."""
    batch, heads, deep = (1, 4, 64) if device == "cpu" else (1, 16, 128)
    shapes = tuple(f"{batch}x{heads}x{s}x{deep}x0x0" for s in TOKENS[device])
    run.run(_request(device, ("attention",), shapes, ceilings=False), progress, found)
    kernel = KERNELS.get("attention")
    for shape in shapes:
        sizes = parse_shape(shape, kernel)
        progress(0, 0, f"memory of attention over {sizes['s']} tokens")
        inputs = kernel.inputs(sizes, torch.bfloat16 if device == "cuda" else torch.float32, device, 0)
        for version in (v for v in kernel.versions if not machine.missing(v, device) and "triton" not in v.needs):
            most = most_held(lambda v=version, given=inputs: v.run(*given), device)
            found(Fact(f"attention memory {version.name}", most, "bytes", sizes["s"], device))


def most_held(call: Callable[[], Any], device: str) -> int:
    """The most bytes that a call holds at once beside what was there before."""
    call()
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call()
        torch.cuda.synchronize()
        return int(torch.cuda.max_memory_allocated() - before)
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        kept = call()
    del kept
    held = most = 0
    changes = sorted((e.time_range.end, e.self_cpu_memory_usage) for e in seen.events() or ())
    for _, change in changes:
        held += change
        most = max(most, held)
    return most


def _mxint8(device: str, progress: Progress, found: Found) -> None:
    run.run(_request(device, ("mxint8_dequantize",), ceilings=False), progress, found)


def _roofline(device: str, progress: Progress, found: Found) -> None:
    """Kernels from one side of the ridge to the other."""
    names = ("softmax", "layer_norm", "mxint8_linear", "linear_gelu", "attention")
    run.run(_request(device, names, versions=("torch", "triton", "naive")), progress, found)


def _tiles(device: str, progress: Progress, found: Found) -> None:
    """The same elements copied along rows, as they lie in memory, and down columns."""
    side = SIDE[device]
    x = torch.empty(side, side, dtype=torch.float32, device=device).normal_()
    out, turned = torch.empty_like(x), x.t()
    calls = {"along rows": lambda: out.copy_(x), "down columns": lambda: out.copy_(turned)}
    _timed("copy", calls, {"rows": side, "columns": side}, 2 * x.numel() * 4, 0, device, progress, found)


def _memory(device: str, progress: Progress, found: Found) -> None:
    """A Linear's weight in float32, as MXINT8 and as MXINT4: bytes that storages take."""
    from espalier.model.formats.mxint import MXInt
    from espalier.model.torch.mx_weights import packed

    progress(0, 0, "packing a weight")
    weight = torch.empty(3072, 768, device=device).normal_()
    found(Fact("weight in float", weight.untyped_storage().nbytes(), "bytes", 32, device))
    for width in (8, 4):
        held = packed(MXInt(width, 32), weight)
        size = sum(t.untyped_storage().nbytes() for t in (held.codes, held.exponents))
        found(Fact("weight packed", size, "bytes", width, device))


def _compile(device: str, progress: Progress, found: Found) -> None:
    """A small layer and a large chain of operations, eager and compiled: the first call apart, later ones; and the
    graph as captured, which torch runs, so that what entering it costs is seen."""
    why = machine.missing(KERNELS.get("softmax").version("compiled"), device)
    for name, function, shape in (("small layer", layer, SMALL), ("large chain", chain, LARGE)):
        if why:
            found(Row(name, "compiled", device, "float32", dict(shape), problem=why))
        _compiled(name, function, shape, device, not why, progress, found)


def layer(x: Tensor, weight: Tensor) -> Tensor:
    """A Linear with its activation: two operations, of a few microseconds where they are small."""
    return torch.relu(F.linear(x, weight))


def chain(x: Tensor, weight: Tensor) -> Tensor:
    """What stands between large products: an activation, a sum, a norm; ten operations, each a trip through memory."""
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
    found: Found,
) -> None:
    columns = shape["columns"]
    x, weight = torch.randn(shape["rows"], columns, device=device), torch.randn(columns, columns, device=device)
    weight = weight / columns**0.5
    calls: dict[str, Callable[[], Any]] = {"eager": lambda: function(x, weight)}
    moved, flops = 2 * x.numel() * 4, (2 * columns if function is layer else 12) * x.numel()
    if not compiles:
        _timed(name, calls, shape, moved, flops, device, progress, found)
        return
    dynamo: Any = importlib.import_module("torch._dynamo")
    inductor: Any = importlib.import_module("torch._inductor.config")
    compiler: Any = importlib.import_module("torch")
    dynamo.reset()
    try:
        # Nothing from earlier runs, so that the first call is one; no processes of its own that outlive this one.
        with inductor.patch(force_disable_caches=True, compile_threads=1):
            for version, backend in (("captured", "eager"), ("compiled", "inductor")):
                made = compiler.compile(function, backend=backend)
                calls[version] = lambda made=made: made(x, weight)
            _timed(name, calls, shape, moved, flops, device, progress, found)
    finally:
        dynamo.reset()


def _timed(
    kernel: str, calls: Mapping[str, Callable[[], Any]], shape: Mapping[str, int], moved: int, flops: int, device: str,
    progress: Progress, found: Found,
) -> None:  # fmt: skip
    """Rows of calls that take turns; the first call of each apart. Short calls are timed many at once, warm."""
    clock, first = Clock(device), dict[str, float]()
    for name, call in calls.items():
        progress(0, 0, f"{kernel}: first call, {name}")
        try:
            first[name] = clock.wall(call)
        except Exception as error:  # dynamo and inductor fail in any way that Python and a C++ compiler can
            if not isinstance(error, run.faults()) and "torch._" not in type(error).__module__:
                raise
            text = " ".join(str(error).split())[:200]
            found(Row(kernel, name, device, "float32", dict(shape), problem=f"{type(error).__name__}: {text}"))
    able = {n: c for n, c in calls.items() if n in first}
    if not able:
        return
    counts = _count(able, clock)
    many = {n: _repeated(c, counts) for n, c in able.items()}
    samples = take_turns(many, device, SECONDS, 200, lambda: progress(0, 0, f"{kernel}: later calls"))
    base = next(iter(able))
    for name, held in samples.items():
        times = sorted(t / counts for t in (held.warm if counts > 1 else held.cold))
        middle = times[len(times) // 2]
        found(Row(kernel, name, device, "float32", dict(shape), middle, middle, times[0], None, first[name], len(times),
                  flops, moved, moved, None, base, others=held.others))  # fmt: skip


def _count(calls: Mapping[str, Callable[[], Any]], clock: Clock) -> int:
    """How many calls make a stretch that a clock can tell."""
    for call in calls.values():
        clock.wall(call)
    return max(1, min(1000, int(LEAST / max(min(clock.wall(c) for c in calls.values()), 1e-7))))


def _repeated(call: Callable[[], Any], count: int) -> Callable[[], None]:
    def several() -> None:
        for _ in range(count):
            call()

    return several


WAYS: dict[str, Callable[[str, Progress, Found], None]] = {
    "compile": _compile, "softmax": _softmax, "attention": _attention, "mxint8": _mxint8, "tiles": _tiles,
    "memory": _memory, "roofline": _roofline,
}  # fmt: skip
