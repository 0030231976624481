"""One training run of a built graph: transformers.Trainer with its loop, schedules and optimisers, and our watch."""

from __future__ import annotations

import gc
import logging
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_callback import PrinterCallback

from espalier.model.errors import DataError, PassError
from espalier.model.leftovers import scratch
from espalier.model.torch.in_place import unheard
from espalier.passes.base import Context
from espalier.passes.running.batches import fit_error
from espalier.passes.training.checkpoint import Checkpoints, Raw, set_chance
from espalier.passes.training.faults import Diverged, finite, memory_told, no_number
from espalier.passes.training.options import FinetuneOptions
from espalier.passes.training.prepare import Prepared, epoch_steps
from espalier.passes.training.samples import as_they_are
from espalier.passes.training.teacher import LOGITS
from espalier.passes.training.unfinished import folder_of
from espalier.passes.training.watch import Watch

OPTIMISERS = {"adamw": "adamw_torch_fused", "sgd": "sgd", "adafactor": "adafactor"}
SCHEDULES = {"linear": "linear", "cosine": "cosine", "constant": "constant_with_warmup"}


def train(ready: Prepared, options: FinetuneOptions, context: Context) -> Watch:
    """Train the built module in place; on return it is in eval mode on the CPU, with the weights to be kept.

    Equal seeds (`context.seed`) give equal weights, interrupted or not. Raises DataError, PassError, and Cancelled
    through `progress`.
    """
    try_out(ready, options)
    every = (options.evaluate_every or epoch_steps(len(ready.train_on), options)) if ready.check_on else 0
    watch = Watch(ready.moving, context, every, options.keep, options.patience)
    watch.checked = len(ready.check_on) if ready.check_on else 0
    folder = folder_of(ready.graph, options, context.seed, context.base)
    kept = Checkpoints(folder, context, ready.moving, options.checkpoint_every, ready.digest())
    kept.parts["watch"] = watch
    if ready.train_on.teacher is not None:
        kept.parts["teacher"] = ready.train_on.teacher
    callbacks: list[TrainerCallback] = [watch, kept]
    if ready.gradual is not None:
        kept.parts["gradual"], ready.gradual.watch = ready.gradual, watch
        watch.judged_from, watch.more["sparsity"] = ready.gradual.last, ready.gradual.sparsity
        callbacks.insert(0, ready.gradual)  # an evaluation sees the new masks
    finished = False
    try:
        with running() as own, memory_told(options), unheard(ready.objective.inner):
            _run(trainer_of(ready, options, context.seed, own, callbacks), watch, kept, options.resume)
        finished = True
    finally:
        kept.end(finished)
    watch.warning = watch.warning or kept.failed
    ready.objective.cpu().eval()
    _restore(ready.moving(), watch)
    return watch


def _run(trainer: _Trainer, watch: Watch, kept: Checkpoints, resume: bool) -> None:
    """Train to the end, from the last checkpoint where there is one; a loss that is no number ends it earlier."""
    found = kept.look(resume)
    trainer.checkpoints = kept
    try:
        if found is None and trainer.eval_dataset is not None:
            trainer.evaluate()
        trainer.train(resume_from_checkpoint=None if found is None else str(found))
        if fault := no_number(watch.tensors()):
            raise Diverged(trainer.state.global_step, f"the weight {fault} holds values that are no numbers")
    except Diverged as error:
        watch.diverged(error, kept)


@contextmanager
def running() -> Generator[str]:
    """What a run needs around it: quiet libraries, no denormals, chance of its own, a folder for the Trainer."""
    with (
        _quiet(),
        _no_denormals(),
        _garbage_of_its_own(),
        scratch() as folder,
        torch.random.fork_rng(range(torch.cuda.device_count())),
    ):
        yield str(folder)


def trainer_of(
    ready: Prepared, options: FinetuneOptions, seed: int, folder: str, callbacks: Sequence[TrainerCallback]
) -> _Trainer:
    """transformers' Trainer over the objective and its data."""
    trainer = _Trainer(
        ready.objective, _arguments(options, seed, folder), data_collator=as_they_are, train_dataset=ready.train_on,
        eval_dataset=ready.check_on, compute_metrics=_accuracy, callbacks=list(callbacks),
    )  # fmt: skip
    trainer.remove_callback(PrinterCallback)
    return trainer


