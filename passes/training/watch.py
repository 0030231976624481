"""Callback of a training run: progress and metrics, selection of the best weights, early stopping."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

from torch import Tensor
from transformers import TrainerCallback

from espalier.model.data.base import CLASSIFICATION
from espalier.passes.base import Context, Row
from espalier.passes.tasks.base import TASKS, Task
from espalier.passes.training.checkpoint import Checkpoints
from espalier.passes.training.curve import SAMPLES, TRAINING_LOSS, VALIDATION
from espalier.passes.training.training_errors import HINT, Diverged, first_non_finite

Best = Literal["accuracy", "loss", "last"]
ALIKE = 1e-6  # relative tolerance of equal losses; float32 sums in another order differ by about 1e-7
MEASURED_LOSS = "measured_loss"  # of all labels; the Trainer's own is a mean over batches
SHOWN = {"loss": TRAINING_LOSS, "learning_rate": "learning rate"}


class Watch(TrainerCallback):
    """`tensors`: returns the trained tensors; `every`: optimiser steps between evaluations, 0 for none.

    `best`: metric that selects the weights, ties by loss; `patience`: stop after so many evaluations without
    improvement (0: never). A loss is better if it is lower by more than `ALIKE`.
    """

    def __init__(
        self, tensors: Callable[[], dict[str, Tensor]], context: Context, every: int, best: Best, patience: int,
        task: Task | None = None,
    ) -> None:  # fmt: skip
        self.task = task or TASKS.get(CLASSIFICATION)
        self.tensors, self.context = tensors, context
        self.every, self.best, self.patience = every, best, patience
        self.rows: list[Row] = []
        self.ended, self.warning = "finished", ""
        self.steps = self.kept_step = self.resumed_from = 0
        self.kept: dict[str, Tensor] = {}
        self.judged_from = 0  # first step whose weights may be selected
        self.more: Row = {}  # further columns of a row
        self.checked = 0  # validation samples
        self._losses: list[float] = []
        self._figures: list[tuple[str, int, float]] = []
        self._score, self._tie, self._worse = -math.inf, -math.inf, 0

    # -- checkpoints

    def state(self) -> dict[str, Any]:
        """State for `restore`."""
        return {"rows": self.rows, "kept_step": self.kept_step, "kept": self.kept, "losses": self._losses,
                "figures": self._figures, "score": self._score, "tie": self._tie, "worse": self._worse}  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the result of `state`."""
        self.rows, self.kept_step, self.kept = state["rows"], state["kept_step"], state["kept"]
        self._losses, self._figures = state["losses"], state["figures"]
        self._score, self._tie, self._worse = state["score"], state.get("tie", -math.inf), state["worse"]

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Report the metrics before a checkpoint again, for plots."""
        self.resumed_from = state.global_step
        if self.resumed_from:
            self.context.progress(state.global_step, state.max_steps, f"resuming after step {state.global_step}")
            for figure in self._figures:
                self.context.metric(*figure)

    def diverged(self, error: Diverged, checkpoints: Checkpoints) -> None:
        """Use the best weights if they are later than the start, or those of the last checkpoint; otherwise raise."""
        self.steps = error.step - 1
        if not (self.kept and self.kept_step):
            step = checkpoints.restore_last() if self.best == "last" else 0
            if not step or first_non_finite(self.tensors()):
                raise error.error() from error
            self.kept_step = step
        self.ended = f"diverged at step {error.step}"
        where = f": {error.where}" if error.where else ""
        self.warning = f"The loss is not finite at step {error.step}{where}. {HINT}"
        if self._losses:
            self._add(self.steps, None, {})

    # -- progress, in which a cancelled job stops

    def on_substep_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Report progress within an accumulated step, unless the job is to pause, which it does at the step's end."""
        self._progress(state)

    def on_prediction_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Report progress within an evaluation; a pause waits for its end, except for the first evaluation."""
        if not (state.global_step and self.context.paused()):
            self.context.progress(state.global_step, state.max_steps, "validating")

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Stop on the user's request; evaluate if due."""
        self._progress(state)
        if self.context.enough():
            self.ended, control.should_training_stop = "stopped by hand", True
        last = control.should_training_stop or state.global_step >= state.max_steps
        control.should_evaluate = bool(self.every) and (last or state.global_step % self.every == 0)

    def _progress(self, state: Any) -> None:
        if not self.context.paused():  # a paused job waits after writing its checkpoint
            self.context.progress(state.global_step, state.max_steps, "training")

    # -- rows

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Add the remaining losses as a row; select the last weights if no others are."""
        self.steps = state.global_step
        if self._losses:
            self._row(state, {})
        if not self.kept:
            self.kept_step = self.steps

    def _row(self, state: Any, metrics: Mapping[str, float]) -> None:
        self._add(state.global_step, round(state.epoch or 0.0, 4), metrics)

    def _add(self, step: int, epoch: float | None, metrics: Mapping[str, float]) -> None:
        losses, self._losses = self._losses, []
        self.rows.append({"step": step, "epoch": epoch,
                          "training_loss": sum(losses) / len(losses) if losses else None,
                          **{f"validation_{name}": metrics.get(name) for name in self.names},
                          **self.more})  # fmt: skip

    @property
    def names(self) -> tuple[str, ...]:
        """The metrics of a validation, those of the task and the loss."""
        return tuple(m.name for m in self.task.metrics if m.name not in self.task.unvalidated)

    def figure(self, name: str, step: int, value: float) -> None:
        """Report a metric and store it for a resumed run."""
        self._figures.append((name, step, value))
        self.context.metric(name, step, value)

    # -- metrics

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        """Report the metrics of a step."""
        logs = logs or {}
        state.log_history.clear()  # the metrics are stored here
        for name in SHOWN.keys() & logs.keys():
            self.figure(SHOWN[name], state.global_step, float(logs[name]))
        if "loss" in logs:
            self._losses.append(float(logs["loss"]))
            if not self.every and state.epoch == int(state.epoch):  # without validation, one row per epoch
                self._row(state, {})

    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: dict[str, float] | None = None, **_: Any
    ) -> None:
        """Add a row; select the weights if they are the best; stop early without improvement."""
        values = metrics or {}
        found = {n: float(values[f"eval_{n}"]) for n in self.names if f"eval_{n}" in values}
        loss = found["loss"] = float(values[f"eval_{MEASURED_LOSS}" if self.task.pooled else "eval_loss"])
        self._row(state, {n: v for n, v in found.items() if math.isfinite(v)})
        if self.checked and all(name != SAMPLES for name, *_ in self._figures):
            self.figure(SAMPLES, state.global_step, self.checked)
        for name in self.names:
            if math.isfinite(value := found.get(name, math.nan)):
                self.figure(VALIDATION + self.task.title(name), state.global_step, value)
        score = {"accuracy": found.get("accuracy", math.nan), "loss": -loss}.get(self.best)
        if state.global_step < self.judged_from:
            return
        finite = math.isfinite(loss)
        self._judge(score if score is None or finite else -math.inf, -loss if finite else -math.inf, state.global_step)
        if self.patience and self._worse >= self.patience and not control.should_training_stop:
            self.ended, control.should_training_stop = "stopped early", True

    def _judge(self, score: float | None, tie: float, step: int) -> None:
        """Select the weights if `score` is better, or equal with a better `tie`: small validation sets have ties."""
        equal = score is not None and not _above(self._score, score) and _above(tie, self._tie)
        if score is not None and (equal or _above(score, self._score)):
            self._score, self._tie, self._worse, self.kept_step = score, tie, 0, step
            self.kept = {n: v.detach().cpu().clone() for n, v in self.tensors().items()}
        elif score is not None:
            self._worse += 1


def _above(value: float, other: float) -> bool:
    return value > other and (other == -math.inf or value - other > ALIKE * abs(other))
