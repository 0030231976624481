"""On a rank: times collectives of growing sizes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from espalier.passes.sharding.collectives import Kind

SIZES = tuple(1 << k for k in range(10, 25, 2))  # bytes that a rank passes in: 1 KiB to 16 MiB
KINDS: tuple[Kind, ...] = ("all_reduce", "all_gather")
SECONDS = 5.0  # after which no further size is begun
WARM_UP, BATCHES, BATCH, MOST = 2, 7, 0.02, 100  # calls; batches of calls, their seconds, and calls of a batch at most
WIDTH = 4  # bytes of a float


def link_times(device: str, seconds: float = SECONDS) -> dict[str, Any]:
    """On a rank: seconds of a call in each batch of calls, by collective and size."""
    import torch
    import torch.distributed as dist

    end, found = time.perf_counter() + seconds, list[dict[str, Any]]()
    for size in SIZES:
        give = torch.zeros(size // WIDTH, device=device)
        take = torch.empty(size // WIDTH * dist.get_world_size(), device=device)
        runs: dict[Kind, Callable[[], object]] = {
            "all_reduce": lambda give=give: dist.all_reduce(give),
            "all_gather": lambda give=give, take=take: dist.all_gather_single(take, give),
        }
        for kind in KINDS:
            calls = _calls(runs[kind], device, end)
            if not calls:
                return {"times": found}
            times = [_timed(runs[kind], device, calls) for _ in range(BATCHES)]
            found.append({"kind": kind, "bytes": size, "seconds": times})
    return {"times": found}


def _calls(run: Callable[[], object], device: str, end: float) -> int:
    """How many calls all ranks time together; 0 if rank 0 has no time left."""
    import torch
    import torch.distributed as dist

    _timed(run, device, WARM_UP)
    one = _timed(run, device, 1)
    calls = 0 if time.perf_counter() > end else max(1, min(MOST, int(BATCH / one)))
    agreed = torch.tensor([calls], device=device)
    dist.broadcast(agreed, 0)
    return int(agreed.item())


def _timed(run: Callable[[], object], device: str, calls: int) -> float:
    """Seconds of a call in a row of them, which ranks begin together."""
    import torch
    import torch.distributed as dist

    dist.barrier()
    start = time.perf_counter()
    for _ in range(calls):
        run()
    if device == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / calls
