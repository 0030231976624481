"""Tasks made of functions: in every call that takes data, on labels of a task and on labels of any kind."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import espalier as es
from espalier.model.errors import DataError, ExportError, GraphError, OptionsError, PassError
from espalier.passes.tasks.base import TASKS, all_metrics
from espalier.passes.tasks.tally import Tally


class Net(torch.nn.Module):
    """Two layers with `width` outputs; `several`: also the hidden values."""

    def __init__(self, width: int, several: bool = False) -> None:
        super().__init__()
        self.first, self.last, self.several = torch.nn.Linear(5, 16), torch.nn.Linear(16, width), several

    def forward(self, x: torch.Tensor) -> Any:
        hidden = self.first(x).tanh()
        return (hidden, self.last(hidden)) if self.several else self.last(hidden)


def model(width: int, several: bool = False) -> Any:
    torch.manual_seed(0)
    return es.trace(Net(width, several), torch.randn(3, 5))


def arrays(count: int = 96) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Inputs, and three numbers a sample, which no task takes."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, 5)).astype(np.float32)
    return x, np.stack([x[:, 0] - x[:, 1], x[:, 2], 2 * x[:, 3]], 1)


def huber(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.huber_loss(outputs, labels)


def worst(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return (outputs - labels).abs().max()


def macro(outputs: torch.Tensor, labels: torch.Tensor) -> float:
    """Mean recall of the classes, which is no mean over samples."""
    right = outputs.argmax(-1) == labels
    return float(torch.stack([right[labels == c].float().mean() for c in labels.unique()]).mean())


@pytest.mark.slow
def test_a_loss_and_metrics_on_labels_of_any_kind() -> None:
    m, (x, y) = model(3), arrays()
    task = es.Task(loss=huber, metrics={"worst": worst}, better="low")
    report = m.score((x, y), task=task)
    outputs = m.to_torch()(torch.from_numpy(x)).detach()
    labels = torch.from_numpy(y).float()
    assert report.worst == pytest.approx(float(worst(outputs, labels)), rel=1e-6)
    assert report.loss == pytest.approx(float(F.huber_loss(outputs, labels)), rel=1e-5)
    low, high = report.interval
    assert low < high and report.summary["metric"] == "worst" and report.n == 96
    assert m.evaluate((x, y), task=task).worst == report.worst
    assert m.evaluate((x, y), metric=worst).worst == pytest.approx(report.worst, rel=1e-6)


@pytest.mark.slow
def test_a_training_follows_the_function_and_says_that_no_file_holds_it() -> None:
    m, (x, y) = model(3), arrays(320)
    m.quantize("linear", weight="integer(width=4)")
    before = m.score((x, y), loss=huber).loss
    m.finetune(data=(x, y), loss=huber, metric=worst, epochs=20, learning_rate=2e-2)
    after = m.score((x, y), loss=huber).loss
    assert after < 0.5 * before
    found = m.run("finetune", data=(x, y), loss=huber, max_steps=1)
    assert found is m


@pytest.mark.slow
def test_the_weights_are_those_of_torch() -> None:
    """One step of SGD with the function equals torch's on the same batch."""
    m, (x, y) = model(3), arrays(16)
    net = m.to_torch()
    m.finetune(data={"train": (x, y)}, loss=huber, validate=False, max_steps=1, batch_size=16, optimiser="sgd",
               momentum=0.0, learning_rate=0.1, clip=0.0, schedule="constant")  # fmt: skip
    F.huber_loss(net(torch.from_numpy(x)), torch.from_numpy(y).float()).backward()
    wanted = [p.detach() - 0.1 * p.grad for p in net.parameters() if p.grad is not None]
    for mine, theirs in zip(m.to_torch().parameters(), wanted, strict=True):
        assert torch.allclose(mine, theirs, atol=1e-6)


def test_metrics_of_classes_keep_those_of_the_task() -> None:
    m, (x, y) = model(3), arrays()
    classes = y.argmax(1)
    report = m.score((x, classes), metric=macro)
    plain = m.score((x, classes))
    assert report.accuracy == plain.accuracy and report.loss == pytest.approx(plain.loss)
    assert report.summary["metric"] == "macro" and report.macro != report.accuracy
    weighted = m.score((x, classes), loss=lambda out, y: F.cross_entropy(out, y, label_smoothing=0.1))
    assert weighted.accuracy == plain.accuracy and weighted.loss > 0 and weighted.guessing == plain.guessing


