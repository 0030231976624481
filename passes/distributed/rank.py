"""One rank of a sharded run: reads the job, runs its parts, writes what it measured."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.model.errors import EspalierError
from espalier.model.orphans import end_with_parent

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed.device_mesh import DeviceMesh

    from espalier.passes.distributed.job import Job

LAUNCHER = "ESPALIER_LAUNCHER"  # process number of the launcher, in the environment of its ranks


def main(folder: Path, prepare: Callable[[Sequence[str]], None]) -> int:
    """Run this rank; returns the exit code. Failures are written for the parent. `prepare` loads plug-ins' files."""
    end_with_parent()
    if os.environ.get(LAUNCHER) not in (None, str(os.getppid())):  # ended before this process could follow it
        return 1
    rank = int(os.environ["RANK"])
    try:
        _run(folder, rank, prepare)
    except EspalierError as error:
        _write(folder / f"failure-{rank}.json", {"message": error.message, "hint": error.hint})
        return 1
    # The parent reports whatever a rank fails with.
    except Exception as error:  # noqa: BLE001
        cause = error.__cause__ if isinstance(error.__cause__, Exception) else error  # fx adds its own
        text = f"{type(cause).__name__}: {str(cause).strip().partition(chr(10))[0]}"
        _write(folder / f"failure-{rank}.json", {"message": text, "hint": "", "trace": traceback.format_exc()})
        return 1
    return 0


def _write(path: Path, data: dict[str, Any]) -> None:
    part = path.with_suffix(".part")
    part.write_text(json.dumps(data), encoding="utf-8")
    part.replace(path)


def _run(folder: Path, rank: int, prepare: Callable[[Sequence[str]], None]) -> None:
    from datetime import timedelta

    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh

    from espalier.passes.distributed.job import read_job

    job = read_job(folder, prepare)
    settings = job.settings
    torch.set_num_threads(settings.threads)
    if settings.device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    backend = "nccl" if settings.device == "cuda" else "gloo"
    dist.init_process_group(backend, timeout=timedelta(seconds=settings.timeout))
    _write(folder / f"started-{rank}.json", {"process": os.getpid()})
    try:
        report = measured(job, folder, rank, init_device_mesh(settings.device, settings.mesh))
        _write(folder / f"report-{rank}.json", report)
        dist.barrier()
    finally:
        dist.destroy_process_group()


def _callables(job: Job, folder: Path) -> dict[str, Any]:
    from espalier.model.opening import reopen

    source = job.settings.source
    return reopen(source.spec, folder / "again", source.inputs, source.seed).callables if source else {}


def measured(job: Job, folder: Path, rank: int, mesh: DeviceMesh, runs: int = 3) -> dict[str, Any]:
    """Run all batches, then measure memory, collectives and times of some `runs`; rank 0 writes the results."""
    import torch.distributed as dist

    from espalier.model.torch.build import build
    from espalier.passes.distributed.distribute import distribute, in_stored, is_split, parts_bytes
    from espalier.passes.distributed.interpreter import ShardedModel
    from espalier.passes.distributed.placements import full
    from espalier.passes.distributed.step import passes

    module: Any = build(job.graph, job.store, _callables(job, folder))
    tensors = distribute(module, job.graph, mesh)
    module.to(job.settings.device)
    batches = [_on(b, job.settings.device) for b in job.batches]
    model = ShardedModel(module, job.graph, mesh)
    trained = {n: t for n, t in tensors.items() if t.requires_grad}
    results, gradients = passes(model, job.graph, batches, trained, in_stored)
    named = {f"result.{i}.{j}": v for i, values in enumerate(results) for j, v in enumerate(values)}
    whole = {f"gradient.{n}": full(g) for n, g in gradients.items()}
    if rank == 0:
        _save(folder, named | whole)
    del results, gradients, named, whole
    dist.barrier()
    stored = parts_bytes(tensors)
    memory = {"stored_bytes": stored, "peak_bytes": peak_bytes(job.settings.device)}
    split = sum(is_split(t) for t in tensors.values())
    speeds = _speeds(job, model, trained, runs)
    return {"rank": rank, **memory, "split_tensors": split, "tensors": len(tensors), **speeds,
            "gathered": model.gathered}  # fmt: skip


def _on(batch: Any, device: str) -> Any:
    from espalier.passes.distributed.step import Batch

    labels = None if batch.labels is None else batch.labels.to(device)
    return Batch({k: v.to(device) for k, v in batch.inputs.items()}, labels)


def _save(folder: Path, tensors: dict[str, Tensor]) -> None:
    from safetensors.torch import save_file

    from espalier.passes.distributed.job import RESULTS

    save_file({k: v.detach().cpu().contiguous().clone() for k, v in tensors.items()}, folder / RESULTS)


def _speeds(job: Job, model: Any, trained: dict[str, Tensor], runs: int) -> dict[str, Any]:
    """Seconds and collectives of the first batch: forward without gradients, and forward with backward."""
    import torch
    import torch.distributed as dist

    from espalier.passes.distributed.distribute import in_stored
    from espalier.passes.distributed.step import passes, timed
    from espalier.passes.distributed.volumes import Volumes

    batch = _on(job.batches[0], job.settings.device)

    def forward() -> None:
        with torch.no_grad():
            model(**batch.inputs)
        if job.settings.device == "cuda":
            torch.cuda.synchronize()

    def step() -> None:
        passes(model, job.graph, [batch], trained, in_stored)
        if job.settings.device == "cuda":
            torch.cuda.synchronize()

    found: dict[str, Any] = {}
    for name, run in (("forward", forward), ("step", step)) if trained else (("forward", forward),):
        model.volumes = volumes = Volumes()
        with volumes:
            run()
        model.volumes = None
        found[f"{name}_collectives"] = list(volumes.rows())
        found[f"{name}_seconds"] = timed(run, dist.barrier, runs)
    return found


def peak_bytes(device: str) -> int:
    """Largest memory of this process so far: resident, on a GPU what torch allocated there."""
    if device == "cuda":
        import torch

        return int(torch.cuda.max_memory_allocated())
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
