"""Adapters train and what rests stays: LoRA in a fine-tuning, alone and over rounded and pruned weights."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from espalier.model.document.recipe import Step
from espalier.model.graph.graph import Graph
from espalier.model.opening import Opened, open_source
from espalier.model.torch.tensors import to_torch
from espalier.passes.base import Context, Report, run_step
from espalier.passes.recipes.config import decode_options

OPTIONS: dict[str, Any] = {"data": "demo:digits", "max_steps": 8, "batch_size": 16, "train_limit": 64, "keep": "last",
                           "validate": False, "learning_rate": 5e-3, "checkpoint_every": 3}  # fmt: skip


class Killed(Exception):
    """The process is gone."""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path / "state"))


@cache
def digits() -> Opened:
    return open_source("demo:digits-mlp", Path(tempfile.mkdtemp(prefix="espalier-tests-")))


def run(graph: Graph, name: str, options: dict[str, Any], **hooks: Any) -> tuple[Graph, Report]:
    done = run_step(graph, Step(name, decode_options(name, options), 2), Context(digits().store, **hooks))
    return done.graph, done.report


def adapted(compress: bool) -> Graph:
    graph = digits().project.base
    if compress:
        rule = {"select": {"by": "type", "values": ["linear"]}, "formats": {"weight": "scaled_integer(width=4)"}}
        graph, _ = run(graph, "quantize", {"rules": [rule]})
        graph, _ = run(graph, "prune", {"sparsity": 0.5})
    return run(graph, "lora", {"rank": 4, "dropout": 0.1})[0]


@pytest.mark.slow
@pytest.mark.parametrize("compress", [False, True], ids=["float", "rounded and pruned"])
def test_only_adapters_train_and_a_break_changes_nothing(compress: bool) -> None:
    graph = adapted(compress)
    adapters = {w for n in graph for a in n.adapters.values() for w in (a.a, a.b)}
    assert adapters

    def die(name: str, step: int, value: float) -> None:
        if step == 6:
            raise Killed

    want, report = run(graph, "finetune", OPTIONS)
    moved = {n for n, w in want.weights.items() if w.key != graph.weights[n].key}
    assert moved == adapters
    summary = report.summary
    assert summary["trainable_parameters"] == sum(graph.weights[n].elements for n in adapters)
    assert summary["parameters"] == sum(w.elements for w in graph.weights.values() if w.role == "parameter")
    with pytest.raises(Killed):
        run(graph, "finetune", OPTIONS, metric=die)
    again, resumed = run(graph, "finetune", OPTIONS)
    assert again == want and resumed.summary["resumed_from"] == 3


def test_a_frozen_graph_has_nothing_to_train_and_pruning_grows_beside_adapters() -> None:
    graph = adapted(False)
    after, report = run(graph, "finetune", OPTIONS | {"prune_to": 0.6, "prune_every": 2})
    assert report.summary["sparsity"] == pytest.approx(0.6, abs=1e-3)
    for node in (n for n in after if n.op == "linear"):
        assert node.sparsity["weight"].zeros == round(0.6 * after.weights[node.weights["weight"]].elements)
        held = [to_torch(digits().store.get(g.weights[node.weights["weight"]].key or "")) for g in (graph, after)]
        assert torch.equal(*held)