def test_a_tally_of_batches_gets_all_samples() -> None:
    functions = es.Task(metrics=macro)
    task = TASKS.get(f"{functions.name}:classification")
    scores, labels = torch.randn(20, 3), torch.arange(20) % 3
    tally = Tally(task)
    for at in range(0, 20, 7):
        tally.add(scores[at : at + 7], labels[at : at + 7])
    assert tally.figures()["macro"] == pytest.approx(macro(scores, labels))


@pytest.mark.slow
def test_every_consumer_takes_it() -> None:
    m, (x, y) = model(3), arrays()
    task, data = es.Task(metrics={"off": worst}, better={"off": "low"}), (x, y)
    table = m.sensitivity(data, formats=["int4"], ports=["weight"], exact=True, task=task)
    assert all(np.isfinite(row["off"]) for row in table.rows)
    space = [{"values": "integer(width=2|8)", "select": {"by": "type", "values": ["linear"]}}]
    study = m.search({"space": space, "within": ["weight_bits<=9", "off<=100"]}, data, trials=3, task=task)
    assert study.off == min(row["off"] for row in study.rows if row["feasible"])
    curve = m.sweep({"prune.sparsity": [0.5, 0.9]}, data, recipe={"prune": {}}, task=task)
    assert [row["off"] for row in curve.rows if row["off"] is not None]
    m.prune("linear", sparsity=0.3, method="snip", data=data, loss=huber)
    m.lora("linear", rank=2).finetune(data=data, loss=huber, distil=0.5, max_steps=2)


def test_the_result_is_named_where_there_are_several() -> None:
    m, (x, y) = model(3, several=True), arrays()
    with pytest.raises(GraphError, match="2 results"):
        m.score((x, y), loss=huber)
    outputs = m.to_torch()(torch.from_numpy(x))[1].detach()
    task = es.Task(loss=huber, output="1")
    report = m.score((x, y), task=task)
    assert report.loss == pytest.approx(float(huber(outputs, torch.from_numpy(y).float())), rel=1e-5)
    n = m.copy().quantize("linear", weight="integer(width=2)")
    assert n.score((x, y), task=task).summary["baseline"] == "opened"
    m.finetune(data=(x, y), task=task, epochs=5, learning_rate=2e-2)
    assert m.score((x, y), task=task).loss < report.loss


@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        ({"loss": lambda out, y: (out - y).square().mean(1)}, PassError, "not a tensor with one number"),
        ({"loss": lambda out, y: (out - y).detach().square().mean()}, PassError, "without a gradient"),
        ({"metric": lambda out, y: out, "loss": huber}, PassError, "not a number"),
        ({"loss": 3}, OptionsError, "not a function"),
    ],
)
def test_functions_that_return_something_else(given: dict[str, Any], error: type[Exception], told: str) -> None:
    m, data = model(3), arrays()
    with pytest.raises(error, match=told):
        m.finetune(data=data, max_steps=1, **given)


def test_names_that_are_taken() -> None:
    for name in ("loss", "kl", "size_bytes", "a b"):
        with pytest.raises(OptionsError, match="cannot be called"):
            es.Task(metrics={name: worst})
    with pytest.raises(OptionsError, match="neither"):
        es.Task()
    assert es.Task(metrics={"mae": worst}).metrics[0].better == "low"  # as the built-in metric
    with pytest.raises(OptionsError, match="takes no loss"):
        model(3).run("graph", loss=huber)


def test_labels_that_are_missing() -> None:
    m, (x, _) = model(3), arrays()
    with pytest.raises(DataError, match="no labels"):
        m.score(x, loss=huber)


def test_functions_end_with_their_models() -> None:
    m, data = model(3), arrays()

    def only_here(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return worst(outputs, labels)

    m.finetune(data=data, loss=huber, metric=only_here, max_steps=1)
    assert "only_here" in all_metrics()
    del m
    gc.collect()
    assert "only_here" not in all_metrics()


@pytest.mark.slow
def test_a_script_and_another_process_refuse_it(tmp_path: Path) -> None:
    m = es.open("demo:digits")
    m.finetune(data="demo:digits", loss=F.cross_entropy, max_steps=1)
    m.save(tmp_path / "m.espalier")
    with pytest.raises(ExportError, match="loss or metric"):
        m.export("script", tmp_path / "again.py")
    task = m.recipe.to_dict()["steps"][0]["options"]["task"]
    code = f"""
import espalier as es
m = es.open({str(tmp_path / "m.espalier")!r})
print(len(m.recipe.rows))
try:
    m.evaluate("demo:digits", task={task!r})
except es.EspalierError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.startswith("1\n") and "another Python program" in done.stdout and "plug-in" in done.stdout
