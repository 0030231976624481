"""The baseline as a teacher: its logits and hidden states in the loss, asked once a sample."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from espalier.model.data.loading import load_data
from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import OptionsError, PassError
from espalier.model.graph.graph import Graph
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import build, parameters_of
from espalier.model.torch.tensors import to_torch
from espalier.model.trace.trace import trace
from espalier.passes.base import Context, Report, run_step
from espalier.passes.recipes.config import decode_options
from espalier.passes.recipes.replay import replay
from espalier.passes.tasks.base import TASKS
from espalier.passes.training.blocks import block_outputs, tapped
from espalier.passes.training.teacher import DistillationLoss, Teacher, common_blocks
from tests.folders import kept_folder
from tests.model.zoo import case

OPTIONS: dict[str, Any] = {"data": "demo:digits", "max_steps": 6, "batch_size": 16, "train_limit": 64, "keep": "last",
                           "validation_limit": 60, "learning_rate": 1e-3, "validate": False}  # fmt: skip


class Stack(nn.Module):
    """Blocks under a numbered path, as encoders have them."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.first = nn.Linear(64, width)
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(2))
        self.head = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x.flatten(1))
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path / "state"))


STORE = WeightStore(kept_folder())


@cache
def stack(seed: int = 0, width: int = 16) -> Graph:
    torch.manual_seed(seed)
    return trace(Stack(width).eval(), {"x": torch.zeros(4, 1, 8, 8)}, STORE).graph


def finetuned(graph: Graph, base: Graph | None, **options: Any) -> tuple[Graph, Report]:
    step = Step("finetune", decode_options("finetune", OPTIONS | options))
    done = run_step(graph, step, Context(STORE, base=base))
    return done.graph, done.report


def values(graph: Graph) -> dict[str, torch.Tensor]:
    return {n: to_torch(STORE.get(w.key or "")).clone() for n, w in graph.weights.items()}


