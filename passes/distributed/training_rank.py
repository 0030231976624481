"""One rank of a training: all ranks run the same steps of transformers' Trainer on DTensors, as one process would."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from transformers import TrainerCallback
from transformers.optimization import Adafactor
from transformers.trainer_utils import EvalLoopOutput

from espalier.model.graph.graph import Graph, Node
from espalier.model.torch.build import build, parameters_of
from espalier.passes.base import Context
from espalier.passes.distributed.distribute import distribute, in_stored, parts_bytes
from espalier.passes.distributed.interpreter import ShardedModel
from espalier.passes.distributed.job import callables_of
from espalier.passes.distributed.placements import full
from espalier.passes.distributed.split_adafactor import SplitAdafactor
from espalier.passes.distributed.step import peak_bytes
from espalier.passes.distributed.training_checkpoints import RankCheckpoints, write_together
from espalier.passes.distributed.training_job import (
    ENOUGH,
    METRICS,
    PAUSE,
    PAUSED,
    PROGRESS,
    RESULT,
    RESUME,
    Training,
    read_training,
)
from espalier.passes.running.objective import Objective
from espalier.passes.training.gradual import GradualPruning
from espalier.passes.training.options import FinetuneOptions
from espalier.passes.training.run import (
    FineTuner,
    callbacks_of,
    restore_best,
    run,
    running,
    trainer_of,
    watch_of,
)
from espalier.passes.training.samples import Samples
from espalier.passes.training.teacher import DistillationLoss, Teacher, common_blocks
from espalier.passes.training.training_errors import Diverged, memory_errors

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

    from espalier.passes.distributed.job import Job

POLL = 0.05  # seconds between looks at a file
SPARSE = 0.1  # seconds between reports of progress


def of_first(value: Tensor) -> Tensor:
    """A tensor as rank 0 has it."""
    value = value.contiguous().clone()
    dist.broadcast(value, 0)
    return value


class ShardedModule(nn.Module):
    """A built module in parts, in the interface of a module for the Trainer."""

    def __init__(self, module: Any, graph: Graph, mesh: DeviceMesh) -> None:
        super().__init__()
        self.module = module
        self.sharded = ShardedModel(module, graph, mesh)

    def forward(self, **inputs: Tensor) -> Any:
        """Whole results of whole inputs; what taps record is whole as well."""
        result = self.sharded(**inputs)
        for tap in self.sharded.taps.values():
            tap.seen = full(tap.seen)
        return result


class ShardedGradual(GradualPruning):
    """Gradual pruning of weights in parts: each rank computes the masks of whole weights."""

    def ranked(self) -> dict[str, Tensor]:
        """Whole weights, or scores, which are whole; those of rank 0, so that all ranks prune the same elements."""
        whole = self.scores or {n: full(t).detach() for n, t in self.weights.items()}
        return {n: of_first(t) for n, t in whole.items()}


class RankTrainer(FineTuner):
    """The Trainer of one rank. All ranks decide by the figures of rank 0, since their own may differ by rounding."""

    @staticmethod
    def get_optimizer_cls_and_kwargs(args: Any, model: Any = None) -> tuple[Any, Any]:
        """The Trainer's optimisers, of parameters in parts."""
        kind, options = FineTuner.get_optimizer_cls_and_kwargs(args, model)
        return (SplitAdafactor if kind is Adafactor else kind), options

    def agreed(self, loss: Tensor) -> Tensor:
        """The loss of rank 0."""
        return of_first(loss.detach())

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> EvalLoopOutput:
        """The metrics of rank 0."""
        output = super().evaluation_loop(*args, **kwargs)
        metrics = output.metrics or {}
        values = of_first(torch.tensor([*metrics.values()], dtype=torch.float64, device=self.args.device))
        return output._replace(metrics=dict(zip(metrics, values.tolist(), strict=True)))

    def diverged(self, inputs: Any) -> Diverged:
        """The exception, without the node: results between nodes are in parts."""
        del inputs
        return Diverged(self.state.global_step + 1, "")


class Agreement(TrainerCallback):
    """Tells all ranks at the same step what rank 0 has read: whether to end, or to pause."""

    def __init__(self, folder: Path, device: str) -> None:
        self.folder, self.device = folder, device
        self.ends, self.pauses = False, False
        self.pause = 0
        self._last = 0.0

    def _agree(self, *_: Any, **__: Any) -> None:
        files = (self.folder / ENOUGH, self.folder / PAUSE.format(self.pause))
        flags = torch.tensor([int(f.exists()) for f in files], device=self.device)
        dist.broadcast(flags, 0)
        self.ends, self.pauses = map(bool, flags.tolist())

    on_step_begin = on_substep_end = on_step_end = on_prediction_step = _agree

    def progress(self, done: int, total: int, text: str) -> None:
        """Report progress; wait here if the training pauses."""
        if dist.get_rank() == 0 and (time.monotonic() - self._last > SPARSE or done == total):
            self._last = time.monotonic()
            part = self.folder / f"{PROGRESS}.part"
            part.write_text(json.dumps([done, total, text]))
            part.replace(self.folder / PROGRESS)
        if self.pauses:
            if dist.get_rank() == 0:
                (self.folder / PAUSED.format(self.pause)).touch()
            while not (self.folder / RESUME.format(self.pause)).exists():
                time.sleep(POLL)
            self.pause, self.pauses = self.pause + 1, False

    def metric(self, name: str, step: int, value: float) -> None:
        """Report a metric."""
        if dist.get_rank() == 0:
            with (self.folder / METRICS).open("a") as file:
                file.write(json.dumps([name, step, value]) + "\n")


