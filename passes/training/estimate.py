"""Estimates the duration of a training from a few timed steps and validation batches."""

from __future__ import annotations

import contextlib
import statistics
import time
from typing import Any

import torch
from torch.utils.data import Subset
from transformers import TrainerCallback

from espalier.passes.base import Context
from espalier.passes.training.options import FinetuneOptions
from espalier.passes.training.prepare import Prepared, all_steps, epoch_steps
from espalier.passes.training.run import particular_batch, running, trainer_of, try_out
from espalier.passes.training.teacher import Teacher
from espalier.passes.training.training_errors import Diverged, memory_errors

WARM, TIMED = 2, 8  # optimiser steps
LONGEST = 3.0  # limit in seconds of the timed steps
BATCHES = 6  # maximum of timed validation batches


def estimate(ready: Prepared, options: FinetuneOptions, context: Context) -> dict[str, Any]:
    """Seconds per step, number of steps, seconds of the training and per validation; the module is trained by it."""
    try_out(ready, options)
    steps = all_steps(len(ready.train_on), options)
    watch = _Stopwatch(context, min(steps, WARM + TIMED))
    with running() as folder, memory_errors(options):
        trainer = trainer_of(ready.objective, ready.train_on, ready.check_on, options, context.seed, folder, [watch],
                             batch=particular_batch(ready.graph, options))  # fmt: skip
        with contextlib.suppress(Diverged):
            trainer.train()
        checks = _validation(ready, trainer, watch) if ready.check_on else 0.0
    teacher = ready.train_on.teacher
    taught = _teacher_seconds(teacher, options) if teacher else 0.0  # of a step, if the teacher's logits are not cached
    new = min(steps, epoch_steps(len(ready.train_on), options)) if teacher and teacher.caches else steps
    every = options.evaluate_every or epoch_steps(len(ready.train_on), options)
    times = 1 + -(-steps // every) if ready.check_on else 0
    total = steps * (watch.step - taught) + new * taught + times * checks
    return {"seconds": round(total, 2), "steps": steps, "seconds_per_step": round(watch.step, 5),
            "validations": times, "seconds_per_validation": round(checks, 3)}  # fmt: skip


def _teacher_seconds(teacher: Teacher, options: FinetuneOptions) -> float:
    return teacher.seconds / max(teacher.asked, 1) * options.batch_size * options.accumulation


def _validation(ready: Prepared, trainer: Any, watch: _Stopwatch) -> float:
    """Seconds of one validation, estimated from its first batches."""
    data, size = ready.check_on, trainer.args.eval_batch_size
    assert data is not None
    few = min(len(data), size * BATCHES)
    watch.begin()
    start = time.perf_counter()
    trainer.evaluate(Subset(data, range(few)))
    return (time.perf_counter() - start) * len(data) / few


class _Stopwatch(TrainerCallback):
    """Times optimiser steps and stops the training; the first steps are warm-up."""

    def __init__(self, context: Context, steps: int) -> None:
        self.context, self.steps = context, steps
        self.times: list[float] = []
        self.begun = self.last = time.perf_counter()

    @property
    def step(self) -> float:
        """Median seconds of one step, without the warm-up if there are further steps."""
        return statistics.median(self.times[WARM:] or self.times)

    def begin(self) -> None:
        """Start the clock."""
        self.begun = self.last = time.perf_counter()

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Start the clock after the Trainer's preparation."""
        self.begin()

    def on_substep_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Report progress, in which a cancelled job stops."""
        self._progress()

    def on_prediction_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Report progress, in which a cancelled job stops."""
        self._progress()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Time a step, and stop after enough steps."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        now = time.perf_counter()
        self.times.append(now - self.last)
        self.last = now
        self._progress()
        late = now - self.begun > LONGEST and len(self.times) > 1
        control.should_training_stop = late or len(self.times) >= self.steps

    def _progress(self) -> None:
        self.context.progress(len(self.times), self.steps, "timing a few steps")
