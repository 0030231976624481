"""Ranks that see other losses and weights decide alike: by the figures of rank 0."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from espalier.model.document.recipe import Step
from espalier.model.store.weights import WeightStore
from espalier.model.trace.trace import trace
from espalier.passes.base import Context, run_step
from espalier.passes.distributed.job import Settings, write_job
from espalier.passes.distributed.launch import environment
from espalier.passes.distributed.training_job import Training, write_training
from espalier.passes.recipes.config import decode_options
from espalier.passes.training.prepare import prepare
from tests.passes.distributed.disagreeing import NAN_AT

OPTIONS: dict[str, Any] = {"data": "demo:digits", "max_steps": 6, "batch_size": 16, "train_limit": 90, "clip": 0.0,
                           "validation_limit": 40, "learning_rate": 0.05, "evaluate_every": 1, "keep": "loss",
                           "optimiser": "sgd", "schedule": "constant", "momentum": 0.0}  # fmt: skip
CASES: dict[str, dict[str, Any]] = {
    "breaks-0": {"patience": 2}, "breaks-1": {"patience": 2}, "prunes": {"prune_to": 0.6, "prune_every": 2},
}  # fmt: skip


def _write(folder: Path, options: Any, store: WeightStore) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))
    graph = trace(model.eval(), {"input": torch.randn(4, 1, 8, 8)}, store).graph
    cut = Step("shard", decode_options("shard", {"mesh": "2", "strategy": "fsdp"}), 0)
    context = Context(store)
    ready = prepare(run_step(graph, cut, context).graph, options, context)
    folder.mkdir()
    graph = ready.gradual.graph if ready.gradual else ready.graph
    write_job(folder, graph, store, (), Settings((2,), 1, 60.0))
    kinds = dict(ready.gradual.kinds) if ready.gradual else {}
    assert ready.check_on
    on, check = ready.train_on, ready.check_on
    training = Training(options, 5, None, (), kinds, ready.digest(), on.task.name, on.classes, (on.table, check.table))
    write_training(folder, training, on.tensors, check.tensors)


@pytest.mark.slow
def test_ranks_that_see_other_figures_decide_by_those_of_rank_0(tmp_path: Path) -> None:
    for name, more in CASES.items():
        _write(tmp_path / name, decode_options("finetune", OPTIONS | more), WeightStore(tmp_path / f"{name}-store"))
    torchrun = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*torchrun, "--local-addr", "127.0.0.1", "-m", "tests.passes.distributed.disagreeing", str(tmp_path)]
    given = environment(1, None) | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=given, capture_output=True, text=True, timeout=120, check=False)
    assert not done.returncode, done.stderr[-6000:]
    seen = {n: [json.loads((tmp_path / n / f"watch-{r}.json").read_text()) for r in (0, 1)] for n in CASES}
    for name, (first, second) in seen.items():
        assert first == second, name
    first = {n: ranks[0] for n, ranks in seen.items()}
    assert first["breaks-0"]["ended"] == f"diverged at step {NAN_AT}" and first["breaks-0"]["kept_step"] == NAN_AT - 1
    # Alone, rank 1 would have diverged, or kept the start, since its validation losses rise.
    assert first["breaks-1"]["ended"] == "finished" and first["breaks-1"]["kept_step"] == OPTIONS["max_steps"]
    assert any(0 in map(min, m) for m in first["prunes"]["masks"].values())
