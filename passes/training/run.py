"""One training run of a built graph with transformers.Trainer, its schedules and optimisers, and own callbacks."""

from __future__ import annotations

import gc
import logging
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_callback import PrinterCallback

from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph, fixed_batch
from espalier.model.leftovers import scratch
from espalier.model.torch.in_place import in_place
from espalier.passes.base import Context
from espalier.passes.running.batches import fit_error
from espalier.passes.running.example import allowed_batch
from espalier.passes.tasks.base import Task
from espalier.passes.training.checkpoint import Checkpoints, Raw, Tensors, set_random_state
from espalier.passes.training.checkpoint_folders import folder_of
from espalier.passes.training.gradual import GradualPruning
from espalier.passes.training.options import FinetuneOptions
from espalier.passes.training.prepare import Prepared, epoch_steps
from espalier.passes.training.samples import Samples, identity
from espalier.passes.training.teacher import LOGITS
from espalier.passes.training.training_errors import Diverged, finite, first_non_finite, memory_errors
from espalier.passes.training.watch import MEASURED_LOSS, Watch

OPTIMISERS = {"adamw": "adamw_torch_fused", "sgd": "sgd", "adafactor": "adafactor"}
_GRAIN = 1 << 15  # the elements of an elementwise operation that torch gives to one thread at least
SCHEDULES = {"linear": "linear", "cosine": "cosine", "constant": "constant_with_warmup"}


def train(ready: Prepared, options: FinetuneOptions, context: Context) -> Watch:
    """Train the built module in place; on return it is in eval mode on the CPU, with the selected weights.

    Equal seeds (`context.seed`) give equal weights, resumed or not. Raises DataError, PassError, and Cancelled
    through `progress`.
    """
    try_out(ready, options)
    watch = watch_of(ready.train_on, ready.check_on, options, context, ready.trained)
    folder = folder_of(ready.graph, options, context.seed, context.base)
    checkpoints = Checkpoints(folder, context, ready.trained, options.checkpoint_every, ready.digest())
    if ready.train_on.teacher is not None:
        checkpoints.parts["teacher"] = ready.train_on.teacher
    callbacks = callbacks_of(watch, checkpoints, ready.gradual)
    finished = False
    try:
        with running() as own, memory_errors(options), in_place(ready.objective.inner):
            trainer = trainer_of(ready.objective, ready.train_on, ready.check_on, options, context.seed, own, callbacks,
                                 batch=particular_batch(ready.graph, options))  # fmt: skip
            run(trainer, watch, checkpoints, options.resume)
        finished = True
    finally:
        checkpoints.end(finished)
    watch.warning = " ".join(filter(None, (watch.warning or checkpoints.failed, checkpoints.lost)))
    ready.objective.cpu().eval()
    restore_best(ready.trained(), watch)
    return watch


def watch_of(
    train_on: Samples, check_on: Samples | None, options: FinetuneOptions, context: Context, tensors: Tensors
) -> Watch:
    """The callback that follows a training."""
    every = (options.evaluate_every or epoch_steps(len(train_on), options)) if check_on else 0
    keep = options.keep
    task = train_on.task
    if keep == "auto":
        keep = task.keep
    if keep == "accuracy" and task.metric("accuracy") is None:
        raise PassError(f"The task {task.name} has no accuracy to keep weights by.", "Set keep to loss, auto or last.")
    watch = Watch(tensors, context, every, keep, options.patience, task)
    watch.checked = check_on.targets if check_on else 0
    return watch


def callbacks_of(watch: Watch, checkpoints: Checkpoints, gradual: GradualPruning | None) -> list[TrainerCallback]:
    """The callbacks of a training in their order, with checkpoints of their states."""
    checkpoints.parts["watch"] = watch
    if gradual is None:
        return [watch, checkpoints]
    checkpoints.parts["gradual"], gradual.watch = gradual, watch
    watch.judged_from, watch.more["sparsity"] = gradual.last, gradual.sparsity
    return [gradual, watch, checkpoints]  # pruned before an evaluation


def run(trainer: FineTuner, watch: Watch, checkpoints: Checkpoints, resume: bool) -> None:
    """Train to the end, from the last checkpoint if there is one; a non-finite loss ends it early."""
    start = checkpoints.load(resume)
    trainer.checkpoints = checkpoints
    try:
        if start is None and trainer.eval_dataset is not None:
            trainer.evaluate()
        trainer.train(resume_from_checkpoint=None if start is None else str(start))
        if fault := first_non_finite(watch.tensors()):
            raise Diverged(trainer.state.global_step, f"the weight {fault} is not finite")
    except Diverged as error:
        watch.diverged(error, checkpoints)


