"""Requests of measurements. Without torch: windows send them to a worker."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Request:
    """What to measure: plain values, so that they travel to a worker.

    `kernels`: names, none for all. `shapes`: texts, none for each kernel's own; `sweep`: those of its curve instead.
    `versions`: names, none for all. `seconds`: of rounds for each version at each shape. `threads`: 0: torch's.
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
