"""Trainings over ranks with a teacher, with Adafactor and with code of the user equal those of one process."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from espalier.model.document.recipe import Step
from espalier.model.errors import JobError
from espalier.model.graph.graph import Graph
from espalier.model.opening import open_any
from espalier.model.store.weights import WeightStore
from espalier.model.torch.tensors import to_torch
from espalier.model.trace.trace import trace
from espalier.model.trust import NAMED, Origin
from espalier.passes.base import Context, Report, run_step
from espalier.passes.recipes.config import decode_options

OWN = Path(__file__).with_name("own_code.py")
OPTIONS: dict[str, Any] = {"data": "demo:digits", "max_steps": 12, "batch_size": 16, "train_limit": 90,
                           "validation_limit": 40, "evaluate_every": 6, "checkpoint_every": 2,
                           "keep": "last"}  # fmt: skip
SGD = {"optimiser": "sgd", "learning_rate": 0.05}


class Block(nn.Module):
    """A residual block."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: Tensor) -> Tensor:
        """x plus two layers of it."""
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Deep(nn.Module):
    """Two equal blocks, whose hidden states a teacher has too."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.layers = nn.Linear(64, 16), nn.ModuleList([Block(), Block()])
        self.drop, self.head = nn.Dropout(0.1), nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        """x [batch, 1, 8, 8] → scores [batch, 10]."""
        x = self.first(x.flatten(1))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.drop(x))


@cache
def _store() -> WeightStore:
    return WeightStore(Path(tempfile.mkdtemp(prefix="espalier-tests-")))


@cache
def _base() -> Graph:
    torch.manual_seed(0)
    return trace(Deep().eval(), {"x": torch.randn(4, 1, 8, 8)}, _store()).graph


def _step(graph: Graph, context: Context, name: str, options: dict[str, Any]) -> tuple[Graph, Report]:
    done = run_step(graph, Step(name, decode_options(name, options), 5), context)
    return done.graph, done.report


def _largest(context: Context, start: Graph, one: Graph, many: Graph) -> float:
    """The largest difference of a weight, relative to the largest value of its tensor; all of them have changed."""
    first, expected, actual = (
        {n: to_torch(context.store.get(w.key)).double() for n, w in g.weights.items() if w.key}
        for g in (start, one, many)
    )
    assert all(float((expected[n] - first[n]).abs().max()) > 1e-3 for n in expected)
    return max(float((t - actual[n]).abs().max() / t.abs().max()) for n, t in expected.items())


class Broken(Exception):
    """The training is broken off."""


def _break(done: int, total: int, text: str) -> None:
    if done >= 5 and total == OPTIONS["max_steps"]:
        raise Broken


@pytest.mark.slow
@pytest.mark.sampled(0.34)
@pytest.mark.parametrize(
    ("more", "then"),
    [({**SGD, "distil": 0.5, "hidden": 1.0}, ("2", "fsdp")), ({**SGD, "distil": 0.7}, None),
     ({"optimiser": "adafactor", "learning_rate": 0.01, "weight_decay": 0.1}, ("2", "fsdp"))],
)  # fmt: skip
def test_a_teacher_and_adafactor_train_and_resume_as_in_one_process(
    more: dict[str, Any], then: tuple[str, str] | None
) -> None:
    context = Context(_store(), base=_base())
    linear = {"by": "type", "values": ["linear"]}
    formats = {"data_in": "integer(width=8, frac_width=5)", "weight": "integer(width=6, frac_width=5)"}
    graph = _base()
    if "distil" in more:
        graph, _ = _step(graph, context, "quantize", {"rules": [{"select": linear, "formats": formats}]})
    options = OPTIONS | more
    whole, _ = _step(graph, context, "finetune", options | {"resume": False})
    cut, _ = _step(graph, context, "shard", {"mesh": "1x2", "strategy": "megatron"})
    with pytest.raises(Broken):
        _step(cut, Context(_store(), base=_base(), progress=_break), "finetune", options | {"distributed": True})
    end = graph
    if then is not None:
        end, _ = _step(graph, context, "shard", {"mesh": then[0], "strategy": then[1]})
    done, report = _step(end, context, "finetune", options | {"distributed": then is not None})
    assert report.summary["resumed_from"] >= 4 and report.summary["steps"] == 12
    if then is not None:
        need, ranks = report.summary["predicted_memory"], report.summary["memory"]
        assert all(need["weights"] == m["stored_bytes"] for m in ranks)
        assert all(0.6 < m["peak_bytes"] / need["peak_bytes"] < 1.4 for m in ranks)
    if then is not None and "distil" in more:
        assert report.summary["teacher_bytes"] == sum(4 * w.elements for w in _base().weights.values())
    assert _largest(context, graph, whole, done) <= (1e-6 if more["optimiser"] == "sgd" else 5e-6)


@pytest.mark.slow
def test_code_of_a_model_runs_on_ranks_with_the_consent_of_the_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = open_any(f"{OWN}:own", tmp_path, cached=False, origin=Origin.TYPED)
    context = Context(opened.store, callables=opened.callables, base=opened.project.base, source=opened.project.source)
    graph = opened.project.graph
    assert any(n.call == "opaque" for n in graph) and any(n.target.startswith("espalier_tests.") for n in graph)
    options = OPTIONS | SGD | {"distil": 0.5, "resume": False}
    whole, _ = _step(graph, context, "finetune", options)
    cut, _ = _step(graph, context, "shard", {"mesh": "1x2", "strategy": "megatron"})
    done, report = _step(cut, context, "finetune", options | {"distributed": True})
    assert _largest(context, graph, whole, done) <= 1e-6
    assert {r["node"] for r in report.summary["gathered"]} >= {n.id for n in graph if n.call == "opaque"}
    monkeypatch.setenv(NAMED, "")
    monkeypatch.setattr("espalier.passes.distributed.launch.wanted_code", lambda spec: OWN)  # as if not allowed
    with pytest.raises(JobError, match=r"Rank [01] of 2 failed: This project names code"):
        _step(cut, context, "finetune", options | {"distributed": True})
