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
from espalier.model.errors import DataError

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

    def process(image: Any) -> Array:
        made: Any = inner(image, return_tensors="np")["pixel_values"]
        return np.asarray(made[0], np.float32)

    return process
