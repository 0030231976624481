"""Accuracy and loss against sums by hand; data that does not fit the model is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from espalier.model.data.base import Split, TaskData
from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import DataError, GraphError
from espalier.model.formats.integer import Integer
from espalier.model.opening import open_any
from espalier.model.trust import Origin
from espalier.passes.analysis.evaluate import evaluate, measure
from espalier.passes.base import Cancelled, Context
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.recipes.replay import replay
from espalier.passes.running.batches import match_inputs
from espalier.passes.running.splits import EvaluateOptions, choose_split
from espalier.passes.score import static_score
from espalier.passes.select import Select
from espalier.passes.tasks.scores import logits_of
from espalier.passes.training.options import FinetuneOptions
from espalier.passes.transform.calibrate import CalibrateOptions
from tests.model.zoo import case


def split(count: int = 23, classes: int = 3, name: str = "x") -> Split:
    rng = np.random.default_rng(1)
    return Split({name: rng.normal(size=(count, 4)).astype(np.float32)}, rng.integers(0, classes, count))


def context() -> Context:
    return Context(case("mlp").store)


# -- figures


@pytest.mark.parametrize("batch", [1, 5, 23, 64])
def test_accuracy_and_loss_by_hand(batch: int) -> None:
    held, data = case("mlp"), split()
    with torch.no_grad():
        logits = held.original(torch.from_numpy(data.inputs["x"]))
    labels = torch.from_numpy(data.labels)
    figures = measure(held.build(), held.graph, data, batch, context()).figures()
    accuracy, loss = figures["accuracy"], figures["loss"]
    assert accuracy == float((logits.argmax(-1) == labels).sum()) / 23
    assert loss == pytest.approx(float(F.cross_entropy(logits, labels)), rel=1e-6)


def test_a_model_that_takes_labels_gets_them() -> None:
    held = case("bert-labels")
    rng = np.random.default_rng(0)
    ids = rng.integers(1, 61, (5, 7))
    data = Split({"input_ids": ids, "attention_mask": np.ones_like(ids)}, rng.integers(0, 2, 5))
    figures = measure(held.build(), held.graph, data, 2, Context(held.store)).figures()
    accuracy, loss = figures["accuracy"], figures["loss"]
    with torch.no_grad():
        result = held.original(input_ids=torch.from_numpy(ids), attention_mask=torch.ones(5, 7, dtype=torch.long),
                               labels=torch.from_numpy(data.labels))  # fmt: skip
    assert loss == pytest.approx(float(result.loss), rel=1e-5)
    assert accuracy == float((result.logits.argmax(-1).numpy() == data.labels).mean())


def test_progress_counts_samples_and_can_stop() -> None:
    held, told = case("mlp"), []
    listening = Context(held.store, progress=lambda *p: told.append(p))
    measure(held.build(), held.graph, split(), 10, listening)
    assert told == [(0, 23, "evaluating"), (10, 23, "evaluating"), (20, 23, "evaluating"), (23, 23, "evaluating")]

    def stop(done: int, total: int, text: str) -> None:
        raise Cancelled("stop")

    with pytest.raises(Cancelled):
        measure(held.build(), held.graph, split(), 10, Context(held.store, progress=stop))


def test_no_samples_give_no_division() -> None:
    held = case("mlp")
    assert measure(held.build(), held.graph, split(0), 10, context()).figures() == {}


# -- results


def test_class_scores_are_found() -> None:
    graph, a, b = case("mlp").graph, torch.zeros(2, 3), torch.ones(2, 4)
    assert logits_of({"loss": torch.tensor(1.0), "logits": b, "other": a}, graph) is b
    assert logits_of({"loss": torch.tensor(1.0), "scores": a}, graph) is a
    assert logits_of((torch.tensor(1.0), torch.zeros(2, 3, 4), b), graph) is b
    assert logits_of(a, graph) is a
    for nothing in ({"hidden": torch.zeros(2, 3, 4)}, (), torch.zeros(3), {}):
        with pytest.raises(GraphError, match="no scores of classes") as caught:
            logits_of(nothing, graph)
        assert "classification" in caught.value.hint


def test_more_classes_than_the_model_tells_apart() -> None:
    held = case("mlp")
    with pytest.raises(DataError, match="5 classes, the model 3"):
        measure(held.build(), held.graph, split(classes=5), 64, context())


def test_scores_of_another_shape() -> None:
    held = case("mlp")
    wide: Any = nn.Identity()
    wide.forward = lambda x: {"logits": x[:, None]}
    with pytest.raises(DataError, match="2 classes, the model"):
        measure(wide, held.graph, split(), 10, context())


# -- inputs


def of(*names: str) -> Split:
    return Split({n: np.zeros((2, 3)) for n in names}, np.zeros(2, np.int64))


def test_inputs_are_matched_by_name() -> None:
    text = of("input_ids", "attention_mask")
    assert match_inputs(["input_ids", "attention_mask", "labels"], text) == {n: n for n in text.inputs}
    assert match_inputs(["input_ids"], text) == {"input_ids": "input_ids"}
    assert match_inputs(["input_ids", "token_type_ids", "use_cache"], text) == {"input_ids": "input_ids"}


def test_a_lone_input_takes_a_lone_name() -> None:
    assert match_inputs(["pixel_values"], of("x")) == {"x": "pixel_values"}
    assert match_inputs(["image", "labels"], of("x")) == {"x": "image"}
    held, data = case("mlp"), split(name="features")
    built = held.build()
    one, other = (measure(built, held.graph, s, 23, context()).figures() for s in (data, split()))
    assert one == other


@pytest.mark.parametrize(
    "names, data, missing",
    [
        (["input_ids", "pixel_values"], ("input_ids", "attention_mask"), "pixel_values"),
        (["pixel_values"], ("input_ids", "attention_mask"), "pixel_values"),
        (["attention_mask"], ("x", "y"), "attention_mask"),
        (["a", "b"], ("x",), "a, b"),
    ],
)
def test_data_of_another_kind(names: list[str], data: tuple[str, ...], missing: str) -> None:
    with pytest.raises(DataError) as caught:
        match_inputs(names, of(*data))
    assert f"needs the input {missing};" in caught.value.message and ", ".join(data) in caught.value.message


# -- splits


def task(**labels: list[int]) -> TaskData:
    splits = {k: Split({"x": np.arange(len(v))}, np.array(v)) for k, v in labels.items()}
    return TaskData("made", "image", ("a", "b"), splits, {})


def test_the_test_split_is_the_default() -> None:
    data = task(train=[0], validation=[0, 1], test=[0, 1, 1])
    assert len(choose_split(data, "", 0)) == 3 and len(choose_split(data, "train", 0)) == 1
    assert len(choose_split(task(train=[0], validation=[0, 1]), "", 0)) == 2
    assert len(choose_split(task(only=[1, 1]), "", 0)) == 2
    with pytest.raises(DataError, match="no split 'tst'"):
        choose_split(data, "tst", 0)


def test_all_rows_of_lone_ones_and_of_all_splits() -> None:
    assert len(choose_split(task(all=[0, 1, 1, 0]), "", 0)) == 4
    data = task(train=[0], validation=[0, 1], test=[-1, -1, -1])
    assert choose_split(data, "all", 0).labels.tolist() == [0, 0, 1], "hidden labels are left out"


def test_hidden_labels_fall_back_on_validation() -> None:
    data = task(validation=[0, 1], test=[-1, -1, -1])
    assert len(choose_split(data, "", 0)) == 2 and len(choose_split(data, "test", 0)) == 3


def test_limits() -> None:
    data = task(test=[0, 1, 1, 0])
    assert choose_split(data, "", 3).labels.tolist() == [0, 1, 1]
    assert len(choose_split(data, "", 99)) == 4 and len(choose_split(data, "", 0)) == 4


# -- the pass


def test_without_data_it_says_so() -> None:
    with pytest.raises(DataError, match="no data to measure on") as caught:
        evaluate(case("mlp").graph, EvaluateOptions(), context())
    assert "demo:" in caught.value.hint


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return open_any("demo:digits-mlp", tmp_path_factory.mktemp("work"))


def test_a_demo_is_measured_whole(digits: Any) -> None:
    graph, options = digits.project.base, EvaluateOptions(digits.project.source.data, limit=200)
    after, report = evaluate(graph, options, Context(digits.store))
    assert after is graph and report.pass_name == "evaluate"
    found = report.summary
    assert found["n"] == 200 and 0.9 < found["accuracy"] <= 1 and 0 < found["loss"] < 0.5
    static = static_score(graph)
    assert all(found[k] == getattr(static, k) for k in ("size_bytes", "weight_bits", "bitops", "sparsity"))
    assert evaluate(graph, options, Context(digits.store))[1] == report


def test_compression_is_measured(digits: Any) -> None:
    """Two bits and nine tenths pruned cost accuracy; eight bits hardly do."""
    context, options = Context(digits.store), EvaluateOptions(digits.project.source.data, limit=200)

    def accuracy(*steps: Step) -> float:
        graph = replay(digits.project.base, Recipe(steps), context).graph
        return float(evaluate(graph, options, context)[1].summary["accuracy"])

    def quantised(width: int, frac: int) -> Step:
        return Step("quantize", QuantizeOptions((Rule(Select("type", ("linear",)), {"weight": Integer(width, frac)}),)))

    whole = accuracy()
    assert abs(accuracy(quantised(8, 6)) - whole) < 0.02
    assert accuracy(quantised(2, 0)) < whole - 0.1
    assert accuracy(Step("prune", PruneOptions(0.97, "random"))) < whole - 0.1


def test_options_come_from_text() -> None:
    from espalier.passes.recipes.config import decode_options

    assert decode_options("evaluate", {"data": "demo:digits", "limit": 5}) == EvaluateOptions("demo:digits", limit=5)


HALF = """
import torch
from torch import nn


