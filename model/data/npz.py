"""Reads the arrays of `.npz` files: `x` and `y`, or `x_train` and `y_train` and so on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from espalier.model.borders import opened_zip, reading
from espalier.model.data.base import ALL, Array, non_finite_rows, non_finite_text
from espalier.model.data.rows import SHARES
from espalier.model.errors import Damage, DataError
from espalier.model.memory import free

Files = Mapping[str, Sequence[tuple[Path, str]]]  # by split, empty for a file outside any


@dataclass(frozen=True, slots=True)
class Arrays:
    """The samples and labels of a split. rate: sampling rate in Hz, of waveforms."""

    path: Path
    x: Array
    y: Array
    rate: int | None = None


def read_arrays(files: Files, form: str) -> dict[str, Arrays]:
    """Split → its arrays; a file without split names is the split `all`. form: the hint of a DataError."""
    return {
        split or ALL: arrays for given, some in files.items() for path, _ in some
        for split, arrays in _read(path, given, form).items()
    }  # fmt: skip


def as_floats(x: Array) -> Array:
    """Samples in float32: bytes of images [n, channels, height, width] become 0 … 1, other numbers stay."""
    return x.astype(np.float32) / np.float32(255) if is_bytes(x) else x.astype(np.float32)


def is_bytes(x: Array) -> bool:
    """Whether `as_floats` scales an array."""
    return x.ndim == 4 and x.dtype == np.uint8


def notes_on(parts: Mapping[str, Arrays]) -> tuple[str, ...]:
    """Notes on scaled images, and on samples that are not finite."""
    scaled = ", ".join(dict.fromkeys(part.path.name for part in parts.values() if is_bytes(part.x)))
    notes = [f"Images of {scaled} are bytes (uint8): 0 to 255 becomes 0 to 1."] if scaled else []
    for part in parts.values():
        if count := int(non_finite_rows(part.x).sum()):
            notes.append(f"{non_finite_text(count, len(part.x), part.path.name)}.")
    return tuple(notes)


def _read(path: Path, split: str, form: str) -> dict[str, Arrays]:
    """Arrays by split; a file without split names is that of `split`."""
    with reading(path, DataError, "cannot be read", form):
        with opened_zip(path) as (archive, _):
            size = sum(member.file_size for member in archive.infolist())
        if size > free():
            raise DataError(f"{path.name} unpacks to {size / 2**30:.1f} GiB, more than the free memory.",
                            "Give a smaller file, or a folder of files.")  # fmt: skip
        with path.open("rb") as file, np.load(file, allow_pickle=False) as held:
            arrays = {key: held[key] for key in held.files}
        # A header may name any number of samples that take no bytes.
        if name := next(
            (key for key, array in arrays.items() if not array.nbytes and array.shape[:1] not in ((), (0,))), ""
        ):
            raise Damage(f"the samples of {name} are empty")
    names = {"": split, **({f"_{part}": part for part in SHARES} if not split else {})}
    found = {part: Arrays(path, arrays[f"x{end}"], arrays[f"y{end}"], _rate(path, arrays))
             for end, part in names.items() if f"x{end}" in arrays and f"y{end}" in arrays}  # fmt: skip
    if not found:
        raise DataError(f"{path.name} holds {', '.join(arrays) or 'nothing'}, not x and y.", form)
    return found


def _rate(path: Path, arrays: Mapping[str, Array]) -> int | None:
    """The sampling rate; raises DataError for one that is no whole number."""
    if (rate := arrays.get("rate")) is None:
        return None
    if rate.size != 1 or rate.dtype.kind not in "iuf" or not float(rate.reshape(())).is_integer():
        raise DataError(f"The rate of {path.name} is no number of samples a second.", "Give a number such as 16000.")
    return int(rate.reshape(()))
