"""A weight's gradients of all passes, projected on the few directions that span nearly all of them.

An error is projected on these directions only; the remainder is added to the squares.
"""

from __future__ import annotations

import threading
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from espalier.model.formats.independent_rows import independent_rows
from espalier.passes.sensitivity.gradient_statistics import Floats, LowRank

if TYPE_CHECKING:
    from espalier.passes.sensitivity.port_predictor import Replacement, Signed

BLOCK = 1 << 18  # elements of a stored weight that are processed together
REMAINDER = 0.05  # maximum share of the gradients' squares outside the directions
STEP = 8  # the number of directions is a multiple, for fast matrix products


@dataclass(frozen=True, slots=True)
class ProjectedGradients:
    """The gradient of a pass is Σ other ⊗ (inner · basis), over its rank.

    basis: [directions, inputs]; inner: [passes · rank, directions]; other: [passes · rank, outputs]; inputs and outputs
    exchanged if `turned`. rows, columns: as in `LowRank`, including the remainder of the basis.
    """

    basis: Tensor
    inner: Tensor
    other: Tensor
    rows: Tensor
    columns: Tensor
    passes: int
    turned: bool


def project_gradients(piece: LowRank) -> ProjectedGradients:
    """Project on the side that needs fewer directions."""
    passes, outputs, rank = piece.left.shape
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about read-only arrays, which are not written
        left = torch.from_numpy(piece.left).transpose(1, 2).reshape(passes * rank, outputs)
        right = torch.from_numpy(piece.right).reshape(passes * rank, -1)
        rows, columns = torch.from_numpy(piece.rows), torch.from_numpy(piece.columns)
    squares = left.square().sum(1), right.square().sum(1)
    mass = float(rows.sum())
    spare = REMAINDER * (float(squares[0] @ squares[1]) + passes * mass)
    of_inputs, of_outputs = _directions(right, squares[0], spare), _directions(left, squares[1], spare)
    turned = len(of_outputs) < len(of_inputs)
    basis, met, other, weights = (
        (of_outputs, left, right, squares[1]) if turned else (of_inputs, right, left, squares[0])
    )
    inner = met @ basis.T
    left_out = torch.addmm(met, inner, basis, alpha=-1).square_()
    along, across = weights @ left_out / passes, left_out.sum(1) @ other.square() / passes
    rows, columns = (rows + along, columns * mass + across) if turned else (rows + across, columns * mass + along)
    return ProjectedGradients(basis, inner, other, rows, columns / columns.sum().clamp(min=1e-38), passes, turned)


def _directions(vectors: Tensor, weights: Tensor, spare: float) -> Tensor:
    """The fewest orthonormal directions whose remainder has squares of at most `spare`."""
    scaled = vectors.double() * weights.double().sqrt()[:, None]
    values, turns = torch.linalg.eigh(scaled @ scaled.T)
    known = int((values > values[-1] * 1e-9).sum()) if values[-1] > 0 else 0
    needed = int((values.cumsum(0) > spare).sum())
    count = min(-(-max(needed, 1) // STEP) * STEP, known)
    kept = turns[:, len(values) - count :] / values[len(values) - count :].sqrt()
    return (kept.T @ scaled).float()


_OWN = threading.local()


def _buffer(shape: tuple[int, int]) -> Tensor:
    """A reused buffer of the thread, which avoids page faults."""
    buffer: Tensor | None = getattr(_OWN, "buffer", None)
    if buffer is None or buffer.numel() < shape[0] * shape[1]:
        buffer = _OWN.buffer = torch.empty(shape[0] * shape[1])
    return buffer[: shape[0] * shape[1]].view(shape)


def projected_effect(piece: ProjectedGradients, given: Replacement, x: Floats) -> tuple[Signed, float, float]:
    """(signed effect of each pass, rows · error² · columns, Σ error²) of the replacement of `x`.

    Processed in blocks, so that an error is still in the processor's cache when it is projected; rows are rounded in
    blocks too if the format allows it.
    """
    weights = torch.stack([piece.rows, torch.ones_like(piece.rows)])
    turned = torch.zeros((len(piece.basis), x.shape[1]) if piece.turned else (len(x), len(piece.basis)))
    squares = torch.zeros(2, x.shape[1])
    step = independent_rows(given.format) if given.format is not None and given.alone else 0
    fmt = given.format if step else None
    whole = given.start if step else given.values()
    count = -(-(BLOCK // max(x.shape[1], 1) + 1) // max(step, 1)) * max(step, 1)
    errors = _buffer((min(count, len(x)), x.shape[1]))
    array = errors.numpy()
    for first in range(0, len(x), count):
        some = slice(first, min(first + count, len(x)))
        block, error = array[: some.stop - first], errors[: some.stop - first]
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
