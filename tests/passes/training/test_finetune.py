"""Fine-tuning trains the graph as it is: it learns, masks hold, frozen weights stay, equal seeds agree, and what was
trained is never trained again."""

from __future__ import annotations

import math
import tempfile
import threading
import time
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers import TrainerControl, TrainerState

from espalier.app.jobs.runner import JobRunner
from espalier.model.document.project import keys_of, load_project, save_project
from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import DataError, EspalierError, GraphError, OptionsError, PassError
from espalier.model.graph.graph import Graph
from espalier.model.opening import Opened, open_source
from espalier.model.registry import FORMATS, PASSES
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import build, parameters_of, read_back
from espalier.model.torch.layers import unpack_mask
from espalier.model.torch.tensors import to_torch
from espalier.model.trace.trace import trace
from espalier.passes.base import Cancelled, Context, Report, run_step
from espalier.passes.jobs.kinds import TERMINAL, Done, JobEvent, Metric, OpenJob, ReplayJob
from espalier.passes.recipes.config import decode_options
from espalier.passes.recipes.replay import Memo, milestones, prefix_keys, replay
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.training.watch import Watch
from espalier.passes.transform.finetune import FinetuneOptions
from tests.patience import PATIENCE
from tests.registered import lend_pass

DATA = "demo:digits"
SHORT: dict[str, Any] = {"data": DATA, "max_steps": 6, "batch_size": 16, "train_limit": 128, "validation_limit": 90,
                         "learning_rate": 1e-3}  # fmt: skip


@cache
def opened() -> Opened:
    return open_source("demo:digits-mlp", Path(tempfile.mkdtemp(prefix="espalier-tests-")))


@pytest.fixture
def base() -> Graph:
    return opened().project.base


def context(**hooks: Any) -> Context:
    return Context(opened().store, **hooks)


def finetuned(graph: Graph, held: Context | None = None, seed: int = 0, **options: Any) -> tuple[Graph, Report]:
    step = Step("finetune", decode_options("finetune", SHORT | options), seed)
    done = run_step(graph, step, held or context())
    return done.graph, done.report


def values(graph: Graph, store: WeightStore | None = None) -> dict[str, torch.Tensor]:
    held = store or opened().store
    return {n: to_torch(held.get(w.key)).clone() for n, w in graph.weights.items() if w.key}


def with_pass(graph: Graph, name: str, **options: Any) -> Graph:
    return run_step(graph, Step(name, decode_options(name, options)), context()).graph


def quantised(graph: Graph, fmt: str, *ports: str) -> Graph:
    rule = {"select": {"by": "type", "values": ["linear"]}, "formats": dict.fromkeys(ports, fmt)}
    return with_pass(graph, "quantize", rules=[rule])


def shaken(graph: Graph, amount: float = 0.5) -> Graph:
    """The graph with noise on its weights, so that there is something to learn."""
    module = build(graph, opened().store)
    torch.manual_seed(1)
    with torch.no_grad():
        for value in parameters_of(module).values():
            value.add_(torch.randn_like(value) * amount * value.std())
    return read_back(module, graph, opened().store)


def accuracy(graph: Graph) -> float:
    options = EvaluateOptions(DATA, "validation")
    return float(run_step(graph, Step("evaluate", options), context()).report.summary["accuracy"])


# -- learning


