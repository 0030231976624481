"""Images with captions in Python: lists of pairs or of dicts, also by split."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from espalier.model.data.base import ALL, LoadOptions, TaskData
from espalier.model.data.captions import CAPTIONS, CONTRASTIVE, SIGMOID, caption_data, picture_of
from espalier.model.data.images import Picture
from espalier.model.data.rows import SPLIT_NAMES, Rows
from espalier.model.errors import DataError
from espalier.model.sources.reading import Limits, Reading
from espalier.passes.running.data_fit import text_limit
from espalier.passes.tasks.base import recognised

IMAGES = ("image", "img", "x")
SHAPES = (
    "Give [(image, caption), …]: an image of Pillow or an array [channels, height, width], a text or a list of them."
)


def captions_of(data: Any, reading: Reading) -> TaskData | None:
    """The pairs for a model of images and texts; None for other models and data. Raises DataError."""
    task = recognised(reading.limits)
    if task not in (CONTRASTIVE, SIGMOID):
        return None
    named = cast("Mapping[Any, Any]", data) if isinstance(data, Mapping) else {}
    parts = {SPLIT_NAMES[k]: v for k, v in named.items()} if named and set(named) <= set(SPLIT_NAMES) else {ALL: data}
    if not all(isinstance(part, list | tuple) or _is_data_set(part) for part in parts.values()):
        raise DataError(f"{type(data).__name__} holds no images with captions.", SHAPES)
    rows = {split: _rows(part) for split, part in parts.items()}
    limits = reading.limits or Limits()
    length = text_limit(0, reading, reading.tokenizer, task).tokens
    options = LoadOptions(tokenizer=reading.tokenizer, max_length=length, whole=True, task=task, signal=limits.signal)
    return caption_data(f"{type(data).__name__} in Python", rows, options)


def _is_data_set(data: Any) -> bool:
    indexed = hasattr(data, "__getitem__") and hasattr(data, "__len__")
    return indexed and not hasattr(data, "ndim") and not isinstance(data, Mapping)


def _rows(data: Any) -> Rows:
    """A row for each caption."""
    samples, captions = list[Picture](), list[str]()
    for at in range(len(data)):
        image, text = _pair(data[at], at)
        texts: list[Any] = list(cast("list[Any]", text)) if isinstance(text, list | tuple) else [text]
        if image is None or not texts or not all(isinstance(one, str) for one in texts):
            raise DataError(f"Sample {at} is no image with a caption.", SHAPES)
        picture = _picture(f"sample {at}", image)
        samples += [picture] * len(texts)
        captions += texts
    return Rows(tuple(samples), tuple(captions))


def _pair(item: Any, at: int) -> tuple[Any, Any]:
    if isinstance(item, Mapping):
        row = cast("Mapping[str, Any]", item)
        return tuple(next((row[name] for name in names if name in row), None) for names in (IMAGES, CAPTIONS))  # type: ignore[return-value]
    if isinstance(item, tuple | list) and len(cast("tuple[Any, ...]", item)) == 2:
        return cast("tuple[Any, Any]", tuple(cast("list[Any]", item)))
    raise DataError(f"Sample {at} is no image with a caption.", SHAPES)


def _picture(name: str, image: Any) -> Picture:
    if hasattr(image, "convert"):
        return Picture(name, lambda: image.copy())
    values = np.asarray(image.detach().cpu() if hasattr(image, "detach") else image)
    if values.ndim != 3 or values.dtype.kind not in "uf" or len(values) not in (1, 3):
        raise DataError(f"The image of {name} is {values.dtype} {' × '.join(map(str, values.shape))}.", SHAPES)
    return picture_of(name, values)
