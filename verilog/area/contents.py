"""What constant memories cost where words repeat: a synthesiser makes equal functions of the address once.

The bits of the words are cut into tables of six inputs; equal ones, or inverted, are one. Above them the choices are
counted, equal ones once, too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from espalier.verilog.numbers.fixed import Codes

INPUTS = 6  # of a look-up table
FREE = 2  # levels of choices above it that the slice has multiplexers for


def varying(words: Codes, width: int) -> int:
    """How many bits of the words are not the same in all of them, equal ones once."""
    return len({row.tobytes() for row in _bits(words, width) if row.any() and not row.all()})


def _bits(words: Codes, width: int) -> NDArray[np.uint8]:
    return ((words[None, :] >> np.arange(width)[:, None]) & 1).astype(np.uint8)


def figures_of(words: Codes, width: int) -> dict[str, int]:
    """`LEAVES`: tables with their first choice; `CHOICES`: those that take tables; `BITS`: that are not constant."""
    bits = _bits(words, width)
    held = np.zeros((width, 1 << max((len(words) - 1).bit_length(), 1)), np.uint8)
    held[:, : len(words)] = bits
    edges, leaves = _leaves(held)
    leafs, first, choices = len(leaves), 0, 0
    level, used = 0, set[int]()
    while edges.shape[1] > 1:
        level += 1
        edges, made = _paired(edges, level)
        if level == 1:
            first = sum(max(sum(e >> 1 in leaves for e in pair), 1) for pair in made)
            used = {e >> 1 for pair in made for e in pair}
        choices += len(made) if level > FREE else 0
    varies = int((bits != bits[:, :1]).any(axis=1).sum())
    return {"LEAVES": first + len(leaves - used) if level else leafs, "CHOICES": choices, "BITS": varies}


def _leaves(bits: NDArray[np.uint8]) -> tuple[NDArray[np.int64], set[int]]:
    """[width, pieces] numbers of tables · 2, + 1 where inverted; and those that are more than a wire."""
    low = min(INPUTS, (bits.shape[1] - 1).bit_length())
    flat = bits.reshape(-1, 1 << low)
    minus = flat[:, 0].copy()
    address = (np.arange(1 << low) >> np.arange(low)[:, None] & 1).astype(np.uint8)
    known = np.concatenate([np.zeros((1, 1 << low), np.uint8), address, flat ^ minus[:, None]])
    numbers = np.unique(known, axis=0, return_inverse=True)[1].reshape(-1)
    wires = set(numbers[: 1 + low].tolist())
    own = numbers[1 + low :]
    return (2 * own.astype(np.int64) + minus).reshape(len(bits), -1), set(own.tolist()) - wires


def _paired(edges: NDArray[np.int64], level: int) -> tuple[NDArray[np.int64], set[tuple[int, int]]]:
    """The level above: numbers of its functions, and the pairs that are chosen between."""
    pairs = edges.reshape(-1, 2)
    minus = pairs[:, 0] & 1
    made: dict[tuple[int, int], int] = {}
    found = np.empty(len(pairs), np.int64)
    for place, (a, b) in enumerate((pairs ^ minus[:, None]).tolist()):
        found[place] = a if a == b else made.setdefault((a, b), 2 * ((level << 24) + len(made)))
    return (found ^ minus).reshape(len(edges), -1), set(made)
