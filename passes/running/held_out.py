"""Which training samples are held out where the data name none: a tenth, told by what they hold, so that equal samples
are on one side and a score takes those that a training held out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash
from numpy.typing import NDArray

if TYPE_CHECKING:
    from espalier.model.data.base import Split

HELD = 10  # one of so many different samples


def held_out(split: Split) -> NDArray[np.bool_]:
    """Where a sample is held out; every tenth where too few differ."""
    keys, of = np.unique(_keys(split), return_inverse=True)
    held = of.reshape(-1) < max(len(keys) // HELD, 1)  # by rank: as many of a few samples as of a million
    if len(keys) > 1 and held.mean() <= 0.5:
        return held
    held = np.arange(len(split)) % HELD == HELD - 1
    held[-1:] |= not held.any()
    return held


def _keys(split: Split) -> NDArray[np.uint64]:
    """A hash of each sample's inputs; without what pads a text, whose length is the longest one's."""
    shown = split.inputs.get("attention_mask")
    arrays = [split.inputs[name] for name in sorted(split.inputs)]
    return np.array([_key([_told(a[i], shown, i) for a in arrays]) for i in range(len(split))], np.uint64)


def _told(row: NDArray[Any], shown: NDArray[Any] | None, place: int) -> NDArray[Any]:
    return row if shown is None or row.shape != shown[place].shape else row[shown[place] != 0]


def _key(parts: list[NDArray[Any]]) -> int:
    digest = xxhash.xxh3_64()
    for part in parts:
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.intdigest()
