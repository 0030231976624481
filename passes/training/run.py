"""One training run of a built graph: transformers.Trainer with its loop, schedules and optimisers, and our watch."""

from __future__ import annotations

import logging
import math
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from transformers import Trainer, TrainingArguments
from transformers.trainer_callback import PrinterCallback

from model.build import parameters_of
from model.errors import DataError
from passes.analysis.evaluate import fit_error
from passes.base import Context
from passes.training.objective import Objective
from passes.training.samples import Samples, as_they_are
from passes.training.watch import Watch

if TYPE_CHECKING:
    from passes.transform.finetune import FinetuneOptions

OPTIMISERS = {"adamw": "adamw_torch_fused", "sgd": "sgd", "adafactor": "adafactor"}
SCHEDULES = {"linear": "linear", "cosine": "cosine", "constant": "constant_with_warmup"}


def train(objective: Objective, train_on: Samples, check_on: Samples | None, options: FinetuneOptions,
          context: Context) -> Watch:  # fmt: skip
    """Train `objective.inner` in place; on return it is in eval mode on the CPU, with the weights to be kept.

    Equal seeds (`context.seed`) give equal weights. Raises DataError, PassError, and Cancelled through `progress`.
    """
    _try(objective, train_on)
    every = (options.evaluate_every or _steps_of_an_epoch(train_on, options)) if check_on else 0
    watch = Watch(objective.inner, context, every, options.keep, options.patience)
    with _quiet(), _no_denormals(), tempfile.TemporaryDirectory() as folder, torch.random.fork_rng(_devices()):
        trainer = _Trainer(
            objective, _arguments(options, context.seed, folder), data_collator=as_they_are, train_dataset=train_on,
            eval_dataset=check_on, compute_metrics=_accuracy, callbacks=[watch],
        )  # fmt: skip
        trainer.remove_callback(PrinterCallback)
        if check_on:
            trainer.evaluate()
        trainer.train()
    objective.cpu().eval()
    _restore(objective.inner, watch)
    return watch


class _Trainer(Trainer):
    def get_decay_parameter_names(self, model: nn.Module) -> list[str]:
        """Those of the Trainer (no biases, no norms) but the learned scales, which no decay should pull to 0."""
        return [n for n in super().get_decay_parameter_names(model) if not n.endswith(".scale")]


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
        bf16=options.precision == "bfloat16", use_cpu=not cuda, seed=seed, data_seed=seed,
        eval_strategy="no", save_strategy="no", logging_strategy="steps", logging_steps=1, logging_nan_inf_filter=False,
        disable_tqdm=True, report_to="none", log_level="error", label_names=["labels"], remove_unused_columns=False,
        dataloader_pin_memory=cuda,
    )  # fmt: skip


def _steps_of_an_epoch(samples: Samples, options: FinetuneOptions) -> int:
    return math.ceil(math.ceil(len(samples) / options.batch_size) / options.accumulation)


def _try(objective: Objective, samples: Samples) -> None:
    """One small batch before anything else, so that data that does not fit is told as such."""
    batch = samples.__getitems__(list(range(min(2, len(samples)))))
    batch["labels"] = torch.zeros_like(batch["labels"])  # a class that every model has
    with fit_error(batch), torch.no_grad():
        classes = objective(**batch)["logits"].shape[-1]
    if samples.classes > classes:
        raise DataError(f"The data has classes up to {samples.classes - 1}; the model tells {classes} apart.",
                        "Use a model with as many labels as the data.")  # fmt: skip


def _accuracy(found: Any) -> dict[str, float]:
    return {"accuracy": float(np.mean(found.predictions.argmax(-1) == found.label_ids))}


def _restore(module: nn.Module, watch: Watch) -> None:
    """Put the best weights back where others came after them."""
    with torch.no_grad():
        for name, value in parameters_of(module).items():
            if name in watch.kept:
                value.copy_(watch.kept[name])


def _devices() -> list[int]:
    return list(range(torch.cuda.device_count()))


@contextmanager
def _no_denormals() -> Generator[None]:
    """Gradients below 2⁻¹²⁶ count as 0: a processor takes many times as long over them (binary formats: 2.5×)."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


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
