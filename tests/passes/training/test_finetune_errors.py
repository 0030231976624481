"""What goes wrong in a training: a non-finite loss keeps the last good weights; out of memory is a PassError."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from espalier.model.document.recipe import Step
from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph
from espalier.model.store.weights import WeightStore
from espalier.model.torch.tensors import to_torch
from espalier.model.trace.trace import trace
from espalier.passes.base import Context, Report, run_step
from espalier.passes.recipes.config import decode_options
from espalier.passes.running.objective import Objective
from espalier.passes.training.prepare import _frozen
from espalier.passes.training.run import FineTuner
from tests.model.zoo import case

OPTIONS: dict[str, Any] = {"data": "demo:digits", "max_steps": 12, "batch_size": 16, "train_limit": 96,
                           "validation_limit": 60, "learning_rate": 2e-3, "evaluate_every": 4}  # fmt: skip


class Small(nn.Module):
    """Two layers, with a square root between them that has no number below 0."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.head = nn.Linear(64, 16), nn.BatchNorm1d(16), nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.norm(self.first(x.flatten(1)))))


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path / "state"))


@cache
def small() -> tuple[Graph, WeightStore]:
    store = WeightStore(Path(tempfile.mkdtemp(prefix="espalier-tests-")))
    torch.manual_seed(0)
    return trace(Small().eval(), {"x": torch.zeros(4, 1, 8, 8)}, store).graph, store


def finetuned(**options: Any) -> tuple[Graph, Report]:
    graph, store = small()
    done = run_step(graph, Step("finetune", decode_options("finetune", OPTIONS | options), 1), Context(store))
    return done.graph, done.report


def values(graph: Graph) -> dict[str, torch.Tensor]:
    return {n: to_torch(small()[1].get(w.key or "")) for n, w in graph.weights.items()}


@pytest.fixture
def poison(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make a tensor no number at a step: `poison(step, name)`."""

    def at(step: int, name: str) -> None:
        own = FineTuner.training_step

        def spoilt(self: Any, model: Any, inputs: Any, count: Any = None) -> torch.Tensor:
            if self.state.global_step == step - 1:
                with torch.no_grad():
                    model.inner.get_parameter(name).view(-1)[3] = float("nan")
            return own(self, model, inputs, count)

        monkeypatch.setattr(FineTuner, "training_step", spoilt)

    return at


@pytest.mark.slow
def test_the_best_so_far_is_kept(poison: Any) -> None:
    want, whole = finetuned(max_steps=8, schedule="constant")
    poison(11, "first.weight")
    got, report = finetuned(schedule="constant")
    assert report.summary["ended"] == "diverged at step 11" and report.summary["steps"] == 10
    assert "first.weight" in report.summary["warning"] and "step 11" in report.summary["warning"]
    assert report.summary["kept_step"] == whole.summary["kept_step"] > 0 and got == want
    assert [r["step"] for r in report.rows] == [0, 4, 8, 10]


@pytest.mark.slow
def test_the_last_checkpoint_is_kept_where_the_last_weights_are_wanted(poison: Any) -> None:
    want, _ = finetuned(max_steps=9, schedule="constant", keep="last")
    poison(11, "head.bias")
    got, report = finetuned(schedule="constant", keep="last", checkpoint_every=3)
    assert report.summary["kept_step"] == 9 and report.summary["ended"] == "diverged at step 11" and got == want
    assert all(bool(torch.isfinite(v).all()) for v in values(got).values() if v.is_floating_point())


@pytest.mark.parametrize("options", [{"keep": "last"}, {"keep": "accuracy"}])
def test_with_nothing_to_keep_it_is_an_error(poison: Any, options: dict[str, Any]) -> None:
    poison(2, "first.weight")
    with pytest.raises(
        PassError, match=r"diverged: its loss is not finite at step 2: the weight first\.weight"
    ) as found:
        finetuned(**options)
    assert "learning rate" in found.value.hint


def test_the_node_whose_results_go_first_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """All weights are finite, but a layer's sums are not."""
    own = FineTuner.training_step

    def large(self: Any, model: Any, inputs: Any, count: Any = None) -> torch.Tensor:
        with torch.no_grad():
            model.inner.get_parameter("head.weight").fill_(3e38)
        return own(self, model, inputs, count)

    monkeypatch.setattr(FineTuner, "training_step", large)
    with pytest.raises(PassError, match="the results of head are not finite") as found:
        finetuned()
    assert found.value.node == "head"


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory"),
        MemoryError(),
    ],
    ids=["cuda", "cpu", "python"],
)
def test_lack_of_memory_names_what_to_lower(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Any, **_: Any) -> None:
        raise error

    monkeypatch.setattr(Objective, "forward", fail)
    with pytest.raises(PassError, match="ran out of memory") as found:
        finetuned(accumulation=2)
    assert "batch_size 16" in found.value.message and "batch_size to 8 with accumulation 4" in found.value.hint
    with pytest.raises(PassError) as found:
        finetuned(batch_size=1)
    assert "batch_size" not in found.value.hint


