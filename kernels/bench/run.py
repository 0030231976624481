"""Runs a request: all versions of the kernels at all shapes; versions that cannot run get a row with the reason."""

from __future__ import annotations

import datetime
import gc
import importlib
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from espalier.kernels.bench import ceilings, machine, tuned
from espalier.kernels.bench.ceilings import Ceilings
from espalier.kernels.bench.request import Request
from espalier.kernels.bench.results import Results, Row, under_roof
from espalier.kernels.bench.spec import KERNELS, Inputs, Kernel, KernelError, Shape, Version, parse_shape, shape_text
from espalier.kernels.bench.timing import Samples, spread, take_turns
from espalier.model.errors import nearest
from espalier.model.torch.threads import torch_threads

Progress = Callable[[int, int, str], None]
Found = Callable[[object], None]


@dataclass(frozen=True, slots=True)
class Ask:
    """One kernel at one shape and dtype."""

    kernel: Kernel
    shape: Shape
    dtype: str


def _silent(done: int, total: int, text: str) -> None:
    """No progress wanted."""


def _unheard(found: object) -> None:
    """Nobody waits for single rows."""


def _never() -> bool:
    """Nobody else waits."""
    return False


def run(request: Request, progress: Progress = _silent, found: Found = _unheard) -> Results:
    """Measure; `found` hears the Ceilings, then each Row as soon as it is known. `progress` may raise to stop.

    Raises KernelError for unknown names, shapes, and a device that is not there.
    """
    heard: list[object] = []

    def tell(one: object) -> None:
        heard.append(one)
        found(one)

    stretch(request, progress, tell)
    return gathered(request, heard)


def stretch(
    request: Request, progress: Progress, found: Found, first: int = 0, limits: Ceilings | None = None,
    enough: Callable[[], bool] = _never,
) -> int:  # fmt: skip
    """Measure as `run` does, from the size numbered `first` on, until `enough` after a size.

    Returns the number of the next size, 0 where none is left. `limits`: those that an earlier stretch told.
    """
    asks = asked(request)
    if why := machine.no_device(request.device):
        raise KernelError(f"Kernels cannot run on {request.device}: {why}.", "Choose --device cpu.")
    with torch_threads(request.threads):
        return _stretch(asks, request, progress, found, first, limits, enough)


def _stretch(
    asks: list[Ask], request: Request, progress: Progress, found: Found, first: int, limits: Ceilings | None,
    enough: Callable[[], bool],
) -> int:  # fmt: skip
    total = len(asks)
    if limits is None and request.ceilings:
        limits = _limits(request, lambda: progress(0, total, "ceilings of the machine"))
        found(limits)
    for i, ask in enumerate(asks[first:], first):
        if i > first and enough():
            return i
        text = f"{ask.kernel.name} {shape_text(ask.shape)} {ask.dtype}"

        def between(i: int = i, text: str = text) -> None:
            progress(i, total, text)

        between()
        for row in measured(ask, request, limits, between):
            found(row)
    progress(total, total, "done")
    return 0


def gathered(request: Request, heard: Sequence[object]) -> Results:
    """The results of what `found` heard: also of a run that was stopped."""
    limits = next((one for one in heard if isinstance(one, Ceilings)), None)
    rows = tuple(one for one in heard if isinstance(one, Row))
    today = datetime.date.today().isoformat()
    facts = machine.facts(request.device)  # with torch's own number of threads, which a run may set aside
    used = {"threads": request.threads} if request.threads else {}
    return Results(facts | used, today, limits, rows, asdict(request))


def _limits(request: Request, between: Callable[[], None]) -> Ceilings:
    return ceilings.measured(request.device, request.dtypes, between)