class Parts:
    """The built module of a job, in parts on this rank. `trained`: the tensors that training changes, by name."""

    def __init__(self, job: Job, training: Training, callables: dict[str, Any], mesh: DeviceMesh) -> None:
        module: Any = build(job.graph, job.store, callables)
        named = parameters_of(module)
        for name in training.frozen:
            named[name].requires_grad_(False)
        kinds, options = training.kinds, training.options
        self.gradual = ShardedGradual(job.graph, module, kinds, options) if kinds else None
        self.tensors = distribute(module, job.graph, mesh)
        if self.gradual is not None:
            self.gradual.weights = {n: self.tensors[n] for n in kinds}
        for tensor in self.tensors.values():
            if tensor.requires_grad:  # a partial sum is added up before it is accumulated
                tensor.register_hook(lambda gradient, tensor=tensor: in_stored(gradient, tensor))
        roles = job.graph.weights
        self.trained = {n: t for n, t in self.tensors.items() if t.requires_grad or roles[n].role == "buffer"}
        self.module = ShardedModule(module, job.graph, mesh)

    def taught(self, job: Job, options: FinetuneOptions, samples: Samples) -> Objective:
        """The objective; with a teacher the loss is against its outputs."""
        loss = (
            DistillationLoss(options, self.module.sharded.tap(_blocks(job, options)))
            if samples.teacher is not None
            else None
        )
        return Objective(self.module, job.graph, loss, samples.task)


def _blocks(job: Job, options: FinetuneOptions) -> dict[str, Node]:
    return common_blocks(job.graph, job.base) if options.hidden and job.base is not None else {}


def train_rank(job: Job, folder: Path, mesh: DeviceMesh) -> dict[str, Any]:
    """Train; all ranks write the result together. Returns the figures of this rank."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):  # the Trainer must not split batches as well
        os.environ.pop(name, None)
    device = job.settings.device
    training, train, check = read_training(folder)
    options, callables = training.options, callables_of(job, folder)
    parts = Parts(job, training, callables, mesh)
    trained, gradual = parts.trained, parts.gradual
    agreement = Agreement(folder, device)
    context = Context(job.store, training.seed, agreement.progress, callables, metric=agreement.metric,
                      enough=lambda: agreement.ends, paused=lambda: agreement.pauses)  # fmt: skip
    given, (table, other) = (training.task, training.classes), training.tables
    train_on, check_on = Samples.of(train, *given, table), Samples.of(check, *given, other) if check else None
    watch = watch_of(train_on, check_on, options, context, lambda: trained)
    checkpoints = RankCheckpoints(
        training.checkpoints, device, context, lambda: trained, options.checkpoint_every, training.data
    )
    if job.base is not None:  # whole on each rank
        train_on.teacher = checkpoints.parts["teacher"] = Teacher(
            job.base, _blocks(job, options), len(train_on), context, train_on.task
        )
    objective = parts.taught(job, options, train_on)
    callbacks = [agreement, *callbacks_of(watch, checkpoints, gradual)]
    start = time.perf_counter()
    with running() as own, memory_errors(options):
        trainer = trainer_of(objective, train_on, check_on, options, training.seed, own, callbacks, RankTrainer)
        checkpoints.name_parameters(trainer)
        run(trainer, watch, checkpoints, options.resume)
    restore_best(trained, watch)
    seconds = time.perf_counter() - start
    warning = " ".join(filter(None, (watch.warning or checkpoints.failed, checkpoints.lost)))
    write_together(folder / RESULT, {
        "weights": trained, "watch": watch.state() | {"kept": {}}, "ended": watch.ended, "more": watch.more,
        "warning": warning, "steps": watch.steps, "resumed_from": watch.resumed_from,
        "all_steps": trainer.state.max_steps,
        "gradual": gradual.state() if gradual else None,
    })  # fmt: skip
    return {"rank": dist.get_rank(), "seconds": seconds, "peak_bytes": peak_bytes(device),
            "stored_bytes": parts_bytes(parts.tensors), "gathered": parts.module.sharded.gathered}  # fmt: skip