class _Trainer(Trainer):
    """The Trainer with checkpoints of our form, and an end where the loss is no number."""

    checkpoints: Checkpoints | None = None

    def get_decay_parameter_names(self, model: nn.Module) -> list[str]:
        """Those of the Trainer (no biases, no norms) but the learned scales, which no decay should pull to 0."""
        return [n for n in super().get_decay_parameter_names(model) if not n.endswith(".scale")]

    def training_step(self, model: nn.Module, inputs: Any, num_items_in_batch: Any = None) -> Tensor:
        """Raises Diverged before the optimiser can spoil the weights."""
        loss = super().training_step(model, inputs, num_items_in_batch)
        if not finite(loss):
            raise Diverged.at(self.state.global_step + 1, self.model, self._prepare_inputs(inputs))
        return loss

    @property
    def _resumed(self) -> Raw:
        assert self.checkpoints is not None and self.checkpoints.resumed is not None
        return self.checkpoints.resumed

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        if self.checkpoints is not None:
            self.checkpoints.save(self)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        assert self.checkpoints is not None
        self.checkpoints.weights()

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is not None:
            made: Any = (self.optimizer, self.lr_scheduler)
            for part, name in zip(made, ("optimiser", "schedule"), strict=True):
                part.load_state_dict(self._resumed[name])

    def _load_scaler(self, checkpoint: str | None) -> None:
        if checkpoint is not None and (held := self._resumed["scaler"]) is not None:
            scaler: Any = self.accelerator.scaler
            scaler.load_state_dict(held)

    def _load_rng_state(self, checkpoint: str | None) -> None:
        if checkpoint is not None:
            set_chance(self._resumed["chance"])


def _arguments(options: FinetuneOptions, seed: int, folder: str) -> TrainingArguments:
    cuda = torch.cuda.is_available()
    return TrainingArguments(
        folder,
        num_train_epochs=options.epochs, max_steps=options.max_steps or -1,
        per_device_train_batch_size=options.batch_size, per_device_eval_batch_size=max(64, options.batch_size),
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
    """One small batch before anything else, so that data that does not fit is told as such."""
    objective, samples = ready.objective, ready.train_on
    batch = samples.__getitems__(list(range(min(2, len(samples)))))
    batch["labels"] = torch.zeros_like(batch["labels"])  # a class that every model has
    with fit_error(batch), memory_told(options), torch.no_grad():
        classes = objective(**batch)["logits"].shape[-1]
    if LOGITS in batch and batch[LOGITS].shape[-1] != classes:
        raise PassError(f"The baseline tells {batch[LOGITS].shape[-1]} classes apart, the model {classes}.",
                        "Set distil to 0.")  # fmt: skip
    if samples.classes > classes:
        raise DataError(f"The data has classes up to {samples.classes - 1}; the model tells {classes} apart.",
                        "Use a model with as many labels as the data.")  # fmt: skip


def _accuracy(found: Any) -> dict[str, float]:
    return {"accuracy": float(np.mean(found.predictions.argmax(-1) == found.label_ids))}


def _restore(tensors: dict[str, Tensor], watch: Watch) -> None:
    """Put the best weights back where others came after them."""
    with torch.no_grad():
        for name, value in watch.kept.items():
            tensors[name].copy_(value)


@contextmanager
def _no_denormals() -> Generator[None]:
    """Gradients below 2⁻¹²⁶ count as 0: a processor takes many times as long over them (binary formats: 2.5×)."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


@contextmanager
def _garbage_of_its_own() -> Generator[None]:
    """Each training begins with a search for garbage (accelerate's), a third of a second over all that is imported."""
    mine = not torch.cuda.is_available() and not gc.get_freeze_count()
    if mine:
        gc.freeze()
    try:
        yield
    finally:
        if mine:
            gc.unfreeze()


@contextmanager
def _quiet() -> Generator[None]:
    """What accelerate and transformers warn of (a CPU, a missing tracker) is nothing to a user of ours."""
    held = {name: logging.getLogger(name).level for name in ("accelerate", "transformers")}
    try:
        for name in held:
            logging.getLogger(name).setLevel(logging.ERROR)
        yield
    finally:
        for name, level in held.items():
            logging.getLogger(name).setLevel(level)