def asked(request: Request) -> list[Ask]:
    """What a request comes to; raises KernelError."""
    if request.device not in ("cpu", "cuda"):
        raise KernelError(f"There is no device {request.device!r}.", "Choose cpu or cuda.")
    kernels = [KERNELS.get(name) for name in request.kernels or tuple(KERNELS)]
    for dtype in request.dtypes:
        if not any(dtype in k.dtypes for k in kernels):
            raise KernelError(f"No kernel takes {dtype!r}.", "Choose float32, bfloat16 or float16.")
    known = list(dict.fromkeys(v.name for k in kernels for v in k.versions))
    for name in request.versions:
        if name not in known:
            raise KernelError(f"No kernel that is asked for has a version {name!r}.", nearest(name, known))
    if request.shapes and len(kernels) > 1:
        raise KernelError("A shape is of one kernel.", "Name the kernel whose shapes these are.")
    return [
        Ask(kernel, shape, dtype)
        for kernel in kernels
        for shape in _shapes(kernel, request)
        for dtype in request.dtypes
    ]


def _shapes(kernel: Kernel, request: Request) -> list[Shape]:
    if request.shapes:
        return [parse_shape(text, kernel) for text in request.shapes]
    held = kernel.sweep if request.sweep else kernel.shapes
    return list(held[request.device])


def measured(ask: Ask, request: Request, limits: Ceilings | None, between: Callable[[], None]) -> Iterator[Row]:
    """Rows of all versions at one shape, the baseline among them."""
    able: list[Version] = []
    for version in _wanted(ask.kernel, request):
        why = _why_not(ask, version, request.device)
        if why:
            yield replace(_empty(ask, version, request.device), problem=why)
        else:
            able.append(version)
    if not able:
        return
    try:
        inputs = ask.kernel.inputs(ask.shape, getattr(torch, ask.dtype), request.device, request.seed)
        want = ask.kernel.reference(*inputs)
    except faults() as error:
        for version in able:
            yield replace(_empty(ask, version, request.device), problem=_words(error))
        return
    finally:
        _tidy(request.device)
    yield from _timed(ask, request, able, inputs, want, limits, between)


def _wanted(kernel: Kernel, request: Request) -> list[Version]:
    """The versions asked for; the baseline always, or there would be no ratios."""
    if not request.versions:
        return [v for v in kernel.versions if not v.optional]
    return [v for v in kernel.versions if v.name in (*request.versions, kernel.baseline)]