def make():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10))
    return net.to(torch.{}).eval(), {{"input": torch.zeros(2, 1, 8, 8, dtype=torch.{})}}
"""


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_a_model_of_another_float_takes_images(dtype: str, tmp_path: Path) -> None:
    """Evaluated, calibrated and trained: the images come in the model's float."""
    source = tmp_path / "half.py"
    source.write_text(HALF.format(dtype, dtype))
    opened = open_any(f"{source}:make", tmp_path, origin=Origin.TYPED)
    graph, context = opened.project.graph, Context(opened.store, 0)
    told = evaluate(graph, EvaluateOptions(data="demo:digits", limit=20), context)[1].summary
    assert 0 <= told["accuracy"] <= 1 and told["loss"] > 0
    rule = Rule(Select(), {"data_in": Integer(8, 4), "weight": Integer(8, 4)})
    steps = (
        Step("quantize", QuantizeOptions((rule,))),
        Step("calibrate", CalibrateOptions(data="demo:digits", limit=20)),
        Step("finetune", FinetuneOptions(data="demo:digits", max_steps=2, learning_rate=0.01, keep="last")),
    )
    done = replay(graph, Recipe(steps), context)
    before, after = (graph.weights[w].key for graph in (graph, done.graph) for w in graph.weights if "4.weight" in w)
    assert before != after
