"""Fast fake quantisation of a 768×3072 tensor against a copy of it.

All formats and the copy take turns in the same rounds; the minimum of many is kept. `masked` gives the gate too.
One thread is measured in its own processor time, since others may work on the machine; more by the clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from espalier.kernels.registry import install
from espalier.model.formats.base import FAST, Format, parse_format
from tests.benchmarks.record import report

FORMATS = (
    "integer", "minifloat_ieee", "minifloat_denorm", "log", "binary", "block_fp", "block_minifloat", "block_log",
    "mxint", "mxfp", "nvfp4", "scaled_integer(granularity=channel)", "scaled_integer(granularity=tensor)",
    "scaled_integer(width=4, granularity=group(128))", "scaled_integer(symmetric=False)",
    "scaled_integer(scale_dtype=bfloat16)", "binary_scaled", "binary_residual", "ternary",
    "ternary(granularity=tensor)",
)  # fmt: skip
SHAPE, ROUNDS = (768, 3072), 30


def best(calls: dict[str, Callable[[], Any]], rounds: int, clock: Callable[[], float]) -> dict[str, float]:
    """Least seconds of each, all taking turns; the first call of each, which compiles, does not count."""
    for call in calls.values():
        call()
    found = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            start = clock()
            call()
            found[name] = min(found[name], clock() - start)
    return found


def masked(fmt: Format, x: Tensor) -> Any:
    """Value and gate."""
    return FAST[type(fmt), "cpu"].masked(fmt, x)


def against_copy(dtype: torch.dtype, threads: int) -> dict[str, Any]:
    """Milliseconds and ratios by format."""
    torch.set_num_threads(threads)
    x = (torch.randn(SHAPE, generator=torch.Generator().manual_seed(0)) * 0.02).to(dtype)
    # A copy to where the formats write too: a buffer of its own is out of the cache by its next turn (2× slower).
    calls: dict[str, Callable[[], Any]] = {"copy": x.clone}
    for text in FORMATS:
        fmt = parse_format(text)
        calls[text] = lambda fmt=fmt: fmt.forward(x)
        calls[f"{text} masked"] = lambda fmt=fmt: masked(fmt, x)
    found = best(calls, ROUNDS, time.thread_time if threads == 1 else time.perf_counter)
    copy = found.pop("copy")
    rows = {name: {"ms": round(s * 1e3, 3), "ratio": round(s / copy, 2)} for name, s in found.items()}
    return {"copy_ms": round(copy * 1e3, 3), **rows}


def main() -> None:
    """One and two threads, all dtypes."""
    install()
    figures: dict[str, Any] = {"shape": list(SHAPE)}
    for threads in (1, 2):
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            figures[f"{str(dtype)[6:]}, {threads} threads"] = against_copy(dtype, threads)
    report("fake_quant", figures)


if __name__ == "__main__":
    main()
