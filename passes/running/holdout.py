"""Hold-out of training samples for validation if the data have no validation split: a tenth, chosen by content hash,
so that equal samples are on one side and a score uses the samples that a training held out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from espalier.model.data.base import DECODER

if TYPE_CHECKING:
    from espalier.model.data.base import Split

PERIOD = 10  # one of so many distinct samples is held out


def holdout_mask(split: Split) -> NDArray[np.bool_]:
    """Mask of held-out rows: those of a tenth of the samples, of every tenth if too few are distinct."""
    if split.groups is not None:
        _, first, number = np.unique(split.groups, return_index=True, return_inverse=True)
        return holdout_mask(replace(split.rows(first), groups=None))[number.reshape(-1)]
    keys, inverse = np.unique(_keys(split), return_inverse=True)
    mask = inverse.reshape(-1) < max(len(keys) // PERIOD, 1)  # by rank, so that the share is exact for few samples
    if len(keys) > 1 and mask.mean() <= 0.5:
        return mask
    mask = np.arange(len(split)) % PERIOD == PERIOD - 1
    mask[-1:] |= not mask.any()
    return mask


def _keys(split: Split) -> NDArray[np.uint64]:
    """A hash of each sample's inputs, without padding and without those of a decoder, which are its target."""
    mask = split.inputs.get("attention_mask")
    arrays = [split.inputs[name] for name in sorted(split.inputs) if not name.startswith(DECODER)]
    return np.array([_key([_unpadded(a[i], mask, i) for a in arrays]) for i in range(len(split))], np.uint64)


def _unpadded(row: NDArray[Any], mask: NDArray[Any] | None, index: int) -> NDArray[Any]:
    return row if mask is None or row.shape != mask[index].shape else row[mask[index] != 0]


def _key(parts: list[NDArray[Any]]) -> int:
    digest = xxhash.xxh3_64()
    for part in parts:
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.intdigest()
