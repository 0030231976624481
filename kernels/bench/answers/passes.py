"""Memory traffic of softmax and attention, op by op and fused, and the steps of an online softmax."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Amount:
    """`mn`·M·N + `m`·M elements."""

    mn: int = 0
    m: int = 0

    def of(self, m: int, n: int) -> int:
        """Elements."""
        return self.mn * m * n + self.m * m

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.mn + other.mn, self.m + other.m)

    def __str__(self) -> str:
        return " + ".join(f"{'' if k == 1 else k}{unit}" for k, unit in ((self.mn, "MN"), (self.m, "M")) if k) or "0"


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass over memory: an operation, the tensors it reads and the one it writes, as a matrix (MN) or column
    (M)."""

    text: str
    reads: tuple[str, ...]
    writes: str


WHOLE, COLUMN = Amount(mn=1), Amount(m=1)
SIZES = {"x": WHOLE, "top": COLUMN, "shifted": WHOLE, "e": WHOLE, "total": COLUMN, "y": WHOLE}
NAIVE = (
    Pass("top = max x", ("x",), "top"),
    Pass("shifted = x − top", ("x", "top"), "shifted"),
    Pass("e = exp shifted", ("shifted",), "e"),
    Pass("total = Σ e", ("e",), "total"),
    Pass("y = e / total", ("e", "total"), "y"),
)
FUSED = (Pass("y = softmax x", ("x",), "y"),)


def reads(passes: Sequence[Pass]) -> Amount:
    """Elements read."""
    return sum((SIZES[name] for p in passes for name in p.reads), Amount())


def writes(passes: Sequence[Pass]) -> Amount:
    """Elements written."""
    return sum((SIZES[p.writes] for p in passes), Amount())


def moved(passes: Sequence[Pass], m: int, n: int, size: int) -> int:
    """Bytes read and written."""
    return (reads(passes) + writes(passes)).of(m, n) * size


def score_bytes(batch: int, heads: int, tokens: int, size: int) -> int:
    """Bytes of one matrix of attention scores."""
    return batch * heads * tokens * tokens * size


@dataclass(frozen=True, slots=True)
class Online:
    """State after a block of scores: its end, the largest score so far, the sum of exp(score − largest), and the factor
    that rescaled the earlier sum."""

    end: int
    largest: float
    total: float
    factor: float


def online(scores: Sequence[float], block: int) -> Iterator[Online]:
    """Maximum and sum of a softmax, block by block, reading each score once (Milakov & Gimelshein 2018)."""
    largest, total = -math.inf, 0.0
    for start in range(0, len(scores), block):
        part = scores[start : start + block]
        higher = max(largest, *part)
        factor = math.exp(largest - higher) if total else 0.0
        total = total * factor + sum(math.exp(v - higher) for v in part)
        largest = higher
        yield Online(start + len(part), largest, total, factor)
