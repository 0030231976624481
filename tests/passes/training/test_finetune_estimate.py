"""The estimate of a training's time: near what it then takes, quick to cancel, and nothing is changed by it."""

from __future__ import annotations

import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from espalier.model.document.recipe import Step
from espalier.model.errors import DataError, PassError
from espalier.model.graph.graph import Graph
from espalier.model.opening import Opened, open_source
from espalier.passes.base import Cancelled, Context, Report, run_step
from espalier.passes.recipes.config import decode_options
from espalier.passes.training.estimate import TIMED, WARM

OPTIONS: dict[str, Any] = {"data": "demo:digits", "max_steps": 300, "batch_size": 16, "train_limit": 160,
                           "validation_limit": 100}  # fmt: skip


@cache
def opened() -> Opened:
    return open_source("demo:digits-mlp", Path(tempfile.mkdtemp(prefix="espalier-tests-")))


@pytest.fixture
def base() -> Graph:
    return opened().project.base


def run(name: str, graph: Graph, held: Context | None = None, **options: Any) -> Report:
    step = Step(name, decode_options(name, OPTIONS | options))
    return run_step(graph, step, held or Context(opened().store)).report


@pytest.mark.slow
def test_it_is_near_what_the_training_takes(base: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    step = torch.optim.AdamW.step

    def slow(*arguments: Any, **named: Any) -> Any:
        time.sleep(0.01)  # far more than the step itself, so that other work on the machine decides nothing
        return step(*arguments, **named)

    monkeypatch.setattr(torch.optim.AdamW, "step", slow)
    found = run("finetune_estimate", base).summary
    start = time.perf_counter()
    run("finetune", base)
    took = time.perf_counter() - start
    assert took > 3 and 0.3 * took < found["seconds"] < 3 * took
    assert found["steps"] == 300 and found["samples"] == 160 and found["validations"] == 31
    assert found["seconds"] == pytest.approx(
        300 * found["seconds_per_step"] + 31 * found["seconds_per_validation"], rel=0.02
    )


@pytest.mark.slow
def test_steps_of_epochs_and_accumulation(base: Graph) -> None:
    counts = {"max_steps": 0, "epochs": 2.5, "accumulation": 3}
    found = run("finetune_estimate", base, **counts).summary
    assert found["steps"] == 10 and found["validations"] == 4  # 10 batches make 4 steps an epoch
    assert run("finetune", base, **counts).summary["steps"] == 10


@pytest.mark.slow
def test_it_tells_what_trains(base: Graph) -> None:
    first = next(n for n in base if n.op == "linear")
    rule = {"select": {"by": "type", "values": ["linear"]}, "formats": {"weight": "integer", "data_in": "integer"}}
    graph = run_step(base, Step("quantize", decode_options("quantize", {"rules": [rule]})), Context(opened().store))
    found = run("finetune_estimate", graph.graph, freeze=[{"by": "name", "values": [first.id]}]).summary
    linears = sum(n.op == "linear" for n in base)
    assert found["formats"] == 2 * linears and found["masks"] == 0 and found["parameters"] == 6570
    assert found["trainable_parameters"] == 6570 - sum(base.weights[n].elements for n in first.weights.values())


@pytest.mark.slow
def test_the_weights_stay(base: Graph) -> None:
    before = {n: torch.from_numpy(opened().store.get(w.key).array.copy()) for n, w in base.weights.items() if w.key}
    run("finetune_estimate", base, learning_rate=1.0)
    for name, value in before.items():
        assert torch.equal(value, torch.from_numpy(opened().store.get(base.weights[name].key or "").array)), name


@pytest.mark.slow
def test_it_cancels_between_steps(base: Graph) -> None:
    told: list[int] = []

    def stop(done: int, total: int, text: str) -> None:
        told.append(done)
        if done == 2:
            raise Cancelled("The job was cancelled.")

    with pytest.raises(Cancelled):
        run("finetune_estimate", base, Context(opened().store, progress=stop))
    assert max(told) == 2 < WARM + TIMED


def test_mistakes_are_told(base: Graph) -> None:
    with pytest.raises(DataError, match="no data"):
        run("finetune_estimate", base, data="")
    with pytest.raises(PassError, match="All weights are frozen"):
        run("finetune_estimate", base, freeze=[{"by": "all", "values": []}])
