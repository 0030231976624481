"""The report of a served model: throughput, latencies, restarts, and how results differ from one process."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

from espalier.passes.distributed.job import Settings
from espalier.passes.distributed.run import notes_of
from espalier.passes.distributed.serving.answers import Answers
from espalier.passes.distributed.serving.load import MOST, Load
from espalier.passes.sharding.mesh import Mesh

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FEW = 100  # requests below which a 99th percentile lies between the two slowest ones
BACKLOG = 4  # waiting batches from which latencies are those of a queue that grows


def report_of(
    settings: Settings, served: Answers, single: dict[str, Any], difference: dict[str, Any],
    reports: list[dict[str, Any]],
) -> dict[str, Any]:  # fmt: skip
    """Figures of the ranks beside those of one process."""
    load = settings.load
    assert load is not None
    sharded, alone = figures(load, served), figures(load, single["answers"])
    return {
        "mesh": str(Mesh(settings.mesh)),
        "ranks": len(reports),
        "backend": "nccl" if settings.device == "cuda" else "gloo",
        "threads": settings.threads,
        "load": {"loop": "open" if load.rate else "closed", "rate": load.rate or None, "batch_size": load.batch_size,
                 "clients": None if load.rate else load.batch_size},
        "sharded": sharded,
        "single": alone | {"stored_bytes": single["stored_bytes"]},
        "difference": {"outputs": {k: v for k, v in difference.items() if k != "requests"}},
        "compared": {"outputs": difference["requests"]},
        "restarts": served.starts[-1].restart,
        "outages": outages(load, served),
        "lost": (load.requests or len(load.arrivals()) or served.answered) - served.answered,
        "memory": [{k: r[k] for k in ("rank", "stored_bytes", "peak_bytes", "split_tensors")} for r in reports],
        "gathered": [{"node": n, "why": text} for n, text in reports[0]["gathered"].items()],
        "notes": [*notes_of(settings), *_notes(load, served, sharded, alone)],
    }  # fmt: skip


def sent(load: Load, answers: Answers) -> NDArray[np.float64]:
    """The time at which each answered request was sent; a client sends its next one when it has its answer."""
    import numpy as np

    if arrivals := load.arrivals():
        return answers.begin + np.array(arrivals[: answers.answered])
    return np.repeat(np.array([answers.begin, *answers.batches.ends[:-1]]), answers.batches.counts)


def figures(load: Load, answers: Answers) -> dict[str, Any]:
    """Throughput and latencies, from the sending of a request to its answer."""
    import numpy as np

    begins, batches = sent(load, answers), answers.batches
    ends = np.repeat(batches.ends, batches.counts)
    latencies = (ends - begins) * 1e3
    seconds = answers.last - answers.begin
    p50, p95, p99 = (float(v) for v in np.percentile(latencies, (50, 95, 99)))
    return {
        "requests": answers.answered,
        "seconds": seconds,
        "samples_per_second": answers.answered / seconds,
        "latency_ms": {"p50": p50, "p95": p95, "p99": p99, "max": float(latencies.max())},
        "batches": len(batches),
        "mean_batch": answers.answered / len(batches),
        "waiting_at_last_arrival": int((ends > begins[-1]).sum()),
    }


def outages(load: Load, answers: Answers) -> list[dict[str, Any]]:
    """Of each restart that requests met: seconds between two answers, and requests that waited for it."""
    begins, found = sent(load, answers), list[dict[str, Any]]()
    for start in answers.starts[1:]:
        ends, next_batch = answers.batches.ends, bisect_left(answers.batches.firsts, start.answered)
        if next_batch < len(ends):
            waiting = int((begins[start.answered :] <= start.ready).sum())
            seconds = ends[next_batch] - (ends[next_batch - 1] if next_batch else answers.begin)
            found.append({"restart": start.restart, "seconds": seconds, "waiting": waiting})
    return found


def _notes(load: Load, served: Answers, sharded: dict[str, Any], single: dict[str, Any]) -> list[str]:
    notes = list[str]()
    if len(served.starts) > 1:
        notes.append("Throughput and latencies of the ranks include the time of the restarts.")
    if load.kill_rank >= 0 and len(served.starts) == 1:
        notes.append(f"All requests were answered before rank {load.kill_rank} was to be killed.")
    for name, found in (("the ranks", sharded), ("one process", single)):
        if not load.rate and not load.requests and found["requests"] >= MOST:
            notes.append(f"The load of {name} ended after {MOST:,} requests, in {found['seconds']:.3g} s.")
    if sharded["requests"] < FEW:
        notes.append(f"With {sharded['requests']} requests the 99th percentile is close to the maximum.")
    for name, found in (("the ranks", sharded), ("one process", single)):
        waiting = found["waiting_at_last_arrival"]
        if load.rate and waiting > BACKLOG * load.batch_size and not (found is sharded and len(served.starts) > 1):
            notes.append(f"{waiting} requests waited for {name} when the last one arrived, so that latencies grow "
                         "with the length of such a load.")  # fmt: skip
    return notes
