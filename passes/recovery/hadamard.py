"""Orthogonal matrices with entries of one magnitude, and random ones where no such matrix is known by construction."""

from __future__ import annotations

import math
from functools import cache

import torch
from torch import Tensor

MAX_ORDER = 1024  # of the factor that is no power of two


def random_rotation(size: int, seed: int) -> tuple[Tensor, str]:
    """(Q [size, size] float64 orthogonal, its kind): diag(±1)·H/√size, signs drawn; `hadamard` or `orthogonal`.

    H is Sylvester's power of two times one of Paley's orders q + 1 or 2·(q + 1), q prime (Ashkboos et al. 2024,
    arXiv:2404.00456, section 3). Without one the Q of a random normal matrix is taken, with the signs of R's diagonal.
    """
    generator = torch.Generator().manual_seed(seed)
    matrix = hadamard(size)
    if matrix is None:
        q, r = torch.linalg.qr(torch.randn(size, size, generator=generator, dtype=torch.float64))
        return q * r.diagonal().sign(), "orthogonal"
    signs = torch.randint(0, 2, (size,), generator=generator).double() * 2 - 1
    return signs[:, None] * matrix / math.sqrt(size), "hadamard"


def hadamard(size: int) -> Tensor | None:
    """A matrix of ±1 with HHᵀ = size·I, float64; None where these constructions have none."""
    factor, doublings = size, 0
    while factor <= MAX_ORDER or factor % 2 == 0:
        base = _base(factor) if factor <= MAX_ORDER else None
        if base is not None:
            matrix = base
            for _ in range(doublings):
                matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
            return matrix
        if factor % 2:
            return None
        factor, doublings = factor // 2, doublings + 1
    return None


@cache
def _base(order: int) -> Tensor | None:
    if order == 1:
        return torch.ones(1, 1, dtype=torch.float64)
    if order % 4:
        return None
    if _prime(order - 1) and (order - 1) % 4 == 3:
        return _first(order - 1)
    half = order // 2 - 1
    return _second(half) if half % 4 == 1 and _prime(half) else None


def _prime(n: int) -> bool:
    return n > 1 and all(n % d for d in range(2, math.isqrt(n) + 1))


def _jacobsthal(q: int) -> Tensor:
    """Q_ij = χ(i − j), the quadratic character modulo q."""
    squares = {i * i % q for i in range(1, q)}
    character = torch.tensor([0.0, *(1.0 if i in squares else -1.0 for i in range(1, q))], dtype=torch.float64)
    steps = torch.arange(q)
    return character[(steps[:, None] - steps[None, :]) % q]


def _bordered(q: int, sign: float) -> Tensor:
    edge = torch.ones(q, dtype=torch.float64)
    matrix = torch.zeros(q + 1, q + 1, dtype=torch.float64)
    matrix[0, 1:], matrix[1:, 0], matrix[1:, 1:] = edge, sign * edge, _jacobsthal(q)
    return matrix


def _first(q: int) -> Tensor:
    """Paley's first construction for q = 3 modulo 4: I + S of order q + 1."""
    return torch.eye(q + 1, dtype=torch.float64) + _bordered(q, -1.0)


def _second(q: int) -> Tensor:
    """Paley's second construction for q = 1 modulo 4, of order 2·(q + 1)."""
    conference, eye = _bordered(q, 1.0), torch.eye(q + 1, dtype=torch.float64)
    return torch.cat([torch.cat([conference + eye, conference - eye], 1),
                      torch.cat([conference - eye, -conference - eye], 1)])  # fmt: skip
