"""The solver of GPTQ: rounds a matrix column by column, and corrects later columns for each column's error."""

from __future__ import annotations

import torch
from torch import Tensor

from espalier.passes.recovery.columns import Columns

BLOCK = 128  # columns between two updates of all later ones (the paper's B)
_ATTEMPTS = 6  # with tenfold damping each, after which the Hessian is replaced by the identity


def compensated(
    matrix: Tensor, hessian: Tensor, columns: Columns, mask: Tensor | None, damping: float, by_activity: bool
) -> Tensor:
    """`matrix` [outputs, inputs] float32 rounded to the format of `columns`, with a small ‖(W − Ŵ)X‖² for H = 2XXᵀ.

    H gets `damping` times its mean diagonal, then U = chol(H⁻¹) (upper). Column j: q = format(w_j), masked; e = (w_j −
    q)/U_jj; W_{:,j+1:} −= e·U_{j,j+1:}; by blocks of columns as in Frantar et al. 2023, algorithm 1. `by_activity`:
    columns in order of decreasing H_jj, under the scales of the original matrix. A column without input is rounded
    plainly.
    """
    order = hessian.diagonal().argsort(descending=True, stable=True) if by_activity else torch.arange(len(hessian))
    upper = _factor(hessian[order][:, order], damping)
    work, result = matrix[:, order].clone(), torch.zeros_like(matrix)
    group = 0 if by_activity else columns.group
    step = group * max(1, BLOCK // group) if group else BLOCK
    masked = None if mask is None else mask[:, order]
    for first in range(0, work.shape[1], step):
        last = min(first + step, work.shape[1])
        errors = torch.zeros(work.shape[0], last - first)
        for j in range(first, last):
            if group and j % group == 0:
                columns.begin(j, work)
            q = columns.at(int(order[j]), work[:, j])
            q = q if masked is None else q * masked[:, j]
            result[:, order[j]] = q
            errors[:, j - first] = (work[:, j] - q) / upper[j, j]
            work[:, j + 1 : last] -= torch.outer(errors[:, j - first], upper[j, j + 1 : last])
        work[:, last:] -= errors @ upper[first:last, last:]
    return result


def _factor(hessian: Tensor, damping: float) -> Tensor:
    """The upper Cholesky factor of the inverse, float32, computed in float64, with more damping if necessary."""
    diagonal = hessian.diagonal()
    mean = float(diagonal.mean()) or 1.0
    # An input that is always 0 has a zero row, which would make H singular; the paper sets its diagonal to 1.
    regular = hessian.double() + torch.diag(torch.where(diagonal == 0, 1.0, 0.0).double())
    for attempt in range(_ATTEMPTS):
        damped = regular + torch.eye(len(regular), dtype=torch.float64) * (damping * 10.0**attempt * mean)
        lower, failed = torch.linalg.cholesky_ex(damped)
        if not failed:
            inverse, failed = torch.linalg.cholesky_ex(torch.cholesky_inverse(lower), upper=True)
            if not failed and bool(inverse.isfinite().all()):
                return inverse.float()
    return torch.eye(len(regular))


def output_error(hessian: Tensor, difference: Tensor) -> float:
    """‖D·X‖² of a difference of weights [outputs, inputs], from H = 2XXᵀ; float64."""
    wide = difference.double()
    return float(((wide @ hessian.double()) * wide).sum() / 2)
