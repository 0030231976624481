"""Images with masks of an `.npz` file: `x` and `y`, or `x_train` and `y_train` and so on."""

from __future__ import annotations

from espalier.model.data.base import Array, LoadOptions, TaskData
from espalier.model.data.class_folders import Found
from espalier.model.data.masks import HINT, counted, has_two, masked
from espalier.model.data.npz import Arrays, as_floats, notes_on, read_arrays
from espalier.model.data.rows import arrange
from espalier.model.errors import DataError

FORM = "Write it with numpy.savez(FILE, x=…, y=…): x [samples, channels, height, width], y [samples, height, width]."


def load_arrays(name: str, found: Found, options: LoadOptions) -> TaskData:
    """The wanted splits of the files' images and masks; raises DataError.

    Bytes are brought to 0 … 1 as images are; other numbers are taken as they are.
    """
    parts = read_arrays(found.files, FORM)
    pairs = {split: (part.x, _checked(part)) for split, part in parts.items()}
    two = has_two((lambda y=y: y) for _, y in pairs.values())
    order = arrange({split: len(y) for split, (_, y) in pairs.items()}, options, name)
    arrays: dict[str, tuple[Array, Array]] = {}
    for split, (of, rows) in order.items():
        x, y = (array[rows] for array in pairs[of])
        arrays[split] = as_floats(x), counted(y, f"y of {name}", two, options.classes)
    notes = ("y holds 0 and 255 alone: 255 counts as class 1.",) if two else ()
    return masked(name, arrays, (*notes_on(parts), *notes))


def _checked(part: Arrays) -> Array:
    """The masks, without an axis of one channel."""
    x, y, path = part.x, part.y, part.path
    y = y[:, 0] if y.ndim == 4 and y.shape[1] == 1 else y
    if x.ndim != 4 or y.ndim != 3 or len(x) != len(y) or x.shape[2:] != y.shape[1:]:
        shapes = " and ".join(" × ".join(map(str, a.shape)) for a in (x, y))
        raise DataError(f"x and y of {path.name} are {shapes}.", FORM)
    if x.dtype.kind not in "biuf" or y.dtype.kind not in "biu":
        raise DataError(f"x and y of {path.name} are {x.dtype} and {y.dtype}.", f"Give numbers, y whole ones. {HINT}")
    return y
