"""Folders of images as data: read by Pillow, which is only needed for this."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from model.data.base import Array, LoadOptions, Split, TaskData
from model.data.rows import Rows, arrange, class_indices, find_classes
from model.errors import DataError

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp")


def image_data(name: str, splits: Mapping[str, Rows], options: LoadOptions) -> TaskData:
    """`x` float32 [n, c, h, w] in 0…1, c = 1 if all images are grey, else 3; raises DataError if sizes differ."""
    classes = find_classes(splits, name)
    rows = arrange(splits, options)
    grey = all(_is_grey(path) for some in rows.values() for path in some.samples)
    arrays = {split: [_read(path, grey) for path in some.samples] for split, some in rows.items()}
    _check_sizes(rows, arrays)
    made = {split: Split({"x": np.stack(arrays[split])}, class_indices(some, classes)) for split, some in rows.items()}
    return TaskData(name, "image", classes, made, {})


def _check_sizes(rows: Mapping[str, Rows], arrays: Mapping[str, Sequence[Array]]) -> None:
    first: dict[tuple[int, ...], Path] = {}
    for split, some in rows.items():
        for path, array in zip(some.samples, arrays[split], strict=True):
            first.setdefault(array.shape[1:], path)
    if len(first) > 1:
        (one, a), (other, b) = list(first.items())[:2]
        raise DataError(
            f"Images differ in size: {a.name} is {one[1]}×{one[0]}, {b.name} is {other[1]}×{other[0]}.",
            "Bring all images to the size that the model takes.",
        )


def _open(path: Path) -> Any:
    pillow = _pillow()
    try:
        with pillow.open(path) as image:
            image.load()
            return image
    except (pillow.UnidentifiedImageError, OSError) as error:
        raise DataError(f"{path.parent.name}/{path.name} is no image that can be read.", "Remove it.") from error


def _pillow() -> Any:
    try:
        return importlib.import_module("PIL.Image")
    except ImportError as error:
        raise DataError("Reading images needs Pillow.", "Install it: pip install pillow") from error


def _is_grey(path: Path) -> bool:
    return _open(path).mode in ("1", "L")


def _read(path: Path, grey: bool) -> Array:
    pixels = np.asarray(_open(path).convert("L" if grey else "RGB"), dtype=np.float32) / 255
    return pixels[None] if grey else np.ascontiguousarray(pixels.transpose(2, 0, 1))
