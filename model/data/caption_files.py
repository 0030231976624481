"""Tables that name images and captions: `metadata.csv`, `captions.jsonl` and so on, in a folder or in its splits."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from espalier.model.data.base import LoadOptions
from espalier.model.data.images import IMAGE_SUFFIXES
from espalier.model.data.rows import SPLIT_NAMES
from espalier.model.data.tables import SUFFIXES, read_table
from espalier.model.errors import DataError

LONGEST = 1000  # characters of a name
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


def named_images(path: Path) -> list[Path]:
    """The images that the tables at a path name, whose changes are changes of the data; none for tables of texts."""
    try:
        tables = caption_tables(path).values()
    except DataError:
        return []
    facts = ((table, table.stat()) for table in tables if _has_images(table.parent))
    return [image for table, at in facts for image in _named(table, at.st_mtime_ns, at.st_size) if _exists(image)]


def _has_images(folder: Path) -> bool:
    """Whether an image lies in a folder or in one of its folders, so that a table of texts is not read for nothing."""
    return any(
        file.suffix.lower() in IMAGE_SUFFIXES
        for place in (folder, *filter(Path.is_dir, _inside(folder)))
        for file in _inside(place)
    )


def _inside(folder: Path) -> list[Path]:
    """What is in a folder; nothing of one that may not be read."""
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _exists(image: Path) -> bool:
    try:
        return image.is_file()
    except OSError:  # a name that is too long
        return False


@lru_cache(maxsize=8)
def _named(table: Path, changed: int, size: int) -> tuple[Path, ...]:
    """Paths below the table's folder in the columns that begin with one."""
    try:
        columns = read_table(table, LoadOptions())
    except DataError:  # which the reader of the data reports
        return ()
    cells = [list(columns[name]) for name in columns.columns]
    names = dict.fromkeys(cell for column in cells if _is_image(column[0]) for cell in column if _is_image(cell))
    return tuple(table.parent / name for name in names)


def _is_image(cell: object) -> bool:
    if not isinstance(cell, str) or "\0" in cell or len(cell) > LONGEST:
        return False
    name = Path(cell)
    return name.suffix.lower() in IMAGE_SUFFIXES and not name.is_absolute() and ".." not in name.parts


def _tables(folder: Path) -> list[Path]:
    return [file for file in sorted(folder.iterdir()) if file.is_file() and file.suffix.lower() in SUFFIXES]


def _split(stem: str) -> str | None:
    return SPLIT_NAMES.get(stem.lower().replace("_", "-").split("-")[0])
