"""Arrays of an `.npz` file: `x` and `y`, or `x_train` and `y_train` and so on, of images with masks."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from espalier.model.borders import opened_zip, reading
from espalier.model.data.base import ALL, Array, LoadOptions, TaskData
from espalier.model.data.local import Found
from espalier.model.data.masks import HINT, counted, has_two, masked
from espalier.model.data.rows import SHARES, arrange
from espalier.model.errors import DataError
from espalier.model.memory import free

FORM = "Write it with numpy.savez(FILE, x=…, y=…): x [samples, channels, height, width], y [samples, height, width]."


def load_arrays(name: str, found: Found, options: LoadOptions) -> TaskData:
    """The wanted splits of the files' images and masks; raises DataError.

    Bytes are brought to 0 … 1 as images are; other numbers are taken as they are.
    """
    pairs = {
        split or ALL: pair for split, files in found.files.items() for path, _ in files
        for split, pair in _read(path, split).items()
    }  # fmt: skip
    two = has_two((lambda y=y: y) for _, y in pairs.values())
    order = arrange({split: len(y) for split, (_, y) in pairs.items()}, options, name)
    arrays: dict[str, tuple[Array, Array]] = {}
    for split, (of, rows) in order.items():
        x, y = (array[rows] for array in pairs[of])
        arrays[split] = (x.astype(np.float32) / 255 if x.dtype == np.uint8 else x.astype(np.float32),
                         counted(y, f"y of {name}", two, options.classes))  # fmt: skip
    notes = ("y holds 0 and 255 alone: 255 counts as class 1.",) if two else ()
    return masked(name, arrays, notes)


def _read(path: Path, split: str) -> dict[str, tuple[Array, Array]]:
    """(x, y) by split; a file without split names is that of `split`."""
    with reading(path, DataError, "cannot be read", FORM):
        with opened_zip(path) as (archive, _):
            size = sum(member.file_size for member in archive.infolist())
        if size > free():
            raise DataError(f"{path.name} unpacks to {size / 2**30:.1f} GiB, more than the free memory.",
                            "Give a smaller file, or a folder with images/ and masks/.")  # fmt: skip
        with path.open("rb") as file, np.load(file, allow_pickle=False) as held:
            arrays = {key: held[key] for key in held.files}
    names = {"": split, **({f"_{part}": part for part in SHARES} if not split else {})}
    pairs = {part: (arrays[f"x{end}"], arrays[f"y{end}"]) for end, part in names.items()
             if f"x{end}" in arrays and f"y{end}" in arrays}  # fmt: skip
    if not pairs:
        raise DataError(f"{path.name} holds {', '.join(arrays) or 'nothing'}, not x and y.", FORM)
    return {part: (x, _checked(path, x, y)) for part, (x, y) in pairs.items()}


def _checked(path: Path, x: Array, y: Array) -> Array:
    """The masks, without an axis of one channel."""
    y = y[:, 0] if y.ndim == 4 and y.shape[1] == 1 else y
    if x.ndim != 4 or y.ndim != 3 or len(x) != len(y) or x.shape[2:] != y.shape[1:]:
        shapes = " and ".join(" × ".join(map(str, a.shape)) for a in (x, y))
        raise DataError(f"x and y of {path.name} are {shapes}.", FORM)
    if x.dtype.kind not in "biuf" or y.dtype.kind not in "biu":
        raise DataError(f"x and y of {path.name} are {x.dtype} and {y.dtype}.", f"Give numbers, y whole ones. {HINT}")
    return y
