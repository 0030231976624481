"""Data that a model cannot take: what torch says of it is one sentence, and the hint the next."""

from __future__ import annotations

import pytest
import torch

from espalier.model.errors import DataError
from espalier.passes.running.batches import fit_error


@pytest.mark.parametrize("said", ["expected 3 channels, but got 1 instead", "index out of range."])
def test_what_torch_says_ends_as_a_sentence(said: str) -> None:
    with pytest.raises(DataError) as found, fit_error({"x": torch.zeros(2, 1)}):
        raise RuntimeError(said)
    assert found.value.message == f"The model cannot take this data (x 2 × 1): {said.rstrip('.')}."
