"""Requests of measurements. Imports no torch: the window sends them to a worker."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Request:
    """What to measure, as plain values that can be sent to a worker.

    `kernels`: names, empty for all. `shapes`: texts, empty for each kernel's defaults; `sweep`: those of its curve.
    `versions`: names, empty for all. `seconds`: per version and shape. `threads`: 0 for torch's.
    """

    kernels: tuple[str, ...] = ()
    device: str = "cpu"
    dtypes: tuple[str, ...] = ("float32",)
    shapes: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    sweep: bool = False
    seconds: float = 0.3
    rounds: int = 100
    ceilings: bool = True
    threads: int = 0
    seed: int = 0