def _why_not(ask: Ask, version: Version, device: str) -> str:
    if ask.dtype not in ask.kernel.dtypes:
        return f"{ask.kernel.name} does not take {ask.dtype}"
    if why := machine.missing(version, device) or version.refuses(ask.shape, ask.dtype, device):
        return why
    size = getattr(torch, ask.dtype).itemsize
    needed = max(ask.kernel.traffic(ask.shape, size), version.traffic(ask.shape, size) // 2 if version.traffic else 0)
    needed = needed * 2 + 2 * ask.kernel.traffic(ask.shape, 8)  # inputs, results, and steps of the reference in double
    free = machine.free_bytes(device)
    if needed > free:
        return f"out of memory: about {machine.size_words(needed)} are needed, {machine.size_words(free)} are free"
    return ""


def _timed(
    ask: Ask, request: Request, versions: list[Version], inputs: Inputs, want: Any, limits: Ceilings | None,
    between: Callable[[], None],
) -> Iterator[Row]:  # fmt: skip
    """Check each version, then time together those that run."""
    rows: dict[str, Row] = {}
    for version in versions:
        between()
        row = _checked(ask, version, inputs, want, request.device)
        if row.problem and row.correct is None:
            yield row
        else:
            rows[version.name] = row
    del want
    _tidy(request.device)
    calls = {v.name: (lambda v=v: v.run(*inputs)) for v in versions if v.name in rows}
    if not calls:
        return
    try:
        samples = take_turns(calls, request.device, request.seconds, request.rounds, between)
    except faults() as error:
        yield from (replace(row, problem=_words(error)) for row in rows.values())
        return
    base = samples.get(ask.kernel.baseline)
    for name, row in rows.items():
        yield _filled(row, samples[name], base, limits)


def _checked(ask: Ask, version: Version, inputs: Inputs, want: Any, device: str) -> Row:
    """A row with errors, and the time of its first call; `problem` where it fails or is wrong."""
    row = _empty(ask, version, device)
    try:
        with torch.no_grad():
            begun = time.perf_counter()
            got = version.run(*inputs)
            if device == "cuda":
                torch.cuda.synchronize()
            row = replace(row, first=time.perf_counter() - begun)
            if ask.kernel.sampled:
                got = ask.kernel.sampled(got, *inputs)
        largest, share = errors(got, want)
    except faults() as error:
        return replace(row, problem=_words(error))
    right = share <= ask.kernel.tolerance[ask.dtype]
    wrong = "" if right else f"wrong: its error is {share:.2g}, allowed are {ask.kernel.tolerance[ask.dtype]:.2g}"
    return replace(row, max_error=largest, error=share, correct=right, problem=wrong)


def faults() -> tuple[type[Exception], ...]:
    """What a version may raise that others need not suffer for: no memory, a wrong shape, a compiler's own errors."""
    found: list[type[Exception]] = [MemoryError, RuntimeError, TypeError, ValueError, KernelError]
    if find_spec("triton") is not None:
        found += tuned.faults()
    if find_spec("numba") is not None:
        found.append(importlib.import_module("numba.core.errors").NumbaError)
    return tuple(found)


def errors(got: Any, want: Any) -> tuple[float, float]:
    """Largest difference, and ‖got − want‖ / ‖want‖, over all tensors of a result; infinite where NaN or inf differ."""
    pairs = list(zip(_tensors(got), _tensors(want), strict=True))
    largest, off, norm = 0.0, 0.0, 0.0
    for mine, theirs in pairs:
        mine, theirs = mine.double(), theirs.double()
        if mine.shape != theirs.shape:
            raise ValueError(f"the result has the shape {tuple(mine.shape)}, not {tuple(theirs.shape)}")
        same = (mine == theirs) | (mine.isnan() & theirs.isnan())
        difference = torch.where(same, 0.0, (mine - theirs).abs()).nan_to_num(nan=float("inf"))
        if difference.numel():
            largest = max(largest, difference.max().item())
            off += difference.square().sum().item()
            norm += theirs[theirs.isfinite()].square().sum().item()
    return largest, (off / norm) ** 0.5 if norm else (0.0 if off == 0 else float("inf"))


def _tensors(found: Any) -> tuple[Tensor, ...]:
    return found if isinstance(found, tuple) else (found,)


def _empty(ask: Ask, version: Version, device: str) -> Row:
    size = getattr(torch, ask.dtype).itemsize
    least = ask.kernel.traffic(ask.shape, size)
    moved = version.traffic(ask.shape, size) if version.traffic else least
    return Row(ask.kernel.name, version.name, device, ask.dtype, ask.shape, flops=ask.kernel.flops(ask.shape),
               bytes=moved, bytes_least=least, baseline=ask.kernel.baseline, note=_note(version, device))  # fmt: skip


def _note(version: Version, device: str) -> str:
    """What to know of a time."""
    return "interpreted in Python: its time tells nothing" if device == "cpu" and "triton" in version.needs else ""


def _filled(row: Row, samples: Samples, base: Samples | None, limits: Ceilings | None) -> Row:
    """A row with its times."""
    median = statistics.median(samples.cold)
    ratio = statistics.median(b / own for b, own in zip(base.cold, samples.cold, strict=True)) if base else None
    roof, above = under_roof(limits.least_seconds(row.flops, row.bytes_least, row.dtype) / median if limits else None)
    return replace(
        row, seconds=median, warm=statistics.median(samples.warm), least=min(*samples.cold, *samples.warm),
        spread=spread(samples.cold), rounds=len(samples.cold), ratio=ratio, of_roof=roof, above_roof=above,
        others=samples.others,
    )  # fmt: skip


def _words(error: BaseException) -> str:
    """What went wrong, in a line."""
    if isinstance(error, KernelError):
        return error.message
    text = str(error).strip().splitlines()
    if isinstance(error, MemoryError | torch.cuda.OutOfMemoryError) or "not enough memory" in str(error):
        return f"out of memory: {text[0][:160]}" if text else "out of memory"
    return f"{type(error).__name__}: {text[0][:200]}" if text else type(error).__name__


def _tidy(device: str) -> None:
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
