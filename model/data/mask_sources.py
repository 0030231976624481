"""Images with masks from a folder, an `.npz` file or a data source."""

from __future__ import annotations

from pathlib import Path

from espalier.model.data.arrays import load_arrays
from espalier.model.data.base import LoadOptions, TaskData, sound, source_of
from espalier.model.data.local import find
from espalier.model.data.masks import folder_data
from espalier.model.errors import DataError


def load_masks(spec: str, options: LoadOptions) -> TaskData:
    """Images with masks of a folder, an `.npz` file or a source; raises DataError."""
    source, name = source_of(spec)
    if source is not None:
        return sound(spec.partition(":")[0], source.load(name, options))
    found = find(Path(spec).expanduser())
    if found.kind == "arrays":
        return load_arrays(Path(spec).name, found, options)
    if found.kind != "mask":
        raise DataError(f"{Path(spec).name} holds no masks of images.",
                        "Give a folder with images/ and masks/, or an .npz file with x and y.")  # fmt: skip
    return folder_data(Path(spec).name, found, options)