def data(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    split = load_data("demo:digits").split("train").take(count)
    return torch.from_numpy(split.inputs["x"]), torch.from_numpy(split.labels)


def logits(graph: Graph, x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        found = build(graph, STORE)(x)
    return found if isinstance(found, torch.Tensor) else next(iter(found.values()))


@pytest.mark.slow
def test_one_step_is_the_gradient_by_hand() -> None:
    """Full batch SGD on (1 − d)·CE + d·T²·KL(teacher ‖ pupil) + h·mean of the blocks' squared differences."""
    pupil, teacher = stack(1), stack(2)
    share, heat, weight, rate = 0.7, 3.0, 0.4, 0.05
    after, _ = finetuned(pupil, teacher, distil=share, temperature=heat, hidden=weight, max_steps=1, batch_size=64,
                         optimiser="sgd", momentum=0.0, clip=0.0, schedule="constant", learning_rate=rate)  # fmt: skip
    x, labels = data(64)
    module, other = build(pupil, STORE).train(), build(teacher, STORE)
    with torch.no_grad():
        theirs, their_states = states(other, x)
    mine, my_states = states(module, x)
    taught = (F.softmax(theirs / heat, -1) * (F.log_softmax(theirs / heat, -1) - F.log_softmax(mine / heat, -1))).sum(
        -1
    )
    distance = sum(((a - b) ** 2).mean() for a, b in zip(my_states, their_states, strict=True)) / 2
    ((1 - share) * F.cross_entropy(mine, labels) + share * heat**2 * taught.mean() + weight * distance).backward()
    for name, value in parameters_of(module).items():
        assert torch.allclose(values(after)[name], value.detach() - rate * value.grad, atol=1e-6), name


def states(module: Any, x: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Logits and block results, written out."""
    p = parameters_of(module)
    x, found = F.linear(x.flatten(1), p["first.weight"], p["first.bias"]), []
    for i in range(2):
        block = torch.tanh(F.linear(x, p[f"layers.{i}.0.weight"], p[f"layers.{i}.0.bias"]))
        found.append(block)
        x = x + block
    return F.linear(x, p["head.weight"], p["head.bias"]), found


def test_blocks_are_found_and_heard() -> None:
    graph = stack()
    outputs = block_outputs(graph)
    assert list(outputs) == ["layers.0", "layers.1"]
    module = build(graph, STORE)
    x, _ = data(4)
    want, each = states(module, x)
    taps = tapped(module, outputs)
    assert torch.equal(module(x) if isinstance(module(x), torch.Tensor) else module(x)["logits"], want)
    assert all(torch.equal(t.take(), e) for t, e in zip(taps, each, strict=True))
    bert = case("bert").graph
    assert all(".layer." in path for path in block_outputs(bert)) and block_outputs(bert)


@pytest.mark.slow
def test_a_pupil_comes_nearer_to_its_teacher() -> None:
    pupil, teacher = stack(1), stack(2)
    x, _ = data(64)
    before = float((logits(pupil, x) - logits(teacher, x)).square().mean())
    after, _ = finetuned(pupil, teacher, distil=1.0, epochs=20, max_steps=0, learning_rate=5e-3)
    assert float((logits(after, x) - logits(teacher, x)).square().mean()) < 0.5 * before


@pytest.mark.slow
def test_each_sample_is_asked_about_once(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []
    own = Teacher._cache

    def counted(self: Teacher, rows: torch.Tensor, said: torch.Tensor) -> None:
        runs.append(len(rows))
        own(self, rows, said)

    monkeypatch.setattr(Teacher, "_cache", counted)  # two samples are tried out first
    some, report = finetuned(stack(1), stack(2), distil=0.5, epochs=3, max_steps=0)
    assert sum(runs) == 64 + 2 and report.summary["steps"] == 12
    monkeypatch.setattr("espalier.passes.training.teacher.MAX_BYTES", 10)
    runs.clear()
    assert finetuned(stack(1), stack(2), distil=0.5, epochs=3, max_steps=0)[0] == some
    assert sum(runs) == 3 * 64 + 2  # no memory for it: each time


@pytest.mark.slow
def test_the_baseline_of_the_recipe_teaches() -> None:
    """Also after a step that changed the graph; the validation is measured without the teacher."""
    prune = Step("prune", decode_options("prune", {"sparsity": 0.5}))
    options = OPTIONS | {"distil": 0.5, "validate": True}
    recipe = Recipe((prune, Step("finetune", decode_options("finetune", options))))
    done = replay(stack(), recipe, Context(STORE))
    want, report = finetuned(done.results[0].graph if done.results[0] else stack(), stack(), distil=0.5, validate=True)
    assert done.graph == want
    alone, without = finetuned(done.results[0].graph if done.results[0] else stack(), None, validate=True)
    assert alone != want and report.rows[0]["validation_loss"] == without.rows[0]["validation_loss"]


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"distil": 0.6}, {"distil": 0.3, "hidden": 0.5}], ids=str)
def test_a_broken_off_lesson_goes_on_bit_for_bit(options: dict[str, Any]) -> None:
    class Killed(Exception):
        pass

    def die(name: str, step: int, value: float) -> None:
        if step == 8:
            raise Killed

    options = options | {"max_steps": 10, "checkpoint_every": 3}
    want, _ = finetuned(stack(1), stack(2), **options)
    step = Step("finetune", decode_options("finetune", OPTIONS | options))
    with pytest.raises(Killed):
        run_step(stack(1), step, Context(STORE, base=stack(2), metric=die))
    assert finetuned(stack(1), stack(3), **options)[1].summary.get("resumed_from") is None  # of another teacher
    got, report = finetuned(stack(1), stack(2), **options)
    assert report.summary["resumed_from"] == 6 and got == want


def test_padding_does_not_count() -> None:
    distillation = DistillationLoss(decode_options("finetune", {"hidden": 1.0}), [])
    from espalier.passes.training.blocks import Tap

    tap = Tap()
    distillation.taps.append(tap)
    mine, theirs = torch.zeros(1, 3, 2), torch.ones(1, 3, 2)
    theirs[0, 2] = 100.0
    tap(mine)
    mask = torch.tensor([[1, 1, 0]])
    found = distillation.loss(
        torch.tensor(0.0),
        torch.zeros(1, 2),
        {"teacher_hidden_0": theirs, "attention_mask": mask},
        TASKS["classification"],
    )
    assert float(found) == 1.0
    tags, option = TASKS["token-classification"], decode_options("finetune", {"distil": 1.0})
    scores, taught = torch.zeros(3, 2), torch.tensor([[1.0, 0], [1, 0], [9, 0]])
    batch = {"teacher_logits": taught, "attention_mask": mask}
    one = DistillationLoss(option, []).loss(torch.tensor(0.0), scores, batch, tags)
    assert float(one) == pytest.approx(float(tags.taught(scores[:2], taught[:2], 2.0)))


@pytest.mark.slow
def test_mistakes_are_told() -> None:
    with pytest.raises(PassError, match="no baseline"):
        finetuned(stack(), None, distil=0.5)
    with pytest.raises(PassError, match=r"layers\.0 has width 16, in the baseline 8") as found:
        finetuned(stack(), stack(0, 8), hidden=0.5)
    assert "hidden to 0" in found.value.hint
    finetuned(stack(), stack(0, 8), distil=0.5)
    with pytest.raises(PassError, match="no common repeated blocks"):
        common_blocks(stack(), case("mlp").graph)
    with pytest.raises(OptionsError, match="distil"):
        finetuned(stack(), stack(), distil=2.0)


class Picky(Stack):
    """Control flow that depends on the data, so that it runs with its own code."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x.flatten(1))
        if float(x.detach().sum()) > -1e9:
            for layer in self.layers:
                x = x + layer(x)
        return self.head(x)


def test_a_model_with_its_own_code_learns_too() -> None:
    torch.manual_seed(3)
    traced = trace(Picky().eval(), {"x": torch.zeros(4, 1, 8, 8)}, STORE)
    assert traced.graph.runs == "module"
    graph = block_outputs(traced.graph)
    assert list(graph) == ["layers.0", "layers.1"]
    x, _ = data(4)
    module = build(traced.graph, STORE, traced.callables)
    _, want = states(module, x)
    taps = tapped(module, graph)
    module(x)
    assert all(torch.equal(t.take(), e) for t, e in zip(taps, want, strict=True))
