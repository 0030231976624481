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
from espalier.kernels.bench.results import Results, Row, share_of_roof
from espalier.kernels.bench.spec import KERNELS, Inputs, Kernel, KernelError, Shape, Version, parse_shape, shape_text
from espalier.kernels.bench.timing import Samples, spread, take_turns
from espalier.model.errors import nearest
from espalier.model.torch.threads import torch_threads

Progress = Callable[[int, int, str], None]
OnResult = Callable[[object], None]


@dataclass(frozen=True, slots=True)
class Case:
    """One kernel at one shape and dtype."""

    kernel: Kernel
    shape: Shape
    dtype: str


def _ignore_progress(done: int, total: int, text: str) -> None:
    """Default `progress`: do nothing."""


def _ignore_result(result: object) -> None:
    """Default `on_result`: do nothing."""


def _never() -> bool:
    """Default `enough`: measure all cases."""
    return False


def run(request: Request, progress: Progress = _ignore_progress, on_result: OnResult = _ignore_result) -> Results:
    """Measure; `on_result` receives the Ceilings, then each Row once it is measured. `progress` may raise to stop.

    Raises KernelError for unknown names or shapes and for an unavailable device.
    """
    results: list[object] = []

    def record(result: object) -> None:
        results.append(result)
        on_result(result)

    run_part(request, progress, record)
    return results_of(request, results)


def run_part(
    request: Request, progress: Progress, on_result: OnResult, first: int = 0, limits: Ceilings | None = None,
    enough: Callable[[], bool] = _never,
) -> int:  # fmt: skip
    """Measure as `run` does, from case number `first` on, until `enough` is true after a case.

    Returns the number of the next case, or 0 after the last one. `limits`: the ceilings of an earlier part.
    """
    cases = cases_of(request)
    if reason := machine.no_device(request.device):
        raise KernelError(f"Kernels cannot run on {request.device}: {reason}.", "Choose --device cpu.")
    with torch_threads(request.threads):
        return _run_cases(cases, request, progress, on_result, first, limits, enough)


def _run_cases(
    cases: list[Case], request: Request, progress: Progress, on_result: OnResult, first: int, limits: Ceilings | None,
    enough: Callable[[], bool],
) -> int:  # fmt: skip
    total = len(cases)
    if limits is None and request.ceilings:
        limits = _limits(request, lambda: progress(0, total, "ceilings of the machine"))
        on_result(limits)
    for i, case in enumerate(cases[first:], first):
        if i > first and enough():
            return i
        text = f"{case.kernel.name} {shape_text(case.shape)} {case.dtype}"

        def between(i: int = i, text: str = text) -> None:
            progress(i, total, text)

        between()
        for row in measured(case, request, limits, between):
            on_result(row)
    progress(total, total, "done")
    return 0


def results_of(request: Request, results: Sequence[object]) -> Results:
    """The Results of all values passed to `on_result`, also of a stopped run."""
    limits = next((result for result in results if isinstance(result, Ceilings)), None)
    rows = tuple(result for result in results if isinstance(result, Row))
    today = datetime.date.today().isoformat()
    facts = machine.facts(request.device)  # with torch's own number of threads, which a run may override
    used = {"threads": request.threads} if request.threads else {}
    return Results(facts | used, today, limits, rows, asdict(request))


def _limits(request: Request, between: Callable[[], None]) -> Ceilings:
    return ceilings.measured(request.device, request.dtypes, between)