def test_it_learns(base: Graph) -> None:
    worse = shaken(base, 1.0)
    after, report = finetuned(worse, max_steps=0, epochs=3, train_limit=0, validation_limit=0)
    assert accuracy(after) > accuracy(worse) + 0.05
    assert accuracy(after) == pytest.approx(report.summary["validation_accuracy"])
    steps = 3 * -(-1257 // 16)
    assert [r["step"] for r in report.rows] == [0, steps // 3, 2 * steps // 3, steps]
    assert [r["epoch"] for r in report.rows] == [0, 1, 2, 3]
    assert report.rows[-1]["training_loss"] < report.rows[1]["training_loss"]
    assert report.summary["samples"] == 1257 and report.summary["trainable_parameters"] == 6570
    assert report.summary["ended"] == "finished" and report.summary["steps"] == steps


def test_equal_seeds_give_equal_weights_and_others_do_not(base: Graph) -> None:
    (one, a), (two, b), (other, _) = (finetuned(base, seed=s, keep="last") for s in (3, 3, 4))
    assert one == two and one != other and a.rows == b.rows


def test_the_rest_of_the_process_keeps_its_chance(base: Graph) -> None:
    torch.manual_seed(5)
    want = torch.rand(4)
    torch.manual_seed(5)
    finetuned(base)
    assert torch.equal(torch.rand(4), want)


def test_one_sgd_step_is_the_gradient_by_hand(base: Graph) -> None:
    """Full batch, no momentum, no clipping: w − rate · d mean cross-entropy / dw."""
    after, _ = finetuned(base, max_steps=1, batch_size=128, accumulation=1, optimiser="sgd", momentum=0.0, clip=0.0,
                         schedule="constant", learning_rate=0.1, keep="last")  # fmt: skip
    module = build(base, opened().store).train()
    from espalier.model.data.loading import load_data

    split = load_data(DATA).split("train").take(128)
    logits = module(torch.from_numpy(split.inputs["x"]))
    logits = logits if isinstance(logits, torch.Tensor) else next(iter(logits.values()))
    nn.functional.cross_entropy(logits, torch.from_numpy(split.labels)).backward()
    for name, value in parameters_of(module).items():
        assert torch.allclose(values(after)[name], value.detach() - 0.1 * value.grad, atol=1e-6), name


def test_accumulated_batches_are_one_large_one(base: Graph) -> None:
    common = {"max_steps": 2, "optimiser": "sgd", "keep": "last", "train_limit": 128}
    whole, _ = finetuned(base, batch_size=64, accumulation=1, **common)
    parts, _ = finetuned(base, batch_size=16, accumulation=4, **common)
    for name, value in values(whole).items():
        assert torch.allclose(value, values(parts)[name], atol=1e-5), name


@pytest.mark.parametrize("optimiser", ["adamw", "sgd", "adafactor"])
@pytest.mark.parametrize("schedule", ["linear", "cosine", "constant"])
def test_each_optimiser_and_schedule_trains(base: Graph, optimiser: str, schedule: str) -> None:
    rates: list[float] = []
    held = context(metric=lambda name, step, value: rates.append(value) if name == "learning rate" else None)
    after, _ = finetuned(base, held, optimiser=optimiser, schedule=schedule, warm_up=0.5, keep="last")
    assert all(not torch.equal(v, values(base)[n]) for n, v in values(after).items())
    assert len(rates) == 6 and rates[0] < rates[2] <= 1e-3 + 1e-9
    assert rates[-1] < rates[3] if schedule != "constant" else rates[-1] == rates[3]


# -- what stays


def test_masks_hold_and_pruned_weights_stay_zero(base: Graph) -> None:
    pruned = with_pass(base, "prune", sparsity=0.6)
    after, _ = finetuned(pruned, weight_decay=0.1, keep="last")
    for node in (n for n in after if n.sparsity):
        mask_key = node.sparsity["weight"].mask
        assert mask_key and mask_key == pruned[node.id].sparsity["weight"].mask
        name = node.weights["weight"]
        mask = unpack_mask(to_torch(opened().store.get(mask_key)), after.weights[name].shape)
        assert torch.equal(values(after)[name][~mask] != 0, values(pruned)[name][~mask] != 0)
        assert not torch.equal(values(after)[name][mask], values(pruned)[name][mask])
        leaf = build(after, opened().store).get_submodule(node.target)
        assert not leaf.tensor("weight")[~mask].any()


def test_frozen_nodes_stay(base: Graph) -> None:
    first = next(n for n in base if n.op == "linear")
    after, report = finetuned(base, freeze=[{"by": "name", "values": [first.id]}], keep="last")
    frozen = set(first.weights.values())
    for name, value in values(after).items():
        assert torch.equal(value, values(base)[name]) == (name in frozen), name
    assert report.summary["trainable_parameters"] == 6570 - sum(base.weights[n].elements for n in frozen)
    by_module, _ = finetuned(base, freeze=[{"by": "module", "values": [first.target]}], keep="last")
    assert by_module == after


def test_nothing_left_to_train_is_said(base: Graph) -> None:
    with pytest.raises(PassError, match="All weights are frozen"):
        finetuned(base, freeze=[{"by": "all", "values": []}])
    with pytest.raises(PassError, match="matches no node"):
        finetuned(base, freeze=[{"by": "name", "values": ["nowhere"]}])


# -- formats


CHOICES = {
    "scaled_integer": "scaled_integer(width=4, granularity=channel, group=8)",
    "integer": "integer(width=6, frac_width=4)",
}


@pytest.mark.parametrize("name", list(FORMATS))
def test_every_format_trains_through(base: Graph, name: str) -> None:
    fmt = CHOICES.get(name) or str(FORMATS.get(name)())
    # Sums of plain signs leave −1…1, where the sign's gradient ends: its activations need a norm before them.
    graph = quantised(base, fmt, "weight", *(("data_in",) if name != "binary" else ()))
    after, report = finetuned(graph, max_steps=8, keep="last", learning_rate=3e-3)
    moved = [
        n for n in after if n.op == "linear" and after.weights[n.weights["weight"]] != base.weights[n.weights["weight"]]
    ]
    assert len(moved) == sum(n.op == "linear" for n in base)
    assert all(n.precision == graph[n.id].precision for n in after)
    losses = [r["training_loss"] for r in report.rows if r["training_loss"] is not None]
    assert all(np.isfinite(losses))


@pytest.mark.parametrize(
    "fmt",
    ["binary", "binary_residual(levels=1)", "ternary", "integer(width=2, frac_width=1)", "scaled_integer(width=2)"],
)
def test_training_repairs_what_a_coarse_format_broke(base: Graph, fmt: str) -> None:
    broken = quantised(base, fmt, "weight")
    after, _ = finetuned(broken, max_steps=0, epochs=4, train_limit=0, validation_limit=0, learning_rate=2e-3)
    assert accuracy(after) > accuracy(broken) + 0.03


def test_learned_scales_move_and_do_not_decay(base: Graph) -> None:
    graph = with_pass(quantised(base, "scaled_integer(width=4)", "weight"), "learn_scales")
    scales = {n for n in graph.weights if n not in base.weights}
    after, _ = finetuned(graph, keep="last")
    assert scales and all(not torch.equal(values(after)[n], values(graph)[n]) for n in scales)
    held, _ = finetuned(graph, weight_decay=1.0, learning_rate=1e-8, keep="last")
    assert all(torch.allclose(values(held)[n], values(graph)[n], rtol=1e-5) for n in scales)


# -- the best, early, by hand


def test_the_best_weights_are_kept(base: Graph) -> None:
    """A rate that ruins the model: the start's weights are the best that were seen."""
    ruin = {"learning_rate": 5.0, "optimiser": "sgd", "evaluate_every": 2, "schedule": "constant", "clip": 0.0}
    best, report = finetuned(base, **ruin, keep="accuracy")
    assert best == base and report.summary["kept_step"] == 0
    last, report = finetuned(base, **ruin, keep="last")
    assert last != base and report.summary["kept_step"] == 6
    _, report = finetuned(shaken(base), keep="loss", evaluate_every=2)
    losses = {r["step"]: r["validation_loss"] for r in report.rows}
    assert report.summary["kept_step"] == min(losses, key=losses.__getitem__)


def test_of_equal_accuracies_the_least_loss_is_kept(base: Graph) -> None:
    """On few validation samples all may be right from the start, and a training is worth its while all the same."""
    _, report = finetuned(shaken(base), keep="accuracy", evaluate_every=2, validation_limit=8)
    best = max(r["validation_accuracy"] for r in report.rows)
    alike = {r["step"]: r["validation_loss"] for r in report.rows if r["validation_accuracy"] == best}
    least = min(alike, key=alike.__getitem__)
    assert report.summary["kept_step"] == least != min(alike), "the first of them is not the best"


def test_patience_ends_it(base: Graph) -> None:
    _, report = finetuned(base, learning_rate=1.0, evaluate_every=1, patience=2, max_steps=50)
    assert report.summary["ended"] == "stopped early" and report.summary["steps"] == 2
    assert [r["step"] for r in report.rows] == [0, 1, 2]
    assert all(r["validation_accuracy"] < 0.5 < report.rows[0]["validation_accuracy"] for r in report.rows[1:])


@pytest.mark.parametrize("keep", ["accuracy", "loss"])
@pytest.mark.parametrize(
    ("losses", "ended", "kept"),
    [
        ([0.5, 0.5, 0.5], "stopped early", 0),
        ([0.5, 0.5 - 3e-8, 0.5 - 6e-8], "stopped early", 0),  # the last bit of a float32 is no gain
        ([0.5, 0.5 - 3e-8, 0.5 - 2e-6], "finished", 2),
        ([0.5, 0.4999, 0.51], "finished", 1),
        ([math.nan, 0.5, 0.6], "finished", 1),
    ],
)
def test_patience_is_for_gains_beyond_rounding(losses: list[float], ended: str, kept: int, keep: Any) -> None:
    watch = Watch(dict, Context(opened().store), 1, keep, patience=2)
    for step, loss in enumerate(losses):
        control = TrainerControl()
        watch.on_evaluate(None, TrainerState(global_step=step), control, {"eval_accuracy": 0.75, "eval_loss": loss})
        assert control.should_training_stop == (ended == "stopped early" and step == 2)
    assert (watch.ended, watch.kept_step) == (ended, kept)


def test_enough_keeps_what_was_learned(base: Graph) -> None:
    done: list[int] = []

    def count(name: str, step: int, value: float) -> None:
        done.append(step)

    held = context(metric=count, enough=lambda: bool(done) and max(done) >= 3)
    after, report = finetuned(base, held, max_steps=100, keep="last")
    assert report.summary["ended"] == "stopped by hand" and report.summary["steps"] < 6
    assert report.rows[-1]["step"] == report.summary["steps"] and report.rows[-1]["validation_loss"] is not None
    assert after != base


def test_a_cancelled_training_leaves_everything(base: Graph) -> None:
    def stop(done: int, total: int, text: str) -> None:
        if done == 3:
            raise Cancelled("The job was cancelled.")

    before = values(base)
    with pytest.raises(Cancelled):
        finetuned(base, context(progress=stop))
    assert all(torch.equal(v, before[n]) for n, v in values(base).items())


def test_figures_arrive_while_it_runs(base: Graph) -> None:
    heard: list[tuple[str, int]] = []
    finetuned(base, context(metric=lambda name, step, value: heard.append((name, step))), evaluate_every=3)
    for name in ("training loss", "learning rate"):
        assert [s for n, s in heard if n == name] == [1, 2, 3, 4, 5, 6]
    for name in ("validation accuracy", "validation loss"):
        assert [s for n, s in heard if n == name] == [0, 3, 6]


def test_without_validation_an_epoch_is_a_row(base: Graph) -> None:
    after, report = finetuned(base, validate=False, max_steps=0, epochs=2.5)
    assert [(r["step"], r["epoch"]) for r in report.rows] == [(8, 1), (16, 2), (20, 2.5)]
    assert all(r["validation_loss"] is None and r["training_loss"] > 0 for r in report.rows)
    assert after != base and report.summary["kept_step"] == 20


# -- mistakes


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"data": ""}, DataError, "no data"),
        ({"train_split": "spring"}, DataError, "no split 'spring'"),
        ({"data": "demo:reviews"}, DataError, "needs the input|cannot take"),
        ({"learning_rate": 0.0}, OptionsError, "learning_rate"),
        ({"warm_up": 1.5}, OptionsError, "warm_up"),
        ({"batch_size": 0}, OptionsError, "batch_size"),
        ({"optimiser": "magic"}, OptionsError, "magic"),
    ],
)
def test_mistakes_are_told(base: Graph, options: dict[str, Any], error: type[EspalierError], text: str) -> None:
    with pytest.raises(error, match=text) as found:
        finetuned(base, **options)
    assert found.value.hint


