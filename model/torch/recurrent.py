"""Shapes of an LSTM's results from its operands: torch cannot run it on tensors of symbolic sizes."""

from __future__ import annotations

from typing import Any

from torch import Tensor

LSTM = "aten.lstm.input"


def lstm_results(
    x: Tensor, hx: list[Tensor], params: list[Tensor], biases: bool, layers: int, dropout: float, train: bool,
    bidirectional: bool, batch_first: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Empty tensors of the shapes that `torch.lstm` gives; raises ValueError for operands that do not fit.

    Args:
        x: (sequence, batch, features), or (batch, sequence, features) with `batch_first`.
        hx: first hidden state (layers × directions, batch, h) and cell state (layers × directions, batch, hidden).
        params: of each layer and direction; the first is (4 × hidden, features).
        biases: unused, as `dropout` and `train`: they change no shape.
        layers: one above the other.
        dropout: unused.
        train: unused.
        bidirectional: two directions, whose outputs stand side by side.
        batch_first: the order of the first two axes of `x`.

    Returns:
        The output (as x, directions × h) and the last two states, of the shapes of the first. h is the size of the
        projection where there is one, otherwise `hidden`.
    """
    hidden, cell = hx
    directions, features = 1 + bidirectional, params[0].shape[1]
    if x.dim() != 3 or x.shape[2] != features:
        raise ValueError(f"it takes {features} features, and its input has {x.shape[-1]}.")
    batch = x.shape[0 if batch_first else 1]
    for name, state in (("hidden", hidden), ("cell", cell)):
        if state.shape[0] != layers * directions or state.shape[1] != batch:
            raise ValueError(f"its {name} state is {_text(state)}, not {layers * directions} × {batch} × …")
    sizes: Any = (*x.shape[:2], directions * hidden.shape[2])
    return x.new_empty(sizes), hidden.new_empty(hidden.shape), cell.new_empty(cell.shape)


def _text(x: Tensor) -> str:
    return " × ".join(map(str, x.shape))