def cases_of(request: Request) -> list[Case]:
    """The cases of a request; raises KernelError."""
    if request.device not in ("cpu", "cuda"):
        raise KernelError(f"There is no device {request.device!r}.", "Choose cpu or cuda.")
    kernels = [KERNELS.get(name) for name in request.kernels or tuple(KERNELS)]
    for dtype in request.dtypes:
        if not any(dtype in k.dtypes for k in kernels):
            raise KernelError(f"No kernel takes {dtype!r}.", "Choose float32, bfloat16 or float16.")
    versions = list(dict.fromkeys(v.name for k in kernels for v in k.versions))
    for name in request.versions:
        if name not in versions:
            raise KernelError(f"None of the requested kernels has a version {name!r}.", nearest(name, versions))
    if request.shapes and len(kernels) > 1:
        raise KernelError("Shapes are given for several kernels.", "Name the one kernel that has these shapes.")
    return [
        Case(kernel, shape, dtype)
        for kernel in kernels
        for shape in _shapes(kernel, request)
        for dtype in request.dtypes
    ]


def _shapes(kernel: Kernel, request: Request) -> list[Shape]:
    if request.shapes:
        return [parse_shape(text, kernel) for text in request.shapes]
    shapes = kernel.sweep if request.sweep else kernel.shapes
    return list(shapes[request.device])


def measured(case: Case, request: Request, limits: Ceilings | None, between: Callable[[], None]) -> Iterator[Row]:
    """Rows of all requested versions and the baseline at one shape."""
    able: list[Version] = []
    for version in _versions_of(case.kernel, request):
        reason = _refusal(case, version, request.device)
        if reason:
            yield replace(_empty(case, version, request.device), problem=reason)
        else:
            able.append(version)
    if not able:
        return
    try:
        inputs = case.kernel.inputs(case.shape, getattr(torch, case.dtype), request.device, request.seed)
        expected = case.kernel.reference(*inputs)
    except caught_errors() as error:
        for version in able:
            yield replace(_empty(case, version, request.device), problem=_error_text(error))
        return
    finally:
        _tidy(request.device)
    yield from _timed(case, request, able, inputs, expected, limits, between)


def _versions_of(kernel: Kernel, request: Request) -> list[Version]:
    """The requested versions, and the baseline, which the ratios need."""
    if not request.versions:
        return [v for v in kernel.versions if not v.optional]
    return [v for v in kernel.versions if v.name in (*request.versions, kernel.baseline)]


def _refusal(case: Case, version: Version, device: str) -> str:
    if case.dtype not in case.kernel.dtypes:
        return f"{case.kernel.name} does not take {case.dtype}"
    if reason := machine.unavailable(version, device) or version.refuses(case.shape, case.dtype, device):
        return reason
    size = getattr(torch, case.dtype).itemsize
    needed = max(
        case.kernel.traffic(case.shape, size), version.traffic(case.shape, size) // 2 if version.traffic else 0
    )
    needed = needed * 2 + 2 * case.kernel.traffic(
        case.shape, 8
    )  # inputs, results, and the float64 intermediates of the reference
    free = machine.free_bytes(device)
    if needed > free:
        return f"out of memory: about {machine.size_text(needed)} are needed, {machine.size_text(free)} are free"
    return ""


def _timed(
    case: Case, request: Request, versions: list[Version], inputs: Inputs, expected: Any, limits: Ceilings | None,
    between: Callable[[], None],
) -> Iterator[Row]:  # fmt: skip
    """Check each version, then time those that run in turns."""
    rows: dict[str, Row] = {}
    for version in versions:
        between()
        row = _checked(case, version, inputs, expected, request.device)
        if row.problem and row.correct is None:
            yield row
        else:
            rows[version.name] = row
    del expected
    _tidy(request.device)
    calls = {v.name: (lambda v=v: v.run(*inputs)) for v in versions if v.name in rows}
    if not calls:
        return
    try:
        samples = take_turns(calls, request.device, request.seconds, request.rounds, between)
    except caught_errors() as error:
        yield from (replace(row, problem=_error_text(error)) for row in rows.values())
        return
    base = samples.get(case.kernel.baseline)
    for name, row in rows.items():
        yield _filled(row, samples[name], base, limits)


