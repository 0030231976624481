"""The memory of a sharded training is known before it starts, and too much of it is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from espalier.model.document.recipe import Step
from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph
from espalier.model.store.weights import WeightStore
from espalier.model.trace.trace import trace
from espalier.passes.base import Context, run_step
from espalier.passes.distributed import training_memory
from espalier.passes.distributed.training_memory import RankMemory, predicted
from espalier.passes.recipes.config import decode_options
from espalier.passes.training.prepare import prepare

OPTIONS: dict[str, Any] = {"data": "demo:digits", "max_steps": 2, "batch_size": 16, "train_limit": 90,
                           "validation_limit": 40, "keep": "last"}  # fmt: skip


class Layers(nn.Module):
    """Two layers, of which megatron splits the first by columns and the second by rows."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(64, 48), nn.Linear(48, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [batch, 1, 8, 8] → scores [batch, 10]."""
        return self.down(torch.relu(self.up(x.flatten(1))))


@pytest.fixture
def sharded(tmp_path: Path) -> tuple[Graph, Context]:
    store = WeightStore(tmp_path)
    torch.manual_seed(0)
    graph = trace(Layers().eval(), {"x": torch.randn(4, 1, 8, 8)}, store).graph
    context = Context(store, base=graph)
    options = decode_options("shard", {"mesh": "1x2", "strategy": "megatron"})
    return run_step(graph, Step("shard", options), context).graph, context


def _predicted(graph: Graph, context: Context, **more: Any) -> RankMemory:
    options: Any = decode_options("finetune", OPTIONS | more)
    return predicted(graph, context.base if options.teaches else None, prepare(graph, options, context), options)


def test_the_parts_by_hand(sharded: tuple[Graph, Context]) -> None:
    whole, rank = 4 * (64 * 48 + 48 + 480 + 10), 4 * (64 * 24 + 24 + 240 + 10)
    found = _predicted(*sharded)
    assert (found.weights, found.gradients, found.optimiser, found.loading) == (rank, rank, 2 * rank, whole)
    assert found.teacher == found.kept == 0 and found.writing == 2 * 3 * rank
    assert found.samples == (90 + 40) * (64 * 4 + 8)
    # A rank keeps its half of the first result and of that of the relu, and whole scores.
    kept = 4 * 16 * (24 + 24 + 10)
    assert kept <= found.activations <= kept + 4 * 16 * (64 + 10) + 2 * 4 * 16 * 64
    assert found.peak == sum((found.process, found.samples, rank, rank, 2 * rank)) + max(
        found.activations, found.writing
    )


def test_optimisers_a_teacher_frozen_nodes_and_kept_weights_count(sharded: tuple[Graph, Context]) -> None:
    plain = _predicted(*sharded)
    assert _predicted(*sharded, optimiser="sgd", momentum=0.0).optimiser == 0
    assert _predicted(*sharded, optimiser="sgd").optimiser == plain.weights
    assert 0 < _predicted(*sharded, optimiser="adafactor").optimiser < plain.weights / 4
    assert _predicted(*sharded, distil=0.5).teacher == plain.loading
    assert _predicted(*sharded, keep="loss").kept == plain.weights
    frozen = _predicted(*sharded, freeze=[{"by": "name", "values": ["up"]}])
    assert frozen.gradients == 4 * (240 + 10) and frozen.weights == plain.weights
    assert _predicted(*sharded, batch_size=32).activations == 2 * plain.activations


def test_a_training_without_memory_is_refused_before_it_starts(
    sharded: tuple[Graph, Context], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_memory, "free", lambda: 1000 << 20)
    options = decode_options("finetune", OPTIONS | {"distributed": True, "resume": False})
    graph, context = sharded
    with pytest.raises(
        PassError, match=r"2 processes needs about .* GiB, 530 MiB of each; 1,000 MiB are free"
    ) as error:
        run_step(graph, Step("finetune", options, 5), context)
    assert "batch_size" in error.value.hint