class Diverging(nn.Module):
    """A loss that grows without end under gradient descent."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = self.head(x.flatten(1))
        return {"loss": -(logits**4).mean(), "logits": logits}


def test_a_training_that_diverges_says_so(tmp_path: Path) -> None:
    store = WeightStore(tmp_path)
    example = {"x": torch.zeros(4, 1, 8, 8), "labels": torch.zeros(4, dtype=torch.int64)}
    graph = trace(Diverging().eval(), example, store).graph
    with pytest.raises(PassError, match="diverged"):
        finetuned(graph, Context(store), learning_rate=10.0, optimiser="sgd", clip=0.0, schedule="constant")


class TwoClasses(nn.Module):
    """Tells fewer classes apart than the data has."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(64, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(x.flatten(1))


def test_too_few_classes_are_told(tmp_path: Path) -> None:
    store = WeightStore(tmp_path)
    graph = trace(TwoClasses().eval(), {"x": torch.zeros(2, 1, 8, 8)}, store).graph
    with pytest.raises(DataError, match="the model 2"):
        finetuned(graph, Context(store))


class OwnLoss(nn.Module):
    """Ten times the cross-entropy: told apart from ours."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = self.head(x.flatten(1))
        return {"loss": 10 * nn.functional.cross_entropy(logits, labels), "logits": logits}


def test_a_models_own_loss_is_what_trains(tmp_path: Path) -> None:
    store = WeightStore(tmp_path)
    torch.manual_seed(0)
    example = {"x": torch.zeros(4, 1, 8, 8), "labels": torch.zeros(4, dtype=torch.int64)}
    graph = trace(OwnLoss().eval(), example, store).graph
    _, report = finetuned(graph, Context(store), learning_rate=1e-8)
    assert 20 < report.rows[0]["validation_loss"] < 30  # ten times ln 10


class ManyLabels(nn.Module):
    """A label for each position."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(8, 10)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(self.head(x).flatten(0, -2), labels.flatten())