def _checked(case: Case, version: Version, inputs: Inputs, expected: Any, device: str) -> Row:
    """A row with errors and the time of the first call; `problem` if it fails or is wrong."""
    row = _empty(case, version, device)
    try:
        with torch.no_grad():
            started = time.perf_counter()
            result = version.run(*inputs)
            if device == "cuda":
                torch.cuda.synchronize()
            row = replace(row, first=time.perf_counter() - started)
            if case.kernel.sampled:
                result = case.kernel.sampled(result, *inputs)
        largest, share = errors(result, expected)
    except caught_errors() as error:
        return replace(row, problem=_error_text(error))
    right = share <= case.kernel.tolerance[case.dtype]
    wrong = (
        "" if right else f"wrong: its error is {share:.2g}; the tolerance is {case.kernel.tolerance[case.dtype]:.2g}"
    )
    return replace(row, max_error=largest, error=share, correct=right, problem=wrong)


def caught_errors() -> tuple[type[Exception], ...]:
    """Exceptions that only disqualify one version: out of memory, wrong shapes, compiler errors."""
    kinds: list[type[Exception]] = [MemoryError, RuntimeError, TypeError, ValueError, KernelError]
    if find_spec("triton") is not None:
        kinds += tuned.triton_errors()
    if find_spec("numba") is not None:
        kinds.append(importlib.import_module("numba.core.errors").NumbaError)
    return tuple(kinds)


def errors(result: Any, expected: Any) -> tuple[float, float]:
    """Largest difference, and ‖got − want‖ / ‖want‖, over all tensors of a result; infinite if NaN or inf differ."""
    pairs = list(zip(_tensors(result), _tensors(expected), strict=True))
    largest, off, norm = 0.0, 0.0, 0.0
    for actual, reference in pairs:
        actual, reference = actual.double(), reference.double()
        if actual.shape != reference.shape:
            raise ValueError(f"the result has the shape {tuple(actual.shape)}, not {tuple(reference.shape)}")
        equal = (actual == reference) | (actual.isnan() & reference.isnan())
        difference = torch.where(equal, 0.0, (actual - reference).abs()).nan_to_num(nan=float("inf"))
        if difference.numel():
            largest = max(largest, difference.max().item())
            off += difference.square().sum().item()
            norm += reference[reference.isfinite()].square().sum().item()
    return largest, (off / norm) ** 0.5 if norm else (0.0 if off == 0 else float("inf"))


def _tensors(result: Any) -> tuple[Tensor, ...]:
    return result if isinstance(result, tuple) else (result,)


def _empty(case: Case, version: Version, device: str) -> Row:
    size = getattr(torch, case.dtype).itemsize
    minimum = case.kernel.traffic(case.shape, size)
    moved = version.traffic(case.shape, size) if version.traffic else minimum
    return Row(case.kernel.name, version.name, device, case.dtype, case.shape, flops=case.kernel.flops(case.shape),
               bytes=moved, bytes_least=minimum, baseline=case.kernel.baseline,
               note=_note(version, device))  # fmt: skip


def _note(version: Version, device: str) -> str:
    """A remark on the times of a version."""
    return "interpreted in Python: its time is meaningless" if device == "cpu" and "triton" in version.needs else ""


def _filled(row: Row, samples: Samples, base: Samples | None, limits: Ceilings | None) -> Row:
    """The row with its times."""
    median = statistics.median(samples.cold)
    ratio = statistics.median(b / seconds for b, seconds in zip(base.cold, samples.cold, strict=True)) if base else None
    roof, above = share_of_roof(
        limits.least_seconds(row.flops, row.bytes_least, row.dtype) / median if limits else None
    )
    return replace(
        row, seconds=median, warm=statistics.median(samples.warm), least=min(*samples.cold, *samples.warm),
        spread=spread(samples.cold), rounds=len(samples.cold), ratio=ratio, of_roof=roof, above_roof=above,
        others=samples.others,
    )  # fmt: skip


def _error_text(error: BaseException) -> str:
    """An error in one line."""
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
