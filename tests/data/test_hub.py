"""Data of the hub: splits and class names as published, no code from it, and a way out without a network."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from espalier.model import network
from espalier.model.data import prepare
from espalier.model.data.loading import load_data
from espalier.model.errors import DataError


def _published() -> Any:
    import datasets

    features = datasets.Features(
        {"sentence": datasets.Value("string"), "label": datasets.ClassLabel(names=["pos", "neg"])}
    )

    def part(labels: list[int]) -> Any:
        rows = {"sentence": [f"text {n}" for n in range(len(labels))], "label": labels}
        return datasets.Dataset.from_dict(rows, features=features)

    return datasets.DatasetDict(
        {"train": part([0, 1] * 10), "validation": part([1, 0]), "test": part([-1, -1]), "extra": part([0])}
    )


def test_class_names_and_splits(tokenizer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Any, dict[str, Any]]] = []

    def fake(*args: Any, **options: Any) -> Any:
        calls.append((args, options))
        return _published()

    monkeypatch.setattr("datasets.load_dataset", fake)
    data = load_data("hub:someone/some:part", tokenizer=tokenizer)
    assert calls == [(("someone/some", "part"), {})]  # never trust_remote_code
    assert set(data.splits) == {"train", "validation"}, "a test split of hidden labels is left out"
    wanted = {"text 0": "neg", "text 1": "pos"}
    found = zip(data.texts["validation"], data.split("validation").labels.tolist(), strict=True)
    assert {text: data.classes[label] for text, label in found} == wanted


@pytest.mark.parametrize(("fails", "told"), [
    (lambda e: e.DatasetNotFoundError("Dataset 'x' doesn't exist"), "the hub has no such data set, or you have no"),
    (lambda e: e.DataFilesNotFoundError("No (supported) data files found in x"), "data files found in x"),
    (lambda e: e.DatasetGenerationError("An error occurred while generating the dataset"), "while generating the"),
    (lambda e: PermissionError(13, "Permission denied", "/cache"), "Permission denied"),
    (lambda e: ConnectionResetError(104, "Connection reset by peer"), "Connection reset by peer"),
])  # fmt: skip
def test_a_failure_is_told_as_it_is(
    tokenizer: Path, monkeypatch: pytest.MonkeyPatch, fails: Callable[[Any], Exception], told: str
) -> None:
    import datasets

    def fail(*args: Any) -> Any:
        raise fails(datasets.exceptions)

    monkeypatch.setattr("datasets.load_dataset", fail)
    monkeypatch.setattr(network, "reachable", lambda endpoint: True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", False)
    with pytest.raises(DataError) as caught:
        load_data("hub:imdb", tokenizer=tokenizer)
    assert told in caught.value.message and caught.value.message.endswith(".")


@pytest.mark.parametrize(
    "error", [ConnectionError("no"), FileNotFoundError("no"), ValueError("no"), RuntimeError("no")]
)
def test_failures_name_the_local_way(tokenizer: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(*args: Any) -> Any:
        raise error

    monkeypatch.setattr("datasets.load_dataset", fail)
    with pytest.raises(DataError) as caught:
        load_data("hub:imdb", tokenizer=tokenizer)
    assert "demo:reviews" in caught.value.hint


def test_without_a_network_it_ends_at_once(tokenizer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "reachable", lambda endpoint: False)
    with pytest.raises(DataError, match="cannot be reached"):
        load_data("hub:nobody/nothing-at-all", tokenizer=tokenizer)


def test_texts_of_the_hub_are_tokenised_once(tokenizer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published = _published()
    monkeypatch.setattr("datasets.load_dataset", lambda *args: published)
    first = load_data("hub:someone/some", tokenizer=tokenizer)

    def refuse(source: object) -> None:
        raise AssertionError("tokenised again")

    monkeypatch.setattr(prepare, "open_tokenizer", refuse)
    assert load_data("hub:someone/some", tokenizer=tokenizer).texts == first.texts
    published = _published()
    published["train"] = published["train"].select(range(4))
    with pytest.raises(AssertionError):
        load_data("hub:someone/some", tokenizer=tokenizer)


def test_pictures_of_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets
    from PIL import Image

    features = datasets.Features({"img": datasets.Image(), "label": datasets.ClassLabel(names=["dark", "light"])})
    pictures = [Image.new("L", (6, 4), 255 * (n % 2)) for n in range(8)]
    part = datasets.Dataset.from_dict({"img": pictures, "label": [n % 2 for n in range(8)]}, features=features)
    monkeypatch.setattr("datasets.load_dataset", lambda *args: datasets.DatasetDict({"train": part, "test": part}))
    data = load_data("hub:someone/pictures")
    split = data.split("test")
    assert data.kind == "image" and data.classes == ("dark", "light") and split.inputs["x"].shape == (8, 1, 4, 6)
    assert (split.inputs["x"].mean(axis=(1, 2, 3)) == split.labels).all()


def test_a_hub_that_does_not_answer_is_given_up_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    network._LAST.clear()
    answers = threading.Event()
    monkeypatch.setattr(network, "TIMEOUT", 0.2)
    monkeypatch.setattr(network, "_responds", lambda endpoint: answers.wait())
    assert not network.reachable("https://hub.example"), "given up before it answers"
    answers.set()
    assert not network.reachable("https://hub.example"), "asked once, not again"
    network._LAST.clear()


def test_a_tokenizer_that_is_not_there_is_told_without_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(network, "reachable", lambda endpoint: False)
    tried: list[object] = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *_, **__: tried.append(host))
    with pytest.raises(DataError, match="cannot be reached"):
        load_data("demo:reviews", tokenizer="nobody/no-such-tokenizer")
    assert not tried
    assert constants.HF_HUB_OFFLINE is False