@contextmanager
def running() -> Generator[str]:
    """Environment of a run: libraries' logs off, denormals flushed, forked random state, a folder for the Trainer."""
    with (
        _quiet(),
        _no_denormals(),
        _frozen_garbage(),
        scratch() as folder,
        torch.random.fork_rng(range(torch.cuda.device_count())),
    ):
        yield str(folder)


def trainer_of(
    objective: nn.Module, train_on: Samples, check_on: Samples | None, options: FinetuneOptions, seed: int,
    folder: str, callbacks: Sequence[TrainerCallback], kind: type[FineTuner] | None = None,
    batch: int | None = None,
) -> FineTuner:  # fmt: skip
    """transformers' Trainer of the objective and its data; `batch`: as of `particular_batch`."""
    task = train_on.task
    trainer = (kind or FineTuner)(
        objective, _arguments(options, seed, folder, _validated(options, check_on, batch)), data_collator=identity,
        train_dataset=train_on, eval_dataset=check_on, compute_metrics=partial(_metrics, task),
        preprocess_logits_for_metrics=partial(_statistics, task), callbacks=list(callbacks),
    )  # fmt: skip
    trainer.remove_callback(PrinterCallback)
    return trainer


class FineTuner(Trainer):
    """The Trainer with own checkpoints, stopped by a non-finite loss."""

    checkpoints: Checkpoints | None = None

    def get_decay_parameter_names(self, model: nn.Module) -> list[str]:
        """The Trainer's (no biases, no norms), without learned scales, which must not decay to 0."""
        return [n for n in super().get_decay_parameter_names(model) if not n.endswith(".scale")]

    def training_step(self, model: nn.Module, inputs: Any, num_items_in_batch: Any = None) -> Tensor:
        """Raise Diverged before the optimiser changes the weights."""
        loss = self.agreed(super().training_step(model, inputs, num_items_in_batch))
        if not finite(loss):
            raise self.diverged(self._prepare_inputs(inputs))
        return loss

    def agreed(self, loss: Tensor) -> Tensor:
        """The loss by which the training is judged, of several processes that of one."""
        return loss

    def diverged(self, inputs: Any) -> Diverged:
        """The exception of a batch whose loss is not finite."""
        return Diverged.at(self.state.global_step + 1, self.model, inputs)

    @property
    def _resumed(self) -> Raw:
        assert self.checkpoints is not None and self.checkpoints.resumed is not None
        return self.checkpoints.resumed

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        if self.checkpoints is not None:
            self.checkpoints.save(self)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        assert self.checkpoints is not None
        self.checkpoints.restore_weights()

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is not None:
            parts: Any = (self.optimizer, self.lr_scheduler)
            for part, name in zip(parts, ("optimiser", "schedule"), strict=True):
                part.load_state_dict(self._resumed[name])

    def _load_scaler(self, checkpoint: str | None) -> None:
        if checkpoint is not None and (state := self._resumed["scaler"]) is not None:
            scaler: Any = self.accelerator.scaler
            scaler.load_state_dict(state)

    def _load_rng_state(self, checkpoint: str | None) -> None:
        if checkpoint is not None:
            set_random_state(self._resumed["chance"])


def _arguments(options: FinetuneOptions, seed: int, folder: str, validated: int) -> TrainingArguments:
    cuda = torch.cuda.is_available()
    return TrainingArguments(
        folder,
        num_train_epochs=options.epochs, max_steps=options.max_steps or -1,
        per_device_train_batch_size=options.batch_size, per_device_eval_batch_size=validated,
        gradient_accumulation_steps=options.accumulation,
        learning_rate=options.learning_rate, lr_scheduler_type=SCHEDULES[options.schedule],
        warmup_steps=options.warm_up,  # below 1: a share of all steps
        optim=OPTIMISERS[options.optimiser],
        optim_args=f"momentum={options.momentum}" if options.optimiser == "sgd" else None,
        weight_decay=options.weight_decay, max_grad_norm=options.clip,
        bf16=options.precision == "bfloat16", fp16=options.precision == "float16",
        use_cpu=not cuda, seed=seed, data_seed=seed,
        eval_strategy="no", save_strategy="no", logging_strategy="steps", logging_steps=1, logging_nan_inf_filter=False,
        disable_tqdm=True, report_to="none", log_level="error", label_names=["labels"], remove_unused_columns=False,
        dataloader_pin_memory=cuda,
    )  # fmt: skip


