"""Errors of labels that are no classes or targets name what they hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import espalier as es
from espalier.model.errors import DataError
from espalier.passes.tasks.unfit_labels import unfit_labels

NAN = float("nan")


@pytest.mark.parametrize(
    ("labels", "message", "hint"),
    [
        ([-1, 0, 1, -1], "2 of 4 labels are negative (−1).", "here 0 to 2 in place of −1 to 1"),
        ([-5, -4, -3, -2, 7], "4 of 5 labels are negative (−5, −4, −3, …).", "0 to 12 in place of −5 to 7"),
        ([1.0, NAN, NAN], "2 of 3 targets are not finite numbers (NaN).", "Remove these samples"),
        ([float("inf"), 1.0], "1 of 2 targets are not finite numbers (inf).", "Remove these samples"),
    ],
)
def test_labels_are_named_with_their_numbers(labels: list[Any], message: str, hint: str) -> None:
    error = unfit_labels(np.array(labels))
    assert error is not None and error.message == message and hint in error.hint


@pytest.mark.parametrize("labels", [[-1, -1, -1], [[1, -100], [-100, 2]]])
def test_hidden_labels_are_not_wrong(labels: list[Any]) -> None:
    assert unfit_labels(np.array(labels)) is None


@pytest.mark.slow
def test_scores_and_trainings_say_what_is_wrong() -> None:
    x = torch.randn(60, 6, generator=torch.Generator().manual_seed(0))
    model, y = es.trace(nn.Linear(6, 3), x[:4]), torch.arange(60) % 3 - 1
    for use in (lambda: model.score((x, y)), lambda: model.finetune(data=(x, y), epochs=1)):
        with pytest.raises(DataError, match=r"(20 of 60|16 of 48) labels are negative \(−1\)"):
            use()
    with pytest.raises(DataError, match="no labels to compare with"):
        model.score((x, y * 0 - 1))
    with pytest.raises(DataError, match=r"60 of 60 targets are not finite numbers \(NaN\)"):
        es.trace(nn.Linear(6, 1), x[:4]).score((x, torch.full((60,), NAN)))
