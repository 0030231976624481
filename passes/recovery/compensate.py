"""The solver of GPTQ: one matrix, column by column, each column's error made good by those that follow."""

from __future__ import annotations

import torch
from torch import Tensor

from espalier.passes.recovery.columns import Columns

BLOCK = 128  # columns between two updates of all the rest (the paper's B)
_TRIES = 6  # tenfold dampings before the Hessian is given up


def compensated(
    matrix: Tensor, hessian: Tensor, columns: Columns, mask: Tensor | None, damping: float, by_activity: bool
) -> Tensor:
    """`matrix` [outputs, inputs] float32 in the format of `columns`, with a small ‖(W − Ŵ)X‖² for H = 2XXᵀ.

    H gets `damping` times its mean diagonal, then U = chol(H⁻¹) (upper). Column j: q = format(w_j), masked; e = (w_j −
    q)/U_jj; W_{:,j+1:} −= e·U_{j,j+1:}; by blocks of columns as in Frantar et al. 2023, algorithm 1. `by_activity`:
    columns in order of falling H_jj, under the scales of the matrix as it was. A column that no input reaches is
    rounded.
    """
    order = hessian.diagonal().argsort(descending=True, stable=True) if by_activity else torch.arange(len(hessian))
    upper = _factor(hessian[order][:, order], damping)
    work, found = matrix[:, order].clone(), torch.zeros_like(matrix)
    group = 0 if by_activity else columns.group
    step = group * max(1, BLOCK // group) if group else BLOCK
    kept = None if mask is None else mask[:, order]
    for first in range(0, work.shape[1], step):
        last = min(first + step, work.shape[1])
        errors = torch.zeros(work.shape[0], last - first)
        for j in range(first, last):
            if group and j % group == 0:
                columns.begin(j, work)
            q = columns.at(int(order[j]), work[:, j])
            q = q if kept is None else q * kept[:, j]
            found[:, order[j]] = q
            errors[:, j - first] = (work[:, j] - q) / upper[j, j]
            work[:, j + 1 : last] -= torch.outer(errors[:, j - first], upper[j, j + 1 : last])
        work[:, last:] -= errors @ upper[first:last, last:]
    return found


def _factor(hessian: Tensor, damping: float) -> Tensor:
    """The upper Cholesky factor of the inverse, float32, from float64; more damping where it needs it."""
    diagonal = hessian.diagonal()
    mean = float(diagonal.mean()) or 1.0
    # What no input reaches has a zero row, which would make H singular; the paper sets its diagonal to 1.
    sound = hessian.double() + torch.diag(torch.where(diagonal == 0, 1.0, 0.0).double())
    for tried in range(_TRIES):
        damped = sound + torch.eye(len(sound), dtype=torch.float64) * (damping * 10.0**tried * mean)
        lower, failed = torch.linalg.cholesky_ex(damped)
        if not failed:
            inverse, failed = torch.linalg.cholesky_ex(torch.cholesky_inverse(lower), upper=True)
            if not failed and bool(inverse.isfinite().all()):
                return inverse.float()
    return torch.eye(len(sound))


def output_error(hessian: Tensor, difference: Tensor) -> float:
    """‖D·X‖² of a difference of weights [outputs, inputs], from H = 2XXᵀ; float64."""
    wide = difference.double()
    return float(((wide @ hessian.double()) * wide).sum() / 2)