def try_out(ready: Prepared, options: FinetuneOptions) -> None:
    """Run one small batch first, so that unfit data raises its own error."""
    objective, samples = ready.objective, ready.train_on
    own = fixed_batch(ready.graph)
    if own is not None or ready.graph.limits:
        _try_sizes(ready, options, own or 0)
    batch = samples.__getitems__(list(range(min(own or allowed_batch(ready.graph, 2), len(samples)))))
    task = samples.task
    batch["labels"] = task.trial_labels(batch["labels"])
    with fit_error(batch, ready.graph), memory_errors(options), torch.no_grad():
        scores = objective(**batch)["logits"]
    if LOGITS in batch and batch[LOGITS].shape[1:] != scores.shape[1:]:
        axis = 1 if scores.dim() == 4 else -1  # of classes
        raise PassError(f"The baseline has {batch[LOGITS].shape[axis]} classes, the model {scores.shape[axis]}.",
                        "Set distil to 0.")  # fmt: skip
    task.fit_all(scores, samples.tensors["labels"])


def _try_sizes(ready: Prepared, options: FinetuneOptions, own: int) -> None:
    """Run a batch of each size that the training will have, of a graph that takes batches of `own` or, at 0,
    has limits; DataError."""
    parts = ((ready.train_on, options.batch_size), (ready.check_on, _validated(options, ready.check_on, own)))
    for samples, size in parts:
        if samples is None:
            continue
        for count in {min(size, len(samples)), len(samples) % size} - {0, own}:
            batch = samples.__getitems__(list(range(count)))
            batch["labels"] = samples.task.trial_labels(batch["labels"])
            with fit_error(batch, ready.graph), memory_errors(options), torch.no_grad():
                ready.objective(**batch)


def particular_batch(graph: Graph, options: FinetuneOptions) -> int | None:
    """The batch size that a graph has fixed, or that of the training where the graph is valid for some sizes only."""
    return fixed_batch(graph) or (options.batch_size if graph.limits else None)


def _validated(options: FinetuneOptions, check_on: Samples | None, own: int | None) -> int:
    """The batch size of a validation; `own`: as of `particular_batch`."""
    if own is not None or (check_on is not None and check_on.task.large):
        return options.batch_size
    return max(64, options.batch_size)


def _statistics(task: Task, scores: Tensor, labels: Tensor) -> Tensor:
    """What the metrics need of each sample: all scores of a validation would not fit in memory."""
    return torch.from_numpy(task.statistics(scores.cpu(), labels.cpu()))


def _metrics(task: Task, result: Any) -> dict[str, float]:
    statistics: NDArray[np.float64] = result.predictions
    figures = {name: float(value) for name, value in task.figures(statistics.sum(0)).items()} | task.more(statistics)
    return {MEASURED_LOSS if name == "loss" else name: value for name, value in figures.items()}


def restore_best(tensors: dict[str, Tensor], watch: Watch) -> None:
    """Restore the best weights, if they are not the last."""
    with torch.no_grad():
        for name, value in watch.kept.items():
            tensors[name].copy_(value)


@contextmanager
def _no_denormals() -> Generator[None]:
    """Flush denormals (below 2⁻¹²⁶) to 0: processors are many times slower with them (binary formats: 2.5×).

    OpenMP's threads keep the flag that they are started with, so start them before it is set.
    """
    torch.zeros(_GRAIN * torch.get_num_threads(), dtype=torch.uint8).add_(1)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


@contextmanager
def _frozen_garbage() -> Generator[None]:
    """Freeze the garbage collector's objects: accelerate collects at each start, 0.3 s over all imported modules."""
    freezes = not torch.cuda.is_available() and not gc.get_freeze_count()
    if freezes:
        gc.freeze()
    try:
        yield
    finally:
        if freezes:
            gc.unfreeze()


@contextmanager
def _quiet() -> Generator[None]:
    """Suppress warnings of accelerate and transformers (a CPU, a missing tracker)."""
    levels = {name: logging.getLogger(name).level for name in ("accelerate", "transformers")}
    try:
        for name in levels:
            logging.getLogger(name).setLevel(logging.ERROR)
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
