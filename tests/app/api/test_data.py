"""The data that the Python interface takes, held against a plain loop; and what does not fit."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

import espalier as es
from espalier.model.data import memory, recent
from espalier.model.errors import DataError
from tests.app.api.nets import CLASSES, FEATURES, N, Net, by_torch


def xy_forms(x: torch.Tensor, y: torch.Tensor) -> dict[str, Callable[[], Any]]:
    class Mapped(Dataset[Any]):
        """Raises nothing past its end, so that only its length tells it."""

        def __len__(self) -> int:
            return len(x)

        def __getitem__(self, i: int) -> Any:
            return {"x": x[i % N].numpy(), "label": int(y[i % N])}

    pairs = TensorDataset(x, y)
    return {
        "tensors": lambda: (x, y),
        "arrays": lambda: (x.double().numpy(), y.numpy().astype(np.uint8)),
        "lists": lambda: (x.tolist(), y.tolist()),
        "a column of labels": lambda: (x, y[:, None]),
        "a dict of arrays": lambda: {"x": x, "labels": y},
        "another name of the one input": lambda: {"features": x, "y": y},
        "a dataset": lambda: pairs,
        "a dataset of dicts": Mapped,
        "a loader": lambda: DataLoader(pairs, batch_size=8),
        "a generator of samples": lambda: ((a, int(b)) for a, b in pairs),
        "a generator of batches": lambda: ((x[i : i + 7], y[i : i + 7]) for i in range(0, N, 7)),
        "a generator of dicts": lambda: ({"x": a, "target": b} for a, b in pairs),
        "a list of pairs": lambda: list(zip(x.numpy(), y.tolist(), strict=True)),
        "a named split": lambda: {"test": (x, y)},
    }


@pytest.mark.parametrize("form", xy_forms(torch.zeros(N, 1), torch.zeros(N)))
def test_all_forms_of_data_give_what_a_plain_loop_gives(
    m: es.Model, net: Net, xy: tuple[torch.Tensor, torch.Tensor], form: str
) -> None:
    found = m.evaluate(xy_forms(*xy)[form]())
    accuracy, loss = by_torch(net, *xy)
    assert found.n == N and found.accuracy == accuracy
    assert found.loss == pytest.approx(loss, rel=1e-5)


def test_an_endless_generator_ends_at_the_limit(m: es.Model, xy: tuple[torch.Tensor, torch.Tensor]) -> None:
    x, y = xy
    assert m.evaluate(((x[i % N], y[i % N]) for i in itertools.count()), limit=40).n == 40
    assert m.evaluate(((x[:16], y[:16]) for _ in itertools.count()), limit=40, metric=len_of).len_of == 40


def len_of(out: torch.Tensor, labels: torch.Tensor) -> int:
    assert len(out) == len(labels)
    return len(out)


def test_a_metric_takes_any_labels(m: es.Model, net: Net, xy: tuple[torch.Tensor, torch.Tensor]) -> None:
    x, _ = xy
    wish = torch.randn(N, CLASSES)

    def error(out: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return (out - labels).abs().mean()

    with torch.no_grad():
        expected = float(error(net(x), wish))
    assert m.evaluate((x, wish), metric=error).error == pytest.approx(expected)
    loader = DataLoader(TensorDataset(x, wish), batch_size=10)
    assert m.evaluate(loader, metric=error, batch_size=7)["error"] == pytest.approx(expected)
    assert m.evaluate(x, metric=lambda out, y: {"rows": len(out), "labels": y}).labels is None


@pytest.mark.slow
def test_texts_are_tokenised_as_files_are(tmp_path: Path) -> None:
    m = es.open("demo:reviews")
    rows = [
        ("a fine film", "positive"),
        ("not good at all", "negative"),
        ("bad", "negative"),
        ("great", "positive"),
    ] * 4
    file = tmp_path / "reviews.csv"
    file.write_text("text,label\n" + "".join(f"{t},{c}\n" for t, c in rows))
    expected = m.evaluate(file)
    assert expected.n == len(rows)
    for data in ([{"text": t, "label": c} for t, c in rows], rows, tuple(map(list, zip(*rows, strict=True)))):
        found = m.evaluate(data)
        assert (found.accuracy, found.n) == (expected.accuracy, expected.n)
        assert found.loss == pytest.approx(expected.loss, rel=1e-5)


@pytest.mark.slow
def test_arrays_train_and_are_let_go(traced: es.Model, xy: tuple[torch.Tensor, torch.Tensor]) -> None:
    x = torch.cat([xy[0]] * 3)
    y, own = (x[:, 0] > 0).long(), traced.copy()
    before = own.score((x, y)).accuracy
    own.finetune(data={"train": (x[:120], y[:120]), "validation": (x[120:], y[120:])}, epochs=20, learning_rate=0.02)
    name = own.recipe.rows[0]["options"]["data"]
    after = own.score((x, y))
    assert after.accuracy > max(before, 0.9) and after.accuracy_change == pytest.approx(after.accuracy - before)
    assert name.startswith(memory.PREFIX) and own.evaluate(name).accuracy > 0.9
    del own
    gc.collect()
    recent.forget()  # the data sets that were used last stay in memory
    with pytest.raises(DataError, match="arrays of another Python program"):
        traced.evaluate(name)


X = torch.zeros(10, FEATURES)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ((X[:, :4], [0] * 10), f"x is 10 × 4; the model takes batch × {FEATURES}"),
        ((X[:, :, None], [0] * 10), f"x is 10 × {FEATURES} × 1; the model takes"),
        ((X, [0] * 9), "x has 10 samples, labels has 9"),
        ((X, [0.5] * 10), "labels are float.*not a class number"),
        ((X, [7] * 10), "8 classes, the model 3"),
        (X, "have no labels"),
        ((["a", "b"], [0, 1]), "texts, and the model has no tokenizer"),
        ({"z": X, "w": X}, "The model takes x; the data hold z, w"),
        ([], "no samples"),
        (7, "int is not a supported type of data"),
        ([(X[0], 1), (X[0, :4], 1)], "x is 1 × 4; the model takes"),
        ((np.array([["a"] * FEATURES] * 10), [0] * 10), "not numbers"),
        ("nowhere.csv", "There are no data at nowhere.csv"),
    ],
)  # fmt: skip
def test_data_that_do_not_fit_are_one_clear_error(m: es.Model, data: Any, text: str) -> None:
    with pytest.raises(DataError, match=text):
        m.evaluate(data)
