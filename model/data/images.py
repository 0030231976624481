"""Images of a folder or a hub's data set, read by Pillow."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from espalier.model.data.base import ALL, Array, LoadOptions, Split, TaskData
from espalier.model.data.rows import Rows, arrange, class_targets
from espalier.model.errors import DataError

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp")
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP")  # Pillow goes by content and would run PostScript under any name


@dataclass(frozen=True, slots=True)
class Picture:
    """An image without a file of its own; `open` returns a Pillow image."""

    name: str
    open: Callable[[], Any]


Source = Path | Picture


def image_data(name: str, splits: Mapping[str, Rows], options: LoadOptions) -> TaskData:
    """`x` float32 [n, c, h, w] in 0…1, c = 1 if all images are grey, otherwise 3; raises DataError if sizes differ.

    The samples are Paths or Pictures; each is read once.
    """
    classes, labels = (options.form.targets or class_targets)(splits, name)
    counts = {split: len(some.labels) for split, some in splits.items()}
    order = arrange(counts, options, name)
    rows = {split: splits[of].at(at.tolist()) for split, (of, at) in order.items()}
    arrays, notes = read_images(rows, options)
    made = {split: Split({"x": arrays[split]}, labels[of][at], task=options.task) for split, (of, at) in order.items()}
    return TaskData(name, "image", classes, made, {}, notes=notes[ALL], split_notes=notes, task=options.task)


def read_images(rows: Mapping[str, Rows], options: LoadOptions) -> tuple[dict[str, Array], dict[str, tuple[str, ...]]]:
    """(float32 [n, c, h, w] of each split as `image_data` has them; notes of its rows and conversions, by split and
    of ALL). Raises DataError.
    """
    read = {split: [_read(source, options.image) for source in some.samples] for split, some in rows.items()}
    if any(picture.pixels.ndim == 3 for some in read.values() for picture in some):
        read = {split: [replace(p, pixels=_coloured(p.pixels)) for p in some] for split, some in read.items()}
    arrays = {split: [picture.pixels for picture in some] for split, some in read.items()}
    _check_sizes(rows, arrays)

    def notes(*of: str) -> tuple[str, ...]:
        said = dict.fromkeys(note for split in of for note in rows[split].notes)
        return (*said, *_changed([picture for split in of for picture in read[split]]))

    return {split: _stack(some) for split, some in arrays.items()}, {split: notes(split) for split in rows} | {
        ALL: notes(*rows)
    }


def _changed(some: Sequence[_Read]) -> tuple[str, ...]:
    """Conversions of the images, one sentence each."""
    sized = [p for p in some if p.size != (p.pixels.shape[1], p.pixels.shape[0])]
    grey = sum(p.mode == "RGB" and p.pixels.ndim == 2 for p in some)
    colour = sum(p.mode == "L" and p.pixels.ndim == 3 for p in some)
    notes: list[str] = []
    if sized:
        (width, height), (high, wide) = sized[0].size, sized[0].pixels.shape[:2]
        notes.append(
            f"{len(sized)} of {len(some)} images are resized to {wide} × {high} (width × height), the first from "
            f"{width} × {height}."
        )
    notes += [f"{grey} of {len(some)} images are converted from colour to grey."] if grey else []
    notes += [f"{colour} of {len(some)} images are repeated from grey to three channels."] if colour else []
    return tuple(notes)


def _name(source: Source) -> str:
    return source.name


def _check_sizes(rows: Mapping[str, Rows], arrays: Mapping[str, Sequence[Array]]) -> None:
    first: dict[tuple[int, ...], Source] = {}
    for split, some in rows.items():
        for source, array in zip(some.samples, arrays[split], strict=True):
            first.setdefault(array.shape[:2], source)
    if len(first) > 1:
        (one, a), (other, b) = list(first.items())[:2]
        raise DataError(
            f"Images differ in size (width × height): {_name(a)} is {one[1]} × {one[0]}, {_name(b)} is "
            f"{other[1]} × {other[0]}.",
            "Resize all images to the model's input size.",
        )


@dataclass(frozen=True, slots=True)
class _Read:
    """uint8 [h, w] of a grey image, otherwise [h, w, 3]; `mode` and `size` (width, height) of the original."""

    pixels: Array
    mode: str
    size: tuple[int, int]


def _read(source: Source, target: tuple[int, int, int] | None) -> _Read:
    """Read an image, converted to the channels and size of `target` where those are not 0."""
    name = source.name if isinstance(source, Picture) else f"{source.parent.name}/{source.name}"
    try:
        with source.open() if isinstance(source, Picture) else pillow().open(source, formats=FORMATS) as image:
            own = "L" if image.mode in ("1", "L") else "RGB"
            channels, height, width = target or (0, 0, 0)
            fitted, size = (
                image.convert({1: "L", 3: "RGB"}.get(channels, own)),
                (width or image.width, height or image.height),
            )
            fitted = fitted if fitted.size == size else fitted.resize(size, pillow().Resampling.BILINEAR)
            return _Read(np.asarray(fitted), own, image.size)
    except DataError:  # Pillow is missing
        raise
    except Exception as error:
        raise DataError(f"{name} is not a readable image.", "Remove it.") from error


def pillow() -> Any:
    """Pillow's module Image, without programs; raises DataError if it is not installed."""
    try:
        # The hub's images are opened by Pillow without a format list: PostScript would run in Ghostscript.
        programs: Any = importlib.import_module("PIL.EpsImagePlugin")
        programs.gs_binary = False
        return importlib.import_module("PIL.Image")
    except ImportError as error:
        raise DataError("Reading images needs Pillow.", "Install it: pip install pillow") from error


def _coloured(array: Array) -> Array:
    return array if array.ndim == 3 else np.repeat(array[:, :, None], 3, axis=2)


def _stack(arrays: Sequence[Array]) -> Array:
    """float32 [n, c, h, w] in 0…1."""
    pixels = np.stack(arrays)
    pixels = pixels[:, None] if pixels.ndim == 3 else pixels.transpose(0, 3, 1, 2)
    scaled = np.ascontiguousarray(pixels, dtype=np.float32)
    scaled /= 255
    return scaled
