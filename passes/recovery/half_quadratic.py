"""Half-quadratic quantisation: zero points with a small l_p norm of the error (p < 1), from weights alone."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

MAX_INVERSE = 2e4  # of a scale, as in the authors' code, which computes in half precision
FLAT = 1e-4  # range below which a group has a scale of 1


@dataclass(frozen=True, slots=True)
class Solver:
    """The authors' constants: p of the norm, β and its factor κ for each of `iterations` rounds."""

    lp_norm: float = 0.7
    beta: float = 10.0
    kappa: float = 1.01
    iterations: int = 20


def shrunk(x: Tensor, beta: float, lp_norm: float) -> Tensor:
    """sign(x)·max(|x| − |x|^(p−1)/β, 0): the proximal operator of the l_p norm (Badri & Shaji 2023, equation 4)."""
    magnitude = x.abs()
    return x.sign() * (magnitude - magnitude.pow(lp_norm - 1) / beta).clamp(min=0)


def optimised(groups: Tensor, top: int, solver: Solver) -> tuple[Tensor, Tensor, float, float]:
    """(1/s, z) [groups, 1] of `groups` [groups, elements] and the mean |w − ŵ| before and after, ŵ = (q − z)·s.

    q = clip(rne(w/s + z), 0, top). Each round shrinks the error, e = shrink(w − ŵ, β), and takes the mean of q − (w −
    e)/s in each group as z; it ends where the mean error of all groups grows, with the z before.
    """
    low, high = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
    inverse = torch.where(high - low <= FLAT, 1.0, top / (high - low)).clamp(max=MAX_INVERSE)
    zero, beta = -low * inverse, solver.beta
    best, first = (zero, float("inf")), 0.0
    for i in range(solver.iterations):
        codes = torch.round(groups * inverse + zero).clamp(0, top)
        value = (codes - zero) / inverse
        error = float((groups - value).abs().mean())
        first = first if i else error
        if error >= best[1]:
            break
        best = zero, error
        rest = shrunk(groups - value, beta, solver.lp_norm)
        zero = (codes - (groups - rest) * inverse).mean(-1, keepdim=True)
        beta *= solver.kappa
    return inverse, best[0], first, best[1]
