"""Data of the hub: splits and class names as published, no code from it, and a way out without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from model.data import hub
from model.data.base import load_data
from model.errors import DataError


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
    monkeypatch.setattr(hub, "_reachable", lambda endpoint: False)
    with pytest.raises(DataError, match="can it be reached"):
        load_data("hub:nobody/nothing-at-all", tokenizer=tokenizer)
