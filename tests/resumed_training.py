"""Stops a training in the middle, resumes it from its checkpoint and compares it with an uninterrupted one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from espalier.model.document.recipe import Step
from espalier.passes.base import Cancelled, run_step
from espalier.passes.training.options import FinetuneOptions

STOPPED, CHECKPOINT = 7, 3  # steps


def resumed(opened: Callable[[], Any], data: str, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The validation metrics after an uninterrupted and after a resumed training of 12 steps."""
    every = {"max_steps": 12, "evaluate_every": 4, "checkpoint_every": CHECKPOINT, "learning_rate": 5e-3}
    step = Step("finetune", FinetuneOptions(data=data, **{**every, **options}))
    m, n = opened(), opened()
    whole = run_step(m._graph, step, m._target().context).report
    context = n._target().context
    plain = context.progress

    def stopping(done: int, total: int, text: str) -> None:
        if text == "training" and done >= STOPPED:
            raise Cancelled("stopped")

    context.progress = stopping
    with pytest.raises(Cancelled):
        run_step(n._graph, step, context)
    context.progress = plain
    again = run_step(n._graph, step, context).report
    assert again.summary["resumed_from"] == STOPPED - STOPPED % CHECKPOINT
    one, two = ({k: v for k, v in r.rows[-1].items() if k.startswith("validation")} for r in (whole, again))
    return one, two
