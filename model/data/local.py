"""The user's own data: a file, a folder of split files, or a folder of classes; detected, read and cached."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from espalier.model.borders import reading
from espalier.model.data import cache
from espalier.model.data.base import ALL, LoadOptions, OtherLabelsError, TaskData
from espalier.model.data.class_folders import LONE, Found, find_classes, refuse_compressed
from espalier.model.data.images import image_data
from espalier.model.data.labelled_arrays import load_labelled
from espalier.model.data.mask_files import mask_files
from espalier.model.data.prepare import text_data
from espalier.model.data.rows import SPLIT_NAMES, Rows
from espalier.model.data.sounds import sound_data
from espalier.model.data.tables import (
    SUFFIXES,
    NoRowsError,
    read_rows,
    read_table,
    refuse_utf16,
    texts_of,
    unreadable,
)
from espalier.model.data.wav import AUDIO
from espalier.model.errors import DataError

PLAIN = (".txt", ".md")  # texts without labels, for language models
ARRAYS = (".npz",)
PREFIX = re.compile(r"[A-Za-z]\w+:")  # of a source; a letter alone is a drive of Windows
HINT = (
    f"Give a file ({', '.join((*SUFFIXES, *PLAIN, *ARRAYS))}), or a folder with train.*, validation.* and test.* "
    "files, with a subfolder of .txt, image or .wav files for each class, or with images/ and masks/."
)


def load_local(path: Path, options: LoadOptions) -> TaskData:
    """Read the data at `path`; texts already tokenised with equal options are read from the cache."""
    found = find(path)
    if found.kind == "plain":
        raise DataError(
            f"{path.name} is plain text, which has no labels to classify.",
            "Use a language model (task next-token), or a table with a column of labels.",
        )
    if found.kind == "arrays":
        return load_labelled(path.name, found.files, options)
    if found.kind == "mask":
        raise OtherLabelsError(f"{path.name} holds images with masks.", "Choose the task segmentation.", "masks")
    if found.kind in ("image", AUDIO):
        return (image_data if found.kind == "image" else sound_data)(path.name, _rows(found, options), options)
    names = [(split, name) for split, f in found.files.items() for _, name in f]
    key = cache.key_of(found.paths(), [names, found.notes] if found.notes else names, options)
    data = text_data(path.name, key, lambda: _rows(found, options), options)
    return replace(data, empty=_empty(found, data, options))


def _empty(found: Found, data: TaskData, options: LoadOptions) -> dict[str, str]:
    """File names of each wanted split without rows."""
    wanted = [s for s in found.files if s and (options.splits is None or s in options.splits)]
    return {s: ", ".join(path.name for path, _ in found.files[s]) for s in wanted if s not in data.splits}


def find(path: Path) -> Found:
    """Detect the kind of data by file names; raises DataError if there are none."""
    if path.is_file():
        if path.suffix.lower() in PLAIN:
            return Found("plain", {LONE: ((path, ""),)})
        if path.suffix.lower() in ARRAYS:
            return Found("arrays", {LONE: ((path, ""),)})
        if path.suffix.lower() not in SUFFIXES:
            raise DataError(f"{path.name} is not a supported data file.", HINT)
        return Found("table", {LONE: ((path, ""),)})
    if not path.is_dir():
        base = "" if path.is_absolute() else f", relative to {Path.cwd()}"
        hint = f"{HINT} Or use demo:reviews, demo:digits or hub:NAME."
        if prefix := PREFIX.match(str(path)):
            hint = f"If a plug-in reads {prefix[0]} data, load it first (--plugin FILE.py). {hint}"
        raise DataError(f"There are no data at {path}{base}.", hint)
    masks = mask_files(path, _split_name)
    if masks:
        return Found("mask", masks)
    found = _find_files(path, SUFFIXES, "table") or find_classes(path, _split_name) or _find_files(path, PLAIN, "plain")
    found = found or _find_files(path, ARRAYS, "arrays")
    if found is None:
        refuse_compressed(path)
        raise DataError(f"The folder {path.name} contains no supported data.", HINT)
    return found


def documents(found: Found, options: LoadOptions) -> dict[str, tuple[str, ...]]:
    """The texts of each split, without labels; raises DataError for images."""
    if found.kind in ("image", AUDIO, "mask", "arrays"):
        what = "sounds" if found.kind == AUDIO else "images"
        raise DataError(f"The data are {what}; a language model needs texts.", "Give a text, or a table with texts.")
    return {
        split or ALL: tuple(text for path, _ in files for text in _texts_of(path, found.kind, options))
        for split, files in found.files.items()
    }


def _texts_of(path: Path, kind: str, options: LoadOptions) -> tuple[str, ...]:
    if kind == "plain":
        return (_read_text(path, whole=True),)
    if kind != "table":
        return (_read_text(path),)
    table = read_table(path, options)
    with reading(path, DataError, "cannot be read", "Name the column of texts with --text."):
        return texts_of(table, path.name, options)


def _find_files(folder: Path, suffixes: Collection[str], kind: str) -> Found | None:
    files = sorted(p for p in folder.iterdir() if p.is_file() and p.suffix.lower() in suffixes)
    named: dict[str, tuple[tuple[Path, str], ...]] = {}
    for file in files:
        split = _split_name(file.stem)
        if split:
            named[split] = (*named.get(split, ()), (file, ""))
    if named:
        return Found(kind, named)
    return Found(kind, {LONE: ((files[0], ""),)}) if len(files) == 1 else None


def _split_name(stem: str) -> str | None:
    """Split of a file name: `train`, and `train-00000-of-00002` as the hub names its files."""
    return SPLIT_NAMES.get(stem.lower().replace("_", "-").replace(".", "-").split("-")[0])


def _rows(found: Found, options: LoadOptions) -> Mapping[str, Rows]:
    """The rows of each split, without empty splits; raises NoRowsError if all are empty."""
    rows: dict[str, Rows] = {}
    empty: DataError | None = None
    for split, files in found.files.items():
        try:
            read = _read(found.kind, files, options)
            rows[split or ALL] = replace(read, notes=(*read.notes, *found.notes.get(split, ())))
        except NoRowsError as error:
            empty = error
    if empty is not None and not rows:
        raise empty
    return rows


def _read(kind: str, files: tuple[tuple[Path, str], ...], options: LoadOptions) -> Rows:
    if kind in ("image", AUDIO):
        return Rows(tuple(path for path, _ in files), tuple(name for _, name in files))
    if kind == "text":
        return Rows(tuple(_read_text(path) for path, _ in files), tuple(name for _, name in files))
    parts = [read_rows(path, options) for path, _ in files]
    notes = tuple(dict.fromkeys(note for p in parts for note in p.notes))
    return Rows(tuple(s for p in parts for s in p.samples), tuple(s for p in parts for s in p.labels), notes)


def _read_text(path: Path, whole: bool = False) -> str:
    """A text in UTF-8; `whole`: with its line ends as they are."""
    refuse_utf16(path)
    with reading(path, DataError, "cannot be read", "Texts are UTF-8 files."):
        data = path.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise unreadable(path, error) from error
    text = text if whole else text.replace("\r\n", "\n").replace("\r", "\n")
    if not text.strip():
        raise DataError(f"{path.parent.name}/{path.name} is empty.", "Remove it or write a text into it.")
    return text
