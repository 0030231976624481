"""Tables that name images and captions: `metadata.csv`, `captions.jsonl` and so on, in a folder or in its splits."""

from __future__ import annotations

from pathlib import Path

from espalier.model.data.rows import SPLIT_NAMES
from espalier.model.data.tables import SUFFIXES
from espalier.model.errors import DataError

HINT = "Give a folder with a table such as metadata.csv, with the columns file_name and caption, or an .npz file."


def caption_tables(path: Path) -> dict[str, Path]:
    """Split (empty: none) → its table; raises DataError."""
    if path.is_file() and path.suffix.lower() in SUFFIXES:
        return {"": path}
    if not path.is_dir():
        raise DataError(f"There are no images with captions at {path}.", HINT)
    tables = _tables(path)
    named = {split: file for file in tables if (split := _split(file.stem))}
    if named:
        return named
    if len(tables) == 1:
        return {"": tables[0]}
    folders = [sub for sub in sorted(path.iterdir()) if sub.is_dir()]
    inner = {split: found[0] for sub in folders if (split := _split(sub.name)) and len(found := _tables(sub)) == 1}
    if not inner:
        many = f"{len(tables)} tables" if tables else "no table"
        raise DataError(f"The folder {path.name} holds {many} of images with captions.", HINT)
    return inner


def _tables(folder: Path) -> list[Path]:
    return [file for file in sorted(folder.iterdir()) if file.is_file() and file.suffix.lower() in SUFFIXES]


def _split(stem: str) -> str | None:
    return SPLIT_NAMES.get(stem.lower().replace("_", "-").split("-")[0])
