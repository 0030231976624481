"""One rank of a sharded run: reads the job, runs its parts, writes what it measured."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.model.errors import EspalierError
from espalier.model.orphans import end_with_parent
from espalier.passes.distributed.training_job import TRAINING

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed.device_mesh import DeviceMesh

    from espalier.passes.distributed.interpreter import ShardedModel
    from espalier.passes.distributed.job import Job, Settings

SERVED = "served"  # the folder of answers
LADDER = "ladder"  # whose presence in the folder of a job asks for the times of links
LAUNCHER = "ESPALIER_LAUNCHER"  # process number of the launcher, in the environment of its ranks


def main(folder: Path, prepare: Callable[[Sequence[str]], None]) -> int:
    """Run this rank; returns the exit code. Failures are written for the parent. `prepare` loads plug-ins' files."""
    end_with_parent()
    if os.environ.get(LAUNCHER) not in (None, str(os.getppid())):  # ended before this process could follow it
        return 1
    rank = int(os.environ["RANK"])
    (folder / f"failure-{rank}.json").unlink(missing_ok=True)  # of an earlier start
    try:
        _run(folder, rank, prepare)
    except EspalierError as error:
        _write(folder / f"failure-{rank}.json", {"message": error.message, "hint": error.hint})
        return 1
    # The parent reports whatever a rank fails with.
    except Exception as error:  # noqa: BLE001
        cause = error.__cause__ if isinstance(error.__cause__, Exception) else error  # fx adds its own
        text = f"{type(cause).__name__}: {str(cause).strip().partition(chr(10))[0]}"
        failure = {"message": text, "hint": "", "trace": traceback.format_exc(), "lost": _is_lost(cause)}
        _write(folder / f"failure-{rank}.json", failure)
        return 1
    return 0


def _is_lost(error: Exception) -> bool:
    """Whether the connection to another rank was lost; gloo has no type for that."""
    import torch.distributed as dist

    return isinstance(error, dist.DistError) or "gloo" in str(error)


def _write(path: Path, data: dict[str, Any]) -> None:
    part = path.with_suffix(".part")
    part.write_text(json.dumps(data), encoding="utf-8")
    part.replace(path)


def restart() -> int:
    """How often torchrun has started the ranks again."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def _show_own_device(device: str) -> None:
    """Let torch see this rank's GPU alone, or none, before it is loaded: libraries take all that they see."""
    given = [d for d in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if d]
    local = int(os.environ["LOCAL_RANK"])
    own = given[local] if local < len(given) else str(local)
    os.environ["CUDA_VISIBLE_DEVICES"] = own if device == "cuda" else ""


def _run(folder: Path, rank: int, prepare: Callable[[Sequence[str]], None]) -> None:
    from espalier.passes.distributed.job import read_job, read_settings

    settings = read_settings(folder)
    _show_own_device(settings.device)
    import torch
    import torch.distributed as dist

    job = None if (folder / LADDER).exists() else read_job(folder, settings, prepare)
    torch.set_num_threads(settings.threads)
    _join(rank, settings)
    _write(folder / f"started-{rank}.json", {"process": os.getpid()})
    try:
        if job is None:
            from espalier.passes.distributed.link_times import link_times

            report = link_times(settings.device)
        else:
            report = _report(job, folder, rank)
        _write(folder / f"report-{rank}.json", report)
        dist.barrier()
    finally:
        dist.destroy_process_group()


def _join(rank: int, settings: Settings) -> None:
    """Meet the other ranks."""
    from datetime import timedelta

    import torch.distributed as dist
    from torch.distributed.distributed_c10d import PrefixStore
    from torch.distributed.rendezvous import rendezvous

    backend = "nccl" if settings.device == "cuda" else "gloo"
    timeout = timedelta(seconds=settings.timeout)
    store, _, size = next(rendezvous("env://", timeout=timeout))
    # torchrun keeps one store over restarts, with addresses of ranks that have ended (torch 2.13).
    store = PrefixStore(f"start-{restart()}", store)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timeout)


def _report(job: Job, folder: Path, rank: int) -> dict[str, Any]:
    """What this rank measures of a job."""
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh(job.settings.device, job.settings.mesh)
    if (folder / TRAINING).exists():
        from espalier.passes.distributed.training_rank import train_rank

        return train_rank(job, folder, mesh)
    return (served if job.settings.load else measured)(job, folder, rank, mesh)


def _model(job: Job, folder: Path, mesh: DeviceMesh) -> tuple[ShardedModel, dict[str, Tensor]]:
    """The sharded model and its tensors by name, with this rank's parts of the stored weights."""
    from espalier.model.torch.build import build
    from espalier.passes.distributed.distribute import distribute
    from espalier.passes.distributed.interpreter import ShardedModel
    from espalier.passes.distributed.job import callables_of

    module: Any = build(job.graph, job.store, callables_of(job, folder))
    tensors = distribute(module, job.graph, mesh)
    return ShardedModel(module.to(job.settings.device), job.graph, mesh), tensors


def _memory(tensors: dict[str, Tensor], device: str) -> dict[str, int]:
    from espalier.passes.distributed.distribute import is_split, parts_bytes
    from espalier.passes.distributed.step import peak_bytes

    return {"stored_bytes": parts_bytes(tensors), "peak_bytes": peak_bytes(device),
            "split_tensors": sum(is_split(t) for t in tensors.values()), "tensors": len(tensors)}  # fmt: skip


def served(job: Job, folder: Path, rank: int, mesh: DeviceMesh) -> dict[str, Any]:
    """Answer the requests of the job's load; rank 0 writes the answers."""
    from espalier.passes.distributed.serving.answers import Answers
    from espalier.passes.distributed.serving.load import Samples
    from espalier.passes.distributed.serving.loop import serve_by_ranks

    load = job.settings.load
    assert load is not None
    model, tensors = _model(job, folder, mesh)
    samples = Samples(job.graph, job.batches[0].inputs, load.batch_size)
    serve_by_ranks(load, samples, model, job.settings.device, Answers(folder / SERVED), restart())
    return {"rank": rank, **_memory(tensors, job.settings.device), "gathered": model.gathered}


def measured(job: Job, folder: Path, rank: int, mesh: DeviceMesh, runs: int = 3) -> dict[str, Any]:
    """Run all batches, then measure memory, collectives and times of some `runs`; rank 0 writes the results."""
    import torch.distributed as dist

    from espalier.passes.distributed.distribute import in_stored
    from espalier.passes.distributed.placements import full
    from espalier.passes.distributed.step import passes

    model, tensors = _model(job, folder, mesh)
    batches = [_on(b, job.settings.device) for b in job.batches]
    trained = {n: t for n, t in tensors.items() if t.requires_grad}
    results, gradients = passes(model, job.graph, batches, trained, in_stored)
    named = {f"result.{i}.{j}": v for i, values in enumerate(results) for j, v in enumerate(values)}
    whole = {f"gradient.{n}": full(g) for n, g in gradients.items()}
    if rank == 0:
        _save(folder, named | whole)
    del results, gradients, named, whole
    dist.barrier()
    memory = _memory(tensors, job.settings.device)
    return {"rank": rank, **memory, **_speeds(job, model, trained, runs), "gathered": model.gathered}


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

    names = {id(t): n for n, t in reversed(trained.items())}

    def settle(gradient: Tensor, tensor: Tensor) -> Tensor:
        if model.volumes is not None:
            model.volumes.node = names[id(tensor)]
        return in_stored(gradient, tensor)

    def step() -> None:
        passes(model, job.graph, [batch], trained, settle)
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
