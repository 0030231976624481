"""A graph whose batch size the model's code has fixed: said at opening, named in errors, measured at that size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import espalier as es
from espalier.model.data.base import Split
from espalier.model.errors import DataError, EspalierError
from espalier.model.graph.graph import fixed_batch
from espalier.model.torch.build import build
from espalier.model.trace.trace import Traced, trace
from espalier.passes.analysis.evaluate import measure
from espalier.passes.base import Context
from espalier.passes.running.batches import fit_error
from espalier.passes.running.task_check import check_task
from tests.model.zoo import case

pytestmark = pytest.mark.slow
WORDS, LENGTH = 11, 6
Data = tuple[Tensor, Tensor]


class Fixed(nn.Module):
    """A causal model whose batch is a number in its code, as in Falcon with alibi."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(WORDS, 8), nn.Linear(8, WORDS)

    def forward(self, input_ids: Tensor) -> Tensor:
        hidden = self.embed(input_ids)
        return self.head(hidden.reshape(int(input_ids.shape[0]) * 2, -1, 4).reshape(hidden.shape))


def traced() -> Traced:
    torch.manual_seed(0)
    return trace(Fixed().eval(), {"input_ids": torch.randint(0, WORDS, (2, LENGTH))}, case("mlp").store)


def windows(count: int) -> Split:
    rng = np.random.default_rng(0)
    ids = rng.integers(0, WORDS, (count, LENGTH + 1))
    return Split({"input_ids": ids[:, :-1]}, ids[:, 1:], task="next-token")


def run(batch: int, count: int) -> Any:
    graph, context = traced().graph, Context(case("mlp").store)
    split = windows(count)
    check_task(graph, split, context)
    return measure(build(graph, context.store), graph, split, batch, context)


def test_opening_says_that_the_batch_is_fixed() -> None:
    result = traced()
    assert fixed_batch(result.graph) == 2 and fixed_batch(case("mlp").graph) is None
    said = [p.message for p in result.problems if p.severity == "warning" and "batch" in p.message]
    assert said == [
        "The model's code fixes the batch size: the graph takes batches of 2 alone. Measure with --batch-size 2; costs "
        "of one sample are those of 2."
    ]


def test_its_batch_size_is_measured_and_equals_the_model() -> None:
    figures, split = run(2, 8).figures(), windows(8)
    torch.manual_seed(0)
    with torch.no_grad():
        scores = Fixed().eval()(torch.tensor(split.inputs["input_ids"]))
    labels = torch.tensor(split.labels)
    own = nn.functional.cross_entropy(scores.flatten(0, 1), labels.flatten()).item()
    assert figures["loss"] == pytest.approx(own, rel=1e-5)


@pytest.mark.parametrize(("batch", "count", "size"), [(4, 8, 4), (2, 5, 1)])
def test_another_size_is_named(batch: int, count: int, size: int) -> None:
    with pytest.raises(DataError) as caught:
        run(batch, count)
    assert caught.value.message == f"The model's graph takes batches of 2 alone, and this one has {size}."
    assert caught.value.hint == "Choose --batch-size 2, and a number of samples that 2 divides (--limit)."


def test_other_faults_keep_their_message() -> None:
    graph = traced().graph
    with pytest.raises(DataError, match="cannot take this data"), fit_error({"input_ids": torch.zeros(2, 3)}, graph):
        raise RuntimeError("sizes differ")
    with (
        pytest.raises(DataError, match="cannot take this data"),
        fit_error({"x": torch.zeros(5, 4)}, case("mlp").graph),
    ):
        raise RuntimeError("sizes differ")


class Halves(nn.Module):
    """A classifier whose batch is a number in its code."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(4, 6), nn.Linear(12, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.two(torch.relu(self.one(x.reshape(int(x.shape[0]) * 2, 4))).reshape(int(x.shape[0]), 12))


RUNS: dict[str, Callable[[es.Model, Data, int], object]] = {
    "finetune": lambda m, data, size: m.finetune(data, batch_size=size, epochs=1),
    "sensitivity": lambda m, data, size: m.sensitivity(data, batch_size=size),
    "gptq": lambda m, data, size: m.quantize("linear", weight="int4").gptq(data=data, batch_size=size),
    "autoround": lambda m, data, size: m.quantize("linear", weight="int4").autoround(
        data=data, batch_size=size, steps=2
    ),
    "wanda": lambda m, data, size: m.prune(sparsity=0.5, method="wanda", data=data, batch_size=size),
}


def halves(count: int) -> tuple[es.Model, Data]:
    torch.manual_seed(0)
    return es.trace(Halves(), torch.randn(2, 8)), (torch.randn(count, 8), torch.arange(count) % 3)


@pytest.mark.parametrize("name", RUNS)
def test_trainings_and_passes_run_at_its_size_and_name_it_at_another(name: str) -> None:
    RUNS[name](*halves(40), 2)
    with pytest.raises(EspalierError, match="graph takes batches of 2 alone, and this one has 8") as caught:
        RUNS[name](*halves(40), 8)
    assert caught.value.hint == "Choose --batch-size 2, and a number of samples that 2 divides (--limit)."


def test_a_training_with_a_smaller_last_batch_is_refused_before_it_begins() -> None:
    with pytest.raises(EspalierError, match="graph takes batches of 2 alone, and this one has 1"):
        RUNS["finetune"](*halves(37), 2)
