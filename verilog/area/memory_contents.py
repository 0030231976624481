"""Look-up tables of a constant memory whose words repeat: a synthesiser shares equal functions of the address.

Each bit of the words is split into tables of six inputs; tables that are equal or inverted count once. The multiplexers
above them are counted in the same way.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from espalier.verilog.numbers.fixed import Codes

INPUTS = 6  # of a look-up table
FREE = 2  # levels of multiplexers above the tables that the slice provides at no cost


def varying_bits(words: Codes, width: int) -> int:
    """Count the distinct bit positions of the words that are not constant."""
    return len({row.tobytes() for row in _bits(words, width) if row.any() and not row.all()})


def _bits(words: Codes, width: int) -> NDArray[np.uint8]:
    return ((words[None, :] >> np.arange(width)[:, None]) & 1).astype(np.uint8)


def table_counts(words: Codes, width: int) -> dict[str, int]:
    """`LEAVES`: tables with their first multiplexer; `CHOICES`: multiplexers made of tables; `BITS`: varying bits."""
    bits = _bits(words, width)
    padded = np.zeros((width, 1 << max((len(words) - 1).bit_length(), 1)), np.uint8)
    padded[:, : len(words)] = bits
    edges, leaves = _leaves(padded)
    first, choices = 0, 0
    level, used = 0, set[int]()
    while edges.shape[1] > 1:
        level += 1
        edges, pairs = _merge_pairs(edges, level)
        if level == 1:
            first = sum(max(sum(e >> 1 in leaves for e in pair), 1) for pair in pairs)
            used = {e >> 1 for pair in pairs for e in pair}
        choices += len(pairs) if level > FREE else 0
    varies = int((bits != bits[:, :1]).any(axis=1).sum())
    return {"LEAVES": first + len(leaves - used) if level else len(leaves), "CHOICES": choices, "BITS": varies}


def _leaves(bits: NDArray[np.uint8]) -> tuple[NDArray[np.int64], set[int]]:
    """(2 · table number + inverted [width, tables], the numbers of the tables that are not just a wire or constant)."""
    low = min(INPUTS, (bits.shape[1] - 1).bit_length())
    flat = bits.reshape(-1, 1 << low)
    inverted = flat[:, 0].copy()
    address = (np.arange(1 << low) >> np.arange(low)[:, None] & 1).astype(np.uint8)
    tables = np.concatenate([np.zeros((1, 1 << low), np.uint8), address, flat ^ inverted[:, None]])
    numbers = np.unique(tables, axis=0, return_inverse=True)[1].reshape(-1)
    wires = set(numbers[: 1 + low].tolist())
    varying = numbers[1 + low :]
    return (2 * varying.astype(np.int64) + inverted).reshape(len(bits), -1), set(varying.tolist()) - wires


def _merge_pairs(edges: NDArray[np.int64], level: int) -> tuple[NDArray[np.int64], set[tuple[int, int]]]:
    """The next level up: the numbers of its functions, and the distinct pairs that need a multiplexer."""
    pairs = edges.reshape(-1, 2)
    inverted = pairs[:, 0] & 1
    numbers: dict[tuple[int, int], int] = {}
    merged = np.empty(len(pairs), np.int64)
    for pair_number, (a, b) in enumerate((pairs ^ inverted[:, None]).tolist()):
        merged[pair_number] = a if a == b else numbers.setdefault((a, b), 2 * ((level << 24) + len(numbers)))
    return (merged ^ inverted).reshape(len(edges), -1), set(numbers)
