"""Each task trains over ranks as in one process: equal losses and metrics on the way, and equal weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import espalier as es
from espalier.model.document.recipe import Step
from espalier.model.errors import PassError
from espalier.model.torch.tensors import to_torch
from espalier.passes.base import run_step
from espalier.passes.training.options import FinetuneOptions
from tests.task_models import HEADS, write_task

OPTIONS: dict[str, Any] = {"max_steps": 4, "batch_size": 8, "train_limit": 48, "validation_limit": 24,
                           "evaluate_every": 2, "optimiser": "sgd", "learning_rate": 0.05, "keep": "last"}  # fmt: skip
STORED = ("segmentation", "audio")  # whose convolutions megatron leaves whole


@pytest.mark.slow
@pytest.mark.parametrize("task", HEADS)
def test_ranks_train_as_one_process(task: str, tmp_path: Path) -> None:
    write_task(tmp_path, task, steps=5)
    found: list[tuple[list[dict[str, Any]], dict[str, torch.Tensor]]] = []
    for distributed in (False, True):
        m = es.open(str(tmp_path)).shard(mesh="2", strategy="fsdp" if task in STORED else "megatron")
        options = FinetuneOptions(data=str(tmp_path / "data"), distributed=distributed, **OPTIONS)
        done = run_step(m._graph, Step("finetune", options), m._target().context)
        store = m._target().context.store
        weights = {n: to_torch(store.get(w.key)) for n, w in done.graph.weights.items() if w.key}
        assert done.report is not None
        rows = [{k: v for k, v in row.items() if k != "seconds" and v is not None} for row in done.report.rows]
        found.append((rows, weights))
    (rows, weights), (others, theirs) = found
    assert [set(row) for row in rows] == [set(row) for row in others] and len(rows) >= 3
    for row, other in zip(rows, others, strict=True):
        assert row == pytest.approx(other, rel=1e-3, abs=1e-4)
    for name, value in weights.items():
        torch.testing.assert_close(theirs[name], value, rtol=1e-3, atol=2e-4)


def test_functions_of_a_program_stay_in_one_process(tmp_path: Path) -> None:
    write_task(tmp_path, "regression", steps=0)
    m = es.open(str(tmp_path)).shard(mesh="2", strategy="megatron")

    def loss(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return (outputs.flatten() - labels).abs().mean()

    with pytest.raises(PassError, match="functions of a Python program"):
        m.finetune(data=str(tmp_path / "data"), distributed=True, loss=loss, **OPTIONS)
