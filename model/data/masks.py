"""Masks of images: a class number for each pixel, IGNORED where none counts. Files have 255 there, as Pascal VOC's
(http://host.robots.ox.ac.uk/pascal/VOC/voc2012/segexamples/).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from espalier.model.borders import reading
from espalier.model.data.base import ALL, IGNORED, Array, LoadOptions, Split, TaskData
from espalier.model.data.class_folders import Found
from espalier.model.data.images import FORMATS, pillow, read_images
from espalier.model.data.mask_files import paired
from espalier.model.data.rows import Rows, arrange
from espalier.model.errors import DataError

SEGMENTATION = "segmentation"
UNCOUNTED = 255  # in a file or an array
HINT = f"Give a class number from 0 to each pixel; {UNCOUNTED} marks pixels that do not count."
Size = tuple[int, int]  # height, width


def folder_data(name: str, found: Found, options: LoadOptions) -> TaskData:
    """`x` as `image_data` has it, labels int16 [n, h, w] of the same size; raises DataError.

    Masks of 0 and 255 alone are those of one object: 255 counts as class 1, and a note says so.
    """
    pairs = {split or ALL: paired(files, name) for split, files in found.files.items()}
    masks = [mask for some in pairs.values() for _, mask in some]
    two = has_two(_values(path) for path in masks)
    order = arrange({split: len(some) for split, some in pairs.items()}, options, name)
    chosen = {split: [pairs[of][at] for at in rows.tolist()] for split, (of, rows) in order.items()}
    rows = {split: Rows(tuple(image for image, _ in some), ()) for split, some in chosen.items()}
    for some in chosen.values():
        for image, mask in some:
            _check_size(image, mask)
    images, notes = read_images(rows, options)
    labels = {split: _labels([mask for _, mask in some], images[split].shape[2:], two, options)
              for split, some in chosen.items()}  # fmt: skip
    if two:
        said = f"The masks hold 0 and {UNCOUNTED} alone: {UNCOUNTED} counts as class 1."
        notes = {split: (*some, said) for split, some in notes.items()}
    data = masked(name, {split: (images[split], labels[split]) for split in chosen}, notes[ALL])
    return replace(data, split_notes=notes)


def masked(name: str, arrays: Mapping[str, tuple[Array, Array]], notes: tuple[str, ...] = ()) -> TaskData:
    """The data of images and labels by split, whose classes are their numbers."""
    count = max((int(labels.max(initial=0)) + 1 for _, labels in arrays.values()), default=0)
    classes = tuple(map(str, range(count)))
    splits = {split: Split({"x": images}, labels, task=SEGMENTATION, classes=classes)
              for split, (images, labels) in arrays.items()}  # fmt: skip
    return TaskData(name, "image", classes, splits, {}, notes=notes, task=SEGMENTATION)


def has_two(masks: Iterable[Callable[[], Array]]) -> bool:
    """Whether all masks together hold the values 0 and 255 alone; reads masks up to the first with another."""
    seen: set[int] = set()
    for read in masks:
        seen |= set(np.unique(read()).tolist())
        if seen - {0, UNCOUNTED}:
            return False
    return seen == {0, UNCOUNTED}


def counted(values: Array, name: str, two: bool = False, classes: int | None = None) -> Array:
    """int16 or int64 labels of the values of a mask; raises DataError for negative ones and more than `classes`."""
    marks = values == UNCOUNTED
    labels = np.where(marks, 1 if two else IGNORED, values.astype(np.int64))
    if int(labels.max(initial=0)) >= (classes or np.inf):
        last = (classes or 1) - 1
        raise DataError(f"{name} has the class {int(labels.max())}, the model has the classes 0 to {last}.",
                        f"Use a model with as many classes. {HINT}")  # fmt: skip
    if bool(((labels < 0) & (labels != IGNORED)).any()):
        raise DataError(f"{name} has the class {int(labels.min())}.", HINT)
    small = int(labels.max(initial=0)) <= np.iinfo(np.int16).max
    return labels.astype(np.int16 if small else np.int64)


def _labels(masks: Sequence[Path], size: Size, two: bool, options: LoadOptions) -> Array:
    """[n, h, w] of files, in the size of the model's images; the nearest pixel where they are resized."""
    found = [counted(_resized(_values(path)(), size), f"The mask {_name(path)}", two, options.classes)
             for path in masks]  # fmt: skip
    return np.stack(found) if found else np.zeros((0, *size), np.int16)


def _resized(values: Array, size: Size) -> Array:
    if values.shape == size:
        return values
    # Pixel centres, as Pillow's NEAREST, which has no 16-bit kind that it resizes alike in all versions.
    rows, columns = (((np.arange(to) + 0.5) * of / to).astype(np.int64)
                     for of, to in zip(values.shape, size, strict=True))  # fmt: skip
    return values[rows[:, None], columns]


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def _check_size(image: Path, mask: Path) -> None:
    with reading(image, DataError, "is not a readable image", "Remove it."), \
         pillow().open(image, formats=FORMATS) as one:  # fmt: skip
        size = one.size
    with reading(mask, DataError, "is not a readable image", "Replace it."), \
         pillow().open(mask, formats=FORMATS) as other:  # fmt: skip
        own = other.size
    if size != own:
        raise DataError(f"The mask {_name(mask)} is {own[0]} × {own[1]}, its image {image.name} {size[0]} × {size[1]} "
                        "(width × height).", "Give each image a mask of its own size.")  # fmt: skip


def _values(path: Path) -> Callable[[], Array]:
    """A reader of a mask's values [h, w]: of a palette its indices, of equal channels the channel."""

    def read() -> Array:
        try:
            with pillow().open(path, formats=FORMATS) as image:
                lossy, values = image.format == "JPEG", np.asarray(image)
        # Pillow's decoders raise many types for damaged files.
        except Exception as error:
            raise DataError(f"The mask {_name(path)} is not a readable image.", "Replace it.") from error
        if lossy:
            raise DataError(f"The mask {_name(path)} is a JPEG file, which does not keep class numbers.",
                            "Save masks as PNG.")  # fmt: skip
        return _channel(values, path)

    return read


def _channel(values: Array, path: Path) -> Array:
    if values.ndim == 3:
        colours: Any = values[..., :3] if values.shape[2] > 2 else values[..., :1]
        if bool((colours != colours[..., :1]).any()):
            raise DataError(f"The mask {_name(path)} has colours, not class numbers.",
                            f"Save it with a palette, or as a grey image. {HINT}")  # fmt: skip
        values = colours[..., 0]
    if values.dtype.kind not in "biu":
        raise DataError(f"The mask {_name(path)} holds fractions.", HINT)
    return values.astype(np.int64) if values.dtype.kind != "b" else values.astype(np.uint8)