def test_other_errors_stay_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Any, *_: Any) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(FineTuner, "training_step", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        finetuned()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_float16_needs_a_gpu() -> None:
    with pytest.raises(PassError, match="float16") as found:
        finetuned(precision="float16")
    assert "bfloat16" in found.value.hint


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
def test_mixed_precision_trains_on_a_gpu(precision: str) -> None:
    after, report = finetuned(precision=precision, keep="last", checkpoint_every=3)
    before = values(small()[0])
    assert report.summary["ended"] == "finished" and "warning" not in report.summary
    for name, value in values(after).items():
        assert torch.isfinite(value).all() and value.dtype == before[name].dtype
    assert not torch.equal(values(after)["head.weight"], before["head.weight"])
    assert not torch.equal(values(after)["norm.running_mean"], before["norm.running_mean"])


@pytest.mark.slow
def test_running_statistics_of_frozen_norms_stay() -> None:
    frozen, _ = finetuned(freeze=[{"by": "name", "values": ["norm"]}], keep="last")
    free, _ = finetuned(keep="last")
    before = values(small()[0])
    for name in (n for n in before if n.startswith("norm.") and "num_batches" not in n):
        assert torch.equal(values(frozen)[name], before[name]), name
        assert not torch.equal(values(free)[name], before[name]), name
    assert not torch.equal(values(frozen)["head.weight"], before["head.weight"])


SELECTIONS: dict[str, tuple[dict[str, Any], Callable[[str], bool]]] = {
    "category": (
        {"by": "type", "values": ["embedding"]},
        lambda name: name.endswith("embeddings.weight"),
    ),
    "module": (
        {"by": "module", "values": ["bert.encoder.layer.0"]},
        lambda name: ".layer.0." in name,
    ),
    "regex": (
        {"by": "regex", "values": [r"layer\.\d+\.output"]},
        lambda name: ".output." in name and ".attention." not in name,
    ),
}


@pytest.mark.parametrize(("select", "frozen"), SELECTIONS.values(), ids=SELECTIONS)
def test_what_is_frozen_is_chosen_as_everywhere(select: dict[str, Any], frozen: Any) -> None:
    held = case("bert")
    options: Any = decode_options("finetune", {"freeze": [select]})
    found = _frozen(held.graph, options.freeze)
    parameters = {n for n, w in held.graph.weights.items() if w.role == "parameter"}
    assert found and found == {n for n in parameters if frozen(n)}


def test_a_selection_without_weights_is_told() -> None:
    with pytest.raises(PassError, match="can be frozen"):
        finetuned(freeze=[{"by": "type", "values": ["relu"]}])
    with pytest.raises(PassError, match="matches no node"):
        finetuned(freeze=[{"by": "module", "values": ["nowhere"]}])
