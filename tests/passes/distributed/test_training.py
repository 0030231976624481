"""A training over ranks equals that of one process, resumes on another mesh, and ends with its ranks."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from torch import nn

from espalier.model.document.recipe import Step
from espalier.model.errors import EspalierError, JobError, PassError
from espalier.model.graph.graph import Graph
from espalier.model.store.weights import WeightStore
from espalier.model.torch.tensors import to_torch
from espalier.model.trace.trace import trace
from espalier.passes.base import Context, Report, run_step
from espalier.passes.recipes.config import decode_options
from espalier.passes.training.checkpoint_folders import SHARDS, interrupted_run

OPTIONS: dict[str, Any] = {"data": "demo:digits", "max_steps": 8, "batch_size": 16, "train_limit": 90,
                           "validation_limit": 40, "learning_rate": 2e-3, "evaluate_every": 4,
                           "checkpoint_every": 2, "keep": "last"}  # fmt: skip
FORMATS = {"data_in": "mxint(width=8, block=4)", "weight": "mxint(width=4, block=4)"}
CUTS: dict[str, tuple[str, dict[str, Any]]] = {
    "columns": ("1x2", {"strategy": "megatron"}), "stored": ("2", {"strategy": "fsdp"}),
}  # fmt: skip


class Drops(nn.Module):
    """Dropout draws at random, a batch norm has running statistics, and two layers share a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(64, 24), nn.BatchNorm1d(24), nn.Linear(24, 24)
        self.third, self.drop, self.head = nn.Linear(24, 24), nn.Dropout(0.2), nn.Linear(24, 10)
        self.third.weight = self.second.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [batch, 1, 8, 8] → scores [batch, 10]."""
        x = torch.relu(self.norm(self.first(x.flatten(1))))
        return self.head(self.drop(torch.relu(self.third(torch.relu(self.second(x))))))


@cache
def _store() -> WeightStore:
    return WeightStore(Path(tempfile.mkdtemp(prefix="espalier-tests-")))


@cache
def _graph(*names: str) -> Graph:
    """The model after some steps."""
    torch.manual_seed(0)
    graph = trace(Drops().eval(), {"x": torch.randn(4, 1, 8, 8)}, _store()).graph
    linear = {"by": "type", "values": ["linear"]}
    known: dict[str, dict[str, Any]] = {
        "quantize": {"rules": [{"select": linear, "formats": FORMATS}]}, "prune": {"sparsity": 0.5},
        "lora": {"rank": 2, "alpha": 4, "dropout": 0.1},
    }  # fmt: skip
    for name in names:
        graph = _applied(graph, name, known[name])
    return graph


def _applied(graph: Graph, name: str, options: dict[str, Any]) -> Graph:
    return run_step(graph, Step(name, decode_options(name, options), 1), Context(_store())).graph


def _cut(graph: Graph, how: str) -> Graph:
    mesh, options = CUTS[how]
    return _applied(graph, "shard", {"mesh": mesh, **options})


def _trained(graph: Graph, distributed: bool, hooks: dict[str, Any] | None = None, **more: Any) -> tuple[Graph, Report]:
    options = decode_options("finetune", {**OPTIONS, **more, "distributed": distributed})
    done = run_step(graph, Step("finetune", options, 5), Context(_store(), **(hooks or {})))
    return done.graph, done.report


def _values(graph: Graph) -> dict[str, torch.Tensor]:
    return {n: to_torch(_store().get(w.key)).double() for n, w in graph.weights.items() if w.key}


def _check_equal(before: Graph, one: Graph, many: Graph, *without: str) -> None:
    """Each tensor differs by at most 1e-4 of its own change, and rounding."""
    start, expected, actual = _values(before), _values(one), _values(many)
    changes = {n: float((expected[n] - start[n]).abs().max()) for n in expected if n not in without}
    assert sum(change > 1e-4 for n, change in changes.items() if "num_batches" not in n) >= 4
    for name, change in changes.items():
        rounding = 2e-7 * max(1.0, float(expected[name].abs().max()))
        assert float((expected[name] - actual[name]).abs().max()) <= 1e-4 * change + rounding, name


@pytest.mark.slow
@pytest.mark.sampled(0.34)
@pytest.mark.parametrize(
    ("steps", "cut", "more"),
    [
        (("quantize", "prune", "lora"), "stored", {"optimiser": "sgd", "learning_rate": 0.05}),
        ((), "columns", {"optimiser": "sgd", "learning_rate": 0.05, "accumulation": 2, "prune_to": 0.6,
                         "prune_every": 2, "prune_method": "movement"}),
        (("quantize",), "columns", {"clip": 0.1}),
    ],
)  # fmt: skip
def test_ranks_train_as_one_process(steps: tuple[str, ...], cut: str, more: dict[str, Any]) -> None:
    metrics: dict[bool, list[Any]] = {False: [], True: []}
    graph = _cut(_graph(*steps), cut)
    done = {
        d: _trained(graph, d, {"metric": lambda *m, d=d: metrics[d].append(m)}, resume=False, **more)
        for d in (False, True)
    }
    # A batch norm takes the mean away, so that the gradient of the bias before it is rounding, which Adam normalises.
    without = () if "optimiser" in more else ("first.bias", "norm.running_mean")
    _check_equal(graph, done[False][0], done[True][0], *without)
    one, many = (done[d][1].summary for d in (False, True))
    assert many["ranks"] == 2 and len(many["memory"]) == 2 and many["kept_step"] == one["kept_step"] == 8
    assert many["validation_loss"] == pytest.approx(one["validation_loss"], rel=1e-4)
    assert sorted(m[:2] for m in metrics[True]) == sorted(m[:2] for m in metrics[False])
    losses = [[r["training_loss"] for r in done[d][1].rows if r["training_loss"]] for d in (False, True)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-4) and losses[0]
    if "prune_to" in more:
        assert many["sparsity"] == one["sparsity"] == pytest.approx(0.6, abs=0.01)
        masks = [{n.id: n.sparsity["weight"].mask for n in done[d][0] if "weight" in n.sparsity} for d in (False, True)]
        assert masks[0] == masks[1] and masks[0]


class Broken(Exception):
    """The training is broken off."""


def _breaking(step: int) -> dict[str, Any]:
    def progress(done: int, total: int, text: str) -> None:
        if done >= step and total == OPTIONS["max_steps"]:
            raise Broken

    return {"progress": progress}


@pytest.mark.slow
@pytest.mark.sampled(0.34)
@pytest.mark.parametrize(
    ("first", "then"), [("columns", "stored"), ("columns", None), (None, "stored")], ids=str
)  # fmt: skip
def test_a_training_resumes_on_another_mesh(first: str | None, then: str | None) -> None:
    graph, more = _graph(), {"seed": 1, "optimiser": "sgd", "learning_rate": 0.05, "momentum": 0.8}
    del more["seed"]
    more["batch_size"] = {"columns": 15, None: 14}[first] + (then is None)  # a training of its own
    whole, _ = _trained(graph, False, resume=False, **more)
    begun = _cut(graph, first) if first else graph
    with pytest.raises(Broken):
        _trained(begun, bool(first), _breaking(5), **more)
    options: Any = decode_options("finetune", {**OPTIONS, **more})
    kept = interrupted_run(graph, options, 5)
    assert kept is not None and 0 < kept.step < 8 and (kept.folder / SHARDS).is_dir() == bool(first)
    end, report = _trained(_cut(graph, then) if then else graph, bool(then), **more)
    assert report.summary["resumed_from"] == kept.step
    _check_equal(graph, whole, end)
    assert interrupted_run(graph, options, 5) is None  # a finished one needs no checkpoint


@pytest.mark.slow
def test_pause_and_stop_reach_the_ranks() -> None:
    """A pause waits in the parent after a checkpoint; then the training is stopped with what it has."""
    graph = _cut(_graph(), "stored")
    more = {"max_steps": 4000, "checkpoint_every": 10_000, "evaluate_every": 4000}
    options: Any = decode_options("finetune", {**OPTIONS, **more})
    seen: list[str] = []
    state = {"step": 0, "paused": False, "waited": False}

    def progress(done: int, total: int, text: str) -> None:
        if state["paused"]:  # the ranks wait, with a checkpoint
            kept = interrupted_run(graph, options, 5)
            seen.append("checkpoint" if kept and kept.step >= done > 0 else "none")
            state["paused"], state["waited"] = False, True
        state["step"] = done if text == "training" else 0
        if done >= 2 and not state["waited"]:
            state["paused"] = True

    hooks = {
        "progress": progress,
        "paused": lambda: state["paused"],
        "enough": lambda: state["waited"] and state["step"] > 4,
    }
    _, report = _trained(graph, True, hooks, **more)
    assert seen == ["checkpoint"]
    assert report.summary["ended"] == "stopped by hand" and 4 < report.summary["steps"] < 4000


def _ranks() -> list[psutil.Process]:
    found = list[psutil.Process]()
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it ends meanwhile
            found += [process] if "espalier.passes.jobs.rank" in process.cmdline() else []
    return found


@pytest.mark.slow
def test_a_pause_that_ends_before_the_ranks_have_seen_it_holds_nothing_up() -> None:
    state = {"step": 0, "paused": 0}

    def paused() -> bool:
        state["paused"] += state["step"] >= 2 and state["paused"] == 0
        if state["paused"] == 1:
            state["paused"] = 2  # one look
            return True
        return False

    hooks = {
        "progress": lambda done, total, text: state.update(step=done if text == "training" else 0),
        "paused": paused, "enough": lambda: state["paused"] == 2 and state["step"] > 5,
    }  # fmt: skip
    _, report = _trained(_cut(_graph(), "stored"), True, hooks, max_steps=3000, evaluate_every=3000, resume=False)
    assert report.summary["ended"] == "stopped by hand" and state["paused"] == 2


@pytest.mark.slow
def test_a_killed_rank_is_named_and_its_training_resumes() -> None:
    graph = _cut(_graph(), "columns")
    more = {"max_steps": 60, "batch_size": 13}

    def kill(done: int, total: int, text: str) -> None:
        if done >= 9 and total == 60:
            for process in _ranks()[1:2]:
                os.kill(process.pid, signal.SIGKILL)

    with pytest.raises(JobError, match=r"Rank [01] of 2 was ended by SIGKILL") as error:
        _trained(graph, True, {"progress": kill}, **more)
    assert "resumes from its last checkpoint" in error.value.hint and not _ranks()
    end, report = _trained(graph, True, **more)
    assert report.summary["resumed_from"] >= 4 and report.summary["steps"] == 60
    assert end.nodes["first"].sharding == graph.nodes["first"].sharding


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [({}, PassError, "not sharded"), ({"distil": 0.5}, PassError, "no baseline")],
)
def test_mistakes_are_told(options: dict[str, Any], error: type[EspalierError], text: str) -> None:
    with pytest.raises(error, match=text) as found:
        _trained(_graph(), True, **options)
    assert found.value.hint


def test_a_damaged_checkpoint_of_ranks_is_not_used(tmp_path: Path) -> None:
    from espalier.passes.training.checkpoint import read

    (tmp_path / SHARDS).mkdir()
    (tmp_path / SHARDS / "shard-00001-model-00001-of-00001.safetensors").write_bytes(b"nothing")
    (tmp_path / "state.json").write_text('{"step": 1, "steps": 2, "held": {"items": []}}')
    with pytest.raises(Exception):  # noqa: B017
        read(tmp_path)
