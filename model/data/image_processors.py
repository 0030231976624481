"""Image processors of transformers: resizing, cropping and normalisation as a model's folder names them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from espalier.model.borders import reading
from espalier.model.data.base import Array
from espalier.model.data.class_names import local_file
from espalier.model.errors import Damage, DataError

LARGEST = 4096  # pixels of a side to which images are resized
MOST_RATIO = 100  # of the sides of an image: where the shorter one is resized to a length, the other may be any
FILES = ("preprocessor_config.json", "processor_config.json")
Processor = Callable[[Any], Array]  # a Pillow image → float32 [channels, height, width]


def find_processor(source: str | Path | None) -> Processor | None:
    """The image processor of a folder or of a cached model of the hub; None if there is none. Raises DataError."""
    files = [file for name in FILES if source and (file := local_file(str(source), name))]
    return _opened(str(source), files[0], files[0].stat().st_mtime_ns) if files else None


@lru_cache(maxsize=4)
def _opened(source: str, file: Path, changed: int) -> Processor:
    hint = f"Give an intact {file.name}."
    with reading(f"The image processor of {Path(source).name}", DataError, "cannot be loaded", hint), \
         warnings.catch_warnings():  # fmt: skip
        warnings.simplefilter("ignore")
        from transformers import AutoImageProcessor
        from transformers.utils import logging

        level = logging.get_verbosity()
        logging.set_verbosity_error()  # it tells that Pillow stands for torchvision
        try:
            inner: Any = AutoImageProcessor.from_pretrained(file.parent, trust_remote_code=False, local_files_only=True)
        finally:
            logging.set_verbosity(level)
        sides = [n for key in ("size", "crop_size") for n in dict(getattr(inner, key, None) or {}).values()]
        if wrong := next((n for n in sides if n is not None and not 1 <= int(n) <= LARGEST), None):
            raise Damage(f"it makes images of {wrong:,} pixels a side")

    def process(image: Any) -> Array:
        short, long = sorted(image.size)
        if long > MOST_RATIO * short:
            raise Damage(f"it has {image.width} × {image.height} pixels (width × height)")
        made: Any = inner(image, return_tensors="np")["pixel_values"]
        return np.asarray(made[0], np.float32)

    return process
