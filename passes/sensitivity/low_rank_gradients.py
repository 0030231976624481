"""A weight's gradients of all passes at once: few directions of one side span nearly all of them, so an error is turned
into these alone, and what is left out goes with what is known by squares.
"""

from __future__ import annotations

import threading
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from espalier.model.formats.together import rows_together
from espalier.passes.sensitivity.evidence import Floats, Low

if TYPE_CHECKING:
    from espalier.passes.sensitivity.subject import Given, Signed

BLOCK = 1 << 18  # elements of a stored weight that are looked at together
LEFT_OUT = 0.05  # of the gradients' squares, what may be known as squares alone
STEP = 8  # directions go by eights, as products do


@dataclass(frozen=True, slots=True)
class Thin:
    """The gradient of a pass is Σ other ⊗ (inner · basis), over its rank.

    basis: [directions, inputs]; inner: [passes · rank, directions]; other: [passes · rank, outputs]; where `turned`,
    inputs and outputs change places. rows, columns: as of `Low`, with what the basis leaves out.
    """

    basis: Tensor
    inner: Tensor
    other: Tensor
    rows: Tensor
    columns: Tensor
    passes: int
    turned: bool


def thinned(piece: Low) -> Thin:
    """By the side that needs fewer directions."""
    passes, outputs, rank = piece.left.shape
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of arrays that may not be written: none is
        left = torch.from_numpy(piece.left).transpose(1, 2).reshape(passes * rank, outputs)
        right = torch.from_numpy(piece.right).reshape(passes * rank, -1)
        rows, columns = torch.from_numpy(piece.rows), torch.from_numpy(piece.columns)
    squares = left.square().sum(1), right.square().sum(1)
    mass = float(rows.sum())
    spare = LEFT_OUT * (float(squares[0] @ squares[1]) + passes * mass)
    of_inputs, of_outputs = _directions(right, squares[0], spare), _directions(left, squares[1], spare)
    turned = len(of_outputs) < len(of_inputs)
    basis, met, other, weights = (
        (of_outputs, left, right, squares[1]) if turned else (of_inputs, right, left, squares[0])
    )
    inner = met @ basis.T
    left_out = torch.addmm(met, inner, basis, alpha=-1).square_()
    along, across = weights @ left_out / passes, left_out.sum(1) @ other.square() / passes
    rows, columns = (rows + along, columns * mass + across) if turned else (rows + across, columns * mass + along)
    return Thin(basis, inner, other, rows, columns / columns.sum().clamp(min=1e-38), passes, turned)


def _directions(vectors: Tensor, weights: Tensor, spare: float) -> Tensor:
    """As few orthonormal directions as leave out squares of at most `spare` in all."""
    scaled = vectors.double() * weights.double().sqrt()[:, None]
    values, turns = torch.linalg.eigh(scaled @ scaled.T)
    known = int((values > values[-1] * 1e-9).sum()) if values[-1] > 0 else 0
    needed = int((values.cumsum(0) > spare).sum())
    count = min(-(-max(needed, 1) // STEP) * STEP, known)
    kept = turns[:, len(values) - count :] / values[len(values) - count :].sqrt()
    return (kept.T @ scaled).float()


_OWN = threading.local()


def _room(shape: tuple[int, int]) -> Tensor:
    """A thread's own, whose pages are there already: as long as it asks for one size."""
    kept: Tensor | None = getattr(_OWN, "room", None)
    if kept is None or kept.numel() < shape[0] * shape[1]:
        kept = _OWN.room = torch.empty(shape[0] * shape[1])
    return kept[: shape[0] * shape[1]].view(shape)


def met(piece: Thin, given: Given, x: Floats) -> tuple[Signed, float, float]:
    """(signed effect of each pass, rows · error² · columns, Σ error²) of what stands instead of `x`.

    Block by block, so that an error is still in the processor's cache when it meets the basis; where a format lets it,
    rows are rounded so as well.
    """
    weights = torch.stack([piece.rows, torch.ones_like(piece.rows)])
    turned = torch.zeros((len(piece.basis), x.shape[1]) if piece.turned else (len(x), len(piece.basis)))
    squares = torch.zeros(2, x.shape[1])
    step = rows_together(given.format) if given.format is not None and given.alone else 0
    fmt = given.format if step else None
    whole = given.start if step else given.values()
    count = -(-(BLOCK // max(x.shape[1], 1) + 1) // max(step, 1)) * max(step, 1)
    errors = _room((min(count, len(x)), x.shape[1]))
    held = errors.numpy()
    for first in range(0, len(x), count):
        some = slice(first, min(first + count, len(x)))
        block, error = held[: some.stop - first], errors[: some.stop - first]
        q = given.rounded(fmt, given.start[some]) if fmt is not None else whole[some]
        np.subtract(q, x[some], out=block)
        if piece.turned:
            turned.addmm_(piece.basis[:, some], error)
        else:
            torch.mm(error, piece.basis.T, out=turned[some])
        squares.addmm_(weights[:, some], error.square_())
    each = torch.mm(piece.other, turned.T if piece.turned else turned).mul_(piece.inner).sum(1)
    sums = each.double().reshape(piece.passes, -1).sum(1)
    return sums.numpy(), float(squares[0] @ piece.columns), float(squares[1].sum())
