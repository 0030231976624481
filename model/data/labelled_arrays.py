"""Samples with labels of an `.npz` file: waveforms where it names their rate, else what a model takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from espalier.model.data.base import Array, LoadOptions, OtherLabelsError, Split, TaskData
from espalier.model.data.npz import Arrays, Files, as_floats, notes_on, read_arrays
from espalier.model.data.rows import Rows, arrange, class_targets, label_name
from espalier.model.data.sounds import sound_data
from espalier.model.data.wav import Sound, Wave, of_array
from espalier.model.errors import DataError

MOST_CLASSES = 1 << 20
FORM = "Write it with numpy.savez(FILE, x=…, y=…): x [samples, …], y [samples]; rate=… for waveforms."
Targets = tuple[tuple[str, ...], dict[str, Array]]


def load_labelled(name: str, files: Files, options: LoadOptions) -> TaskData:
    """The wanted splits of the files' arrays; raises DataError, an OtherLabelsError for labels of pixels.

    Waveforms are converted as `sound_data` does. Other samples are float32 as they are, images of bytes in 0 … 1.
    Whole numbers in y are class numbers, texts are class names.
    """
    parts = read_arrays(files, FORM)
    for part in parts.values():
        _check(part, name)
    rows = {split: Rows((), _labels(part.y)) for split, part in parts.items()}
    targets = _numbers(parts, name) if options.form.targets is None else None
    targets = targets or (options.form.targets or class_targets)(rows, name)
    if all(part.rate is not None for part in parts.values()):
        form = replace(options.form, targets=lambda *_: targets)
        sounds = {split: replace(rows[split], samples=_sounds(part)) for split, part in parts.items()}
        return sound_data(name, sounds, replace(options, form=form))
    classes, labels = targets
    made: dict[str, Split] = {}
    for split, (of, at) in arrange({k: len(part.y) for k, part in parts.items()}, options, name).items():
        made[split] = Split({"x": as_floats(parts[of].x[at])}, labels[of][at], task=options.task)
    kind = "image" if all(part.x.ndim == 4 for part in parts.values()) else "array"
    return TaskData(name, kind, classes, made, {}, notes=notes_on(parts), task=options.task)


def _check(part: Arrays, name: str) -> None:
    x, y = part.x, part.y
    if y.ndim > 2 and y.size != len(y):
        raise OtherLabelsError(f"{name} holds images with masks.", "Choose the task segmentation.", "masks")
    if x.ndim < 2 or not y.ndim or len(x) != len(y) or x.dtype.kind not in "biuf" or y.dtype.kind not in "biufU":
        kinds = " and ".join(f"{a.dtype} {' × '.join(map(str, a.shape))}" for a in (x, y))
        raise DataError(f"x and y of {part.path.name} are {kinds}.", FORM)
    if part.rate is not None and (x.ndim > 3 or x.dtype.kind == "b"):
        raise DataError(f"x of {part.path.name} is {x.dtype} {' × '.join(map(str, x.shape))}, no waveforms.",
                        "Give [samples, length] or [samples, channels, length], or leave the rate out.")  # fmt: skip


def _labels(y: Array) -> tuple[object, ...]:
    """A label of each row as text, or of rows of zeros and ones their sets."""
    if y.ndim == 2 and y.shape[1] > 1:
        return tuple(tuple(str(at) for at in np.flatnonzero(row > 0.5)) for row in y)
    return tuple(label_name(value) for value in y.reshape(-1).tolist())


def _numbers(parts: Mapping[str, Arrays], name: str) -> Targets | None:
    """Class numbers as they are; None for names. Raises DataError, an OtherLabelsError for rows of labels."""
    if any(part.y.ndim == 2 and part.y.shape[1] > 1 for part in parts.values()):
        path = next(iter(parts.values())).path
        raise OtherLabelsError(f"y of {path.name} holds lists.", "Choose the task multi-label.", "lists")
    if any(part.y.dtype.kind == "U" for part in parts.values()):
        return None
    labels = {split: part.y.reshape(-1) for split, part in parts.items()}
    for split, values in labels.items():
        if values.dtype.kind == "f" and not bool((np.isfinite(values) & (values == np.floor(values))).all()):
            raise DataError(f"y of {parts[split].path.name} holds fractions.",
                            "Give class numbers, or choose the task regression.")  # fmt: skip
    count = max((int(values.max(initial=-1)) + 1 for values in labels.values()), default=0)
    if count > MOST_CLASSES:
        raise DataError(f"y of {name} holds {count - 1:,}, which is no class number.",
                        "Give class numbers from 0, or choose the task regression.")  # fmt: skip
    return tuple(map(str, range(count))), {split: values.astype(np.int64) for split, values in labels.items()}


def _sounds(part: Arrays) -> tuple[Sound, ...]:
    """A sound for each row."""

    def sound(at: int) -> Sound:
        def read() -> Wave:
            return of_array(part.x[at], part.rate or 0)

        return Sound(f"{part.path.name} row {at}", read)

    return tuple(sound(at) for at in range(len(part.x)))