def test_models_that_are_no_classifiers_are_refused(tmp_path: Path) -> None:
    store = WeightStore(tmp_path)
    example = {"x": torch.zeros(4, 1, 8, 8), "labels": torch.zeros(4, 8, dtype=torch.int64)}
    graph = trace(ManyLabels().eval(), example, store).graph
    with pytest.raises(GraphError, match="only classifiers"):
        finetuned(graph, Context(store))


# -- once is enough


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry per training that was run."""
    runs: list[int] = []
    spec = PASSES.get("finetune")

    def counted(graph: Graph, options: FinetuneOptions, held: Context) -> tuple[Graph, Report]:
        runs.append(1)
        return spec.run(graph, options, held)

    lend_pass(monkeypatch, replace(spec, run=counted))
    return runs


def recipe(*more: Step) -> Recipe:
    prune = Step("prune", decode_options("prune", {"sparsity": 0.3}))
    return Recipe((prune, Step("finetune", decode_options("finetune", SHORT)), *more))


def pruned(ratio: float) -> Step:
    return Step("prune", decode_options("prune", {"sparsity": ratio}))


def test_edits_after_a_training_do_not_train_again(trainings: list[int], base: Graph) -> None:
    memo = Memo(limit=4)
    for ratio in (0.4, 0.5, 0.6, 0.7, 0.8, 0.5):
        replay(base, recipe(pruned(ratio)), context(), memo)
    replay(base, recipe(), context(), memo)
    assert len(trainings) == 1 and len(memo.graphs) == 4


def test_a_saved_project_holds_what_was_trained(trainings: list[int], base: Graph, tmp_path: Path) -> None:
    whole = recipe(pruned(0.5))
    done = replay(base, whole, context())
    kept = milestones(whole, done.results)
    assert set(kept) == {2}
    project = replace(opened().project, recipe=whole, graph=done.graph, milestones=kept)
    save_project(project, opened().store, tmp_path / "p.espalier")
    store = WeightStore(tmp_path)
    back = load_project(tmp_path / "p.espalier", store)
    assert back.milestones == kept and back.graph == done.graph
    memo = Memo()
    for count, graph in back.milestones.items():
        memo.remember(back.recipe.active[:count], graph)
    other = replay(back.base, recipe(pruned(0.7)), Context(store), memo)
    assert len(trainings) == 1 and prefix_keys(whole.active)[1] in memo.graphs
    assert values(other.graph, store).keys() == values(done.graph).keys()
    assert all(torch.equal(v, values(done.graph)[n]) for n, v in values(other.graph, store).items())


def test_the_last_step_needs_no_milestone(trainings: list[int], base: Graph) -> None:
    done = replay(base, recipe(), context())
    assert milestones(recipe(), done.results) == {}


def test_in_the_worker_figures_arrive_and_stop_and_keep_works(tmp_path: Path) -> None:
    """A real process: open, train without end, ask it to finish at the third figure; a project holds the result."""
    heard: list[JobEvent] = []
    told = threading.Event()
    runner = JobRunner(lambda e: (heard.append(e), told.set()))

    def end(job: Any, keep_at: int = 0) -> Any:
        info = runner.submit("job", job)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            told.wait(0.1)
            told.clear()
            own = [e.event for e in list(heard) if e.job.id == info.id]
            if keep_at and sum(isinstance(e, Metric) for e in own) >= keep_at:
                runner.stop_and_keep(info.id)
            if own and isinstance(own[-1], TERMINAL):
                assert isinstance(own[-1], Done), own[-1]
                return own[-1].result, info
        raise AssertionError("the job did not end")

    try:
        found, _ = end(OpenJob("demo:digits-mlp", tmp_path / "work"))
        step = Step("finetune", decode_options("finetune", SHORT | {"max_steps": 100_000, "keep": "last"}))
        job = ReplayJob(found.project.base, Recipe((step,)), found.locations, tmp_path / "work", found.project.source)
        done, info = end(job, keep_at=3)
    finally:
        runner.close()
    summary = done.results[-1].report.summary
    assert summary["ended"] == "stopped by hand" and 0 < summary["steps"] < 100_000
    assert done.graph != found.project.base and keys_of(done.graph) <= done.locations.keys()
    assert [s for s, _ in info.metrics["training loss"]] == list(range(1, summary["steps"] + 1))
    assert info.metrics["validation accuracy"][-1][0] == summary["steps"]


def test_it_lasts_and_takes_a_job() -> None:
    spec = PASSES.get("finetune")
    assert spec.lasting and not spec.instant and spec.options() == FinetuneOptions()
