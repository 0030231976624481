"""Fine-tuning trains the graph: what is learned, what stays, which weights are kept."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers import TrainerControl, TrainerState

from espalier.model.document.recipe import Step
from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph
from espalier.model.registry import FORMATS
from espalier.model.torch.build import build, parameters_of, read_back
from espalier.model.torch.layers import unpack_mask
from espalier.model.torch.tensors import to_torch
from espalier.passes.base import Cancelled, Context, run_step
from espalier.passes.recipes.config import decode_options
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.training.watch import Watch
from tests.passes.training.digits import DATA, context, finetuned, opened, values


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


@pytest.mark.slow
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


@pytest.mark.slow
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


CHOICES = {
    "scaled_integer": "scaled_integer(width=4, granularity=channel, group=8)",
    "integer": "integer(width=6, frac_width=4)",
}


@pytest.mark.slow
@pytest.mark.sampled(0.34)
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "fmt",
    ["binary", "binary_residual(levels=1)", "ternary", "integer(width=2, frac_width=1)", "scaled_integer(width=2)"],
)
def test_training_repairs_what_a_coarse_format_broke(base: Graph, fmt: str) -> None:
    broken = quantised(base, fmt, "weight")
    after, _ = finetuned(broken, max_steps=0, epochs=4, train_limit=0, validation_limit=0, learning_rate=2e-3)
    assert accuracy(after) > accuracy(broken) + 0.03


@pytest.mark.slow
def test_learned_scales_move_and_do_not_decay(base: Graph) -> None:
    graph = with_pass(quantised(base, "scaled_integer(width=4)", "weight"), "learn_scales")
    scales = {n for n in graph.weights if n not in base.weights}
    after, _ = finetuned(graph, keep="last")
    assert scales and all(not torch.equal(values(after)[n], values(graph)[n]) for n in scales)
    held, _ = finetuned(graph, weight_decay=1.0, learning_rate=1e-8, keep="last")
    assert all(torch.allclose(values(held)[n], values(graph)[n], rtol=1e-5) for n in scales)


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
