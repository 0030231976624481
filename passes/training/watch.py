"""Watches a training run: progress and figures to the job, the best weights kept, an end before the end."""

from __future__ import annotations

import math
from typing import Any, Literal

from torch import Tensor, nn
from transformers import TrainerCallback

from model.build import parameters_of
from model.errors import PassError
from passes.base import Context, Row

Best = Literal["accuracy", "loss", "last"]
SHOWN = {"loss": "training loss", "learning_rate": "learning rate"}


class Watch(TrainerCallback):
    """`module`: the built module; `every`: optimiser steps between evaluations, 0 for none.

    `best` names what an evaluation is judged by; `patience` ends the run after so many without a better one (0: never).
    """

    def __init__(self, module: nn.Module, context: Context, every: int, best: Best, patience: int) -> None:
        self.module, self.context = module, context
        self.every, self.best, self.patience = every, best, patience
        self.rows: list[Row] = []
        self.ended = "finished"
        self.steps = self.kept_step = 0
        self.kept: dict[str, Tensor] = {}
        self._losses: list[float] = []
        self._score, self._worse = -math.inf, 0

    # -- progress: where a cancelled job stops

    def on_substep_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Within a step that accumulates."""
        self._progress(state, "training")

    def on_prediction_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Within an evaluation."""
        self._progress(state, "validating")

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """After each optimiser step: stop where the user has enough; evaluate where it is time."""
        self._progress(state, "training")
        if self.context.enough():
            self.ended, control.should_training_stop = "stopped by hand", True
        last = control.should_training_stop or state.global_step >= state.max_steps
        control.should_evaluate = bool(self.every) and (last or state.global_step % self.every == 0)

    def _progress(self, state: Any, doing: str) -> None:
        self.context.progress(state.global_step, state.max_steps, doing)

    # -- rows

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Without validation an epoch is a row."""
        if not self.every:
            self._row(state, None, None)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """What came after the last row; the last weights are kept where none are better."""
        self.steps = state.global_step
        if self._losses:
            self._row(state, None, None)
        if not self.kept:
            self.kept_step = self.steps

    def _row(self, state: Any, accuracy: float | None, loss: float | None) -> None:
        losses, self._losses = self._losses, []
        self.rows.append({"step": state.global_step, "epoch": round(state.epoch or 0.0, 4),
                          "training_loss": sum(losses) / len(losses) if losses else None,
                          "validation_accuracy": accuracy, "validation_loss": loss})  # fmt: skip

    # -- figures

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        """The figures of a step; raises PassError when the loss is no number."""
        logs = logs or {}
        for name in SHOWN.keys() & logs.keys():
            self.context.metric(SHOWN[name], state.global_step, float(logs[name]))
        if "loss" in logs:
            if not math.isfinite(logs["loss"]):
                raise PassError(f"The training diverged: its loss is no number at step {state.global_step}.",
                                "Lower the learning rate, or raise the warm-up.")  # fmt: skip
            self._losses.append(float(logs["loss"]))

    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: dict[str, float] | None = None, **_: Any
    ) -> None:
        """A row of the report; keep the weights when they are the best; stop when patience ends."""
        found = metrics or {}
        accuracy, loss = float(found["eval_accuracy"]), float(found["eval_loss"])
        self._row(state, accuracy, loss)
        self.context.metric("validation accuracy", state.global_step, accuracy)
        self.context.metric("validation loss", state.global_step, loss)
        self._judge({"accuracy": accuracy, "loss": -loss}.get(self.best), state.global_step)
        if self.patience and self._worse >= self.patience and not control.should_training_stop:
            self.ended, control.should_training_stop = "stopped early", True

    def _judge(self, score: float | None, step: int) -> None:
        if score is not None and score > self._score:
            self._score, self._worse, self.kept_step = score, 0, step
            self.kept = {n: v.detach().cpu().clone() for n, v in parameters_of(self.module).items()}
        elif score is not None:
            self._worse += 1
