"""Measures the links between two ranks on this machine, for plans over devices."""

from __future__ import annotations

from statistics import median
from typing import Any

from espalier.model.errors import PassError
from espalier.model.leftovers import scratch
from espalier.model.memory import free
from espalier.passes.base import Context
from espalier.passes.distributed.job import Settings, write_settings
from espalier.passes.distributed.launch import cores, environment, launch
from espalier.passes.distributed.rank import LADDER
from espalier.passes.distributed.run import PROCESS, device_for
from espalier.passes.sharding.links import Links, Timing, described, fit
from espalier.passes.sharding.planned import amount

RANKS, TIMEOUT = 2, 60.0


def measure_links(context: Context) -> tuple[Links, list[Timing]]:
    """The links between two processes of this machine and the timings to which they are fitted.

    Over NCCL where there are two GPUs, else over gloo. Raises JobError for ranks that fail, PassError.
    """
    need, present = RANKS * PROCESS, free()
    if need > present:
        text = f"{RANKS} processes need about {amount(need)}; {amount(present)} are free."
        raise PassError(text, "Close other programs.")
    device, threads = device_for(RANKS), max(1, cores() // RANKS)
    with scratch() as folder:
        write_settings(folder, Settings((RANKS,), threads, TIMEOUT, device))
        (folder / LADDER).touch()
        reports = launch(RANKS, folder, environment(threads, None), context)
    timings = together(reports)
    return described(fit(timings), "nccl" if device == "cuda" else "gloo", RANKS, threads), timings


def together(reports: list[dict[str, Any]]) -> list[Timing]:
    """A timing per size and collective: the median over batches of the slowest rank."""
    rows = zip(*(r["times"] for r in reports), strict=True)
    return [
        Timing(of[0]["kind"], of[0]["bytes"], median(map(max, zip(*(r["seconds"] for r in of), strict=True))),
               len(reports))
        for of in rows
    ]  # fmt: skip
