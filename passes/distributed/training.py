"""Trains a sharded model by ranks on this machine, as the same training in one process."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from espalier.model.errors import JobError, PassError
from espalier.model.leftovers import scratch
from espalier.model.torch.build import parameters_of
from espalier.passes.base import Context
from espalier.passes.distributed.job import Source, write_job
from espalier.passes.distributed.launch import cores, environment, launch
from espalier.passes.distributed.run import MAX_RANKS, RunOptions, mesh_of, settings_of, weight_bytes
from espalier.passes.distributed.training_job import (
    ENOUGH,
    METRICS,
    PAUSE,
    PAUSED,
    PROGRESS,
    RESULT,
    RESUME,
    Training,
    write_training,
)
from espalier.passes.distributed.training_memory import check_memory, predicted
from espalier.passes.tasks.base import is_own
from espalier.passes.training.checkpoint import Checkpoints, read_content
from espalier.passes.training.checkpoint_folders import folder_of, latest
from espalier.passes.training.options import FinetuneOptions
from espalier.passes.training.prepare import Prepared
from espalier.passes.training.run import try_out, watch_of
from espalier.passes.training.watch import Watch

TIMEOUT = 600  # seconds that a rank waits for the others


def train_over_ranks(ready: Prepared, options: FinetuneOptions, context: Context) -> tuple[Watch, dict[str, Any]]:
    """Train by one process per device of the mesh; the built module gets the selected weights.

    Every rank runs the steps of one process on its parts: equal seeds give weights equal to those of one process but
    for rounding, resumed or not, on any mesh. Raises PassError, DataError, JobError for ranks that fail.
    """
    graph = ready.gradual.graph if ready.gradual else ready.graph
    mesh = mesh_of(graph)
    task = ready.train_on.task.name
    if is_own(task):
        raise PassError("Ranks do not train with functions of a Python program, which they cannot be sent.",
                        "Set distributed to false.")  # fmt: skip
    base = context.base if options.teaches else None
    try_out(ready, options)
    ready.train_on.teacher = None  # each rank has its own
    limits = RunOptions(timeout=TIMEOUT, max_ranks=max(MAX_RANKS, cores()))
    settings = settings_of(graph, limits, context, _source(context), raisable=False, base=base)
    device, memory = settings.device, predicted(graph, base, ready, options, settings.device)
    if device == "cpu":
        check_memory(memory, graph)
    watch = watch_of(ready.train_on, ready.check_on, options, context, ready.trained)
    folder = folder_of(ready.graph, options, context.seed, context.base)
    digest = ready.digest()
    checkpoints = Checkpoints(folder, context, ready.trained, options.checkpoint_every, digest)  # locks the folder
    tables = ready.train_on.table, ready.check_on.table if ready.check_on else ()
    training = Training(options, context.seed, None if checkpoints.failed else folder, _frozen(ready),
                        dict(ready.gradual.kinds) if ready.gradual else {}, digest, task, ready.train_on.classes,
                        tables)  # fmt: skip
    finished = False
    try:
        with scratch() as place:
            write_job(place, graph, context.store, (), settings, base)
            check = ready.check_on.tensors if ready.check_on else None
            write_training(place, training, ready.train_on.tensors, check)
            given = environment(settings.threads, settings.source)
            reports = _launched(mesh.devices, place, given, context, folder)
            _take(read_content(place / RESULT), ready, watch)
        finished = True
    finally:
        checkpoints.end(finished)
    watch.warning = watch.warning or checkpoints.failed
    peaks = [{k: r[k] for k in ("rank", "stored_bytes", "peak_bytes")} for r in reports]
    gathered = [{"node": n, "why": text} for n, text in reports[0]["gathered"].items()]
    found = {"mesh": str(mesh), "ranks": mesh.devices, "backend": "nccl" if device == "cuda" else "gloo",
             "memory": peaks, "predicted_memory": memory.to_json(), "gathered": gathered}  # fmt: skip
    return watch, found | ({"teacher_bytes": weight_bytes(base)} if base is not None else {})


def _source(context: Context) -> Source | None:
    """What ranks open again for functions that files cannot hold."""
    found = context.source
    return Source(found.spec, found.inputs, found.seed) if found is not None else None


def _launched(
    ranks: int, place: Path, given: dict[str, str], context: Context, checkpoints: Path
) -> list[dict[str, Any]]:
    """The reports of the ranks; an error says whether the next run resumes."""
    try:
        return launch(ranks, place, given, context, follow=_Follower(place, context).follow)
    except JobError as error:
        if type(error) is not JobError or latest(checkpoints) is None:  # a job that the user has cancelled
            raise
        hint = f"{error.hint} The same training then resumes from its last checkpoint."
        raise JobError(error.message, hint) from error


def _frozen(ready: Prepared) -> tuple[str, ...]:
    named = parameters_of(ready.objective.inner)
    return tuple(n for n, t in named.items() if isinstance(t, nn.Parameter) and not t.requires_grad)


def _take(content: dict[str, Any], ready: Prepared, watch: Watch) -> None:
    """Set the weights, masks and figures that the ranks have written."""
    trained = ready.trained()
    with torch.no_grad():
        for name, value in content["weights"].items():
            trained[name].copy_(value)
    watch.restore(content["watch"])
    for name in ("ended", "more", "warning", "steps", "resumed_from"):
        setattr(watch, name, content[name])
    if ready.gradual is not None:
        ready.gradual.watch = watch
        ready.gradual.plan(content["all_steps"])
        ready.gradual.restore(content["gradual"])


@dataclass(slots=True)
class _Follower:
    """Passes on what the ranks report, and wishes of the user to them."""

    folder: Path
    context: Context
    pause: int = 0
    read: int = 0
    shown: list[Any] = field(default_factory=lambda: [0, 0, "loading the ranks"])

    def follow(self) -> None:
        """Called at intervals; a paused job waits here after the ranks have written their checkpoint."""
        self._metrics()
        if (self.folder / PROGRESS).exists():
            self.shown = json.loads((self.folder / PROGRESS).read_text(encoding="utf-8"))
        if self.context.enough():
            (self.folder / ENOUGH).touch()
        waiting = (self.folder / PAUSED.format(self.pause)).exists()
        if self.context.paused() and not waiting:
            (self.folder / PAUSE.format(self.pause)).touch()
            return
        self.context.progress(*self.shown)
        if waiting:  # also where the pause has ended meanwhile
            (self.folder / RESUME.format(self.pause)).touch()
            self.pause += 1

    def _metrics(self) -> None:
        path = self.folder / METRICS
        if not path.exists():
            return
        with path.open("rb") as file:
            file.seek(self.read)
            for line in file:
                if not line.endswith(b"\n"):  # is being written
                    break
                self.read += len(line)
                self.context.metric(*json.loads(line))
