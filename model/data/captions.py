"""Images with captions, for models with an encoder of each: a table that names files, an `.npz` file or a program."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from espalier.model.borders import reading
from espalier.model.data.base import ALL, Array, LoadOptions, Split, TaskData, padded_to, sound, source_of
from espalier.model.data.caption_files import caption_tables
from espalier.model.data.image_processors import FILES, Processor, find_processor
from espalier.model.data.images import FORMATS, Picture, Source, pillow
from espalier.model.data.npz import read_arrays
from espalier.model.data.rows import Rows, arrange
from espalier.model.data.tables import is_list, labelled_texts, read_table
from espalier.model.data.tokens import open_tokenizer
from espalier.model.errors import DataError

CONTRASTIVE, SIGMOID = "contrastive", "sigmoid-contrastive"  # tasks
IMAGES = ("file_name", "filename", "file", "image", "image_path", "filepath", "path")
CAPTIONS = ("caption", "captions", "text", "description", "sentence", "title")
FORM = "Write it with numpy.savez(FILE, x=…, y=…): x [n, channels, height, width], y [n] captions."


@dataclass(frozen=True, slots=True)
class Pair:
    """An entry of a split's table: numbers of the image and of the caption, which equal ones share."""

    image: int
    caption: int
    text: str

    def entry(self) -> str:
        """As text."""
        return json.dumps([self.image, self.caption, self.text])

    @staticmethod
    def of(entry: str) -> Pair:
        """The pair of an entry."""
        return Pair(*json.loads(entry))


def load_captions(spec: str, options: LoadOptions) -> TaskData:
    """Images with captions of a folder, a table, an `.npz` file or a source; raises DataError."""
    source, name = source_of(spec)
    if source is not None:
        return sound(spec.partition(":")[0], source.load(name, options))
    path = Path(spec).expanduser()
    if path.suffix.lower() == ".npz" and path.is_file():
        parts = read_arrays({"": [(path, "")]}, FORM)
        return caption_data(
            path.name, {split: _array_rows(p.path.name, p.x, p.y) for split, p in parts.items()}, options
        )
    tables = caption_tables(path)
    return caption_data(path.name, {split or ALL: _rows(file, options) for split, file in tables.items()}, options)


def _rows(path: Path, options: LoadOptions) -> Rows:
    """A row for each caption; a cell may list several. Raises DataError for files that are not below the table."""
    table = read_table(path, options)
    with reading(path, DataError, "cannot be read", "Name the columns of files and captions with --text and --label."):
        names, cells, _ = labelled_texts(table, path.name, options, ("file name", "caption"))
    files, captions, home = list[Path](), list[str](), path.parent.resolve()
    for row, (name, cell) in enumerate(zip(names, cells, strict=True), 1):
        with reading(f"Row {row} of {path.name}", DataError, "names no file", "Give the name of an image."):
            exists = (file := (home / name).resolve()).is_file()
        if not file.is_relative_to(home):
            raise DataError(f"Row {row} of {path.name} names {name!r}, which is outside the folder {home.name}.",
                            "Give paths relative to the table, of files below it.")  # fmt: skip
        if not exists:
            raise DataError(f"Row {row} of {path.name} names the image {name!r}, which does not exist.",
                            "Add the file, or remove the row.")  # fmt: skip
        several: list[Any] = list(cell) if is_list(cell) else [cell]
        files += [file] * len(several)
        captions += [str(text) for text in several]
    return Rows(tuple(files), tuple(captions))


def _array_rows(name: str, x: Array, y: Array) -> Rows:
    if x.ndim != 4 or y.ndim != 1 or len(x) != len(y) or y.dtype.kind != "U" or x.dtype.kind not in "uf":
        kinds = " and ".join(f"{a.dtype} {' × '.join(map(str, a.shape))}" for a in (x, y))
        raise DataError(f"x and y of {name} are {kinds}.", FORM)
    return Rows(tuple(picture_of(f"{name} row {at}", values) for at, values in enumerate(x)), tuple(y.tolist()))


def picture_of(name: str, values: Array) -> Picture:
    """An image of an array [channels, height, width]: bytes, or numbers in 0 … 1."""

    def opened() -> Any:
        pixels = values if values.dtype == np.uint8 else np.clip(values * 255 + 0.5, 0, 255).astype(np.uint8)
        return pillow().fromarray(pixels[0] if len(pixels) == 1 else np.ascontiguousarray(pixels.transpose(1, 2, 0)))

    return Picture(name, opened)


def caption_data(name: str, splits: Mapping[str, Rows], options: LoadOptions) -> TaskData:
    """`pixel_values` float32 [n, c, h, w], `input_ids` and `attention_mask` int64 [n, tokens]; raises DataError.

    A row for each caption, rows of an image together. Texts are padded to `max_length`, as SigLIP reads the last
    position. labels: int64 [n], index into the table of `Pair`s. groups: int64 [n], numbers of the images.
    """
    if options.tokenizer is None:
        raise DataError("These are captions, and the model has no tokenizer.", "Name one with --tokenizer.")
    for split, rows in splits.items():
        if (row := next((at for at, text in enumerate(rows.labels) if not text.strip()), None)) is not None:
            raise DataError(f"Row {row + 1} of {split} of {name} has an empty caption.", "Write one, or remove it.")
    rows = {split: _together(part) for split, part in splits.items()}
    images = {split: list(dict.fromkeys(part.samples)) for split, part in rows.items()}
    order = arrange({split: len(some) for split, some in images.items()}, options, name)
    processor, encode = find_processor(options.tokenizer), open_tokenizer(options.tokenizer)
    table, made, texts = list[str](), dict[str, Split](), dict[str, tuple[str, ...]]()
    numbers, last = dict[str, int](), 0  # of captions and images of all splits
    for split, (of, at) in order.items():
        chosen = {source: number for number, source in enumerate((images[of][i] for i in at.tolist()), last)}
        part = rows[of]
        places = sorted((i for i, s in enumerate(part.samples) if s in chosen), key=lambda i: chosen[part.samples[i]])
        captions = tuple(part.labels[i] for i in places)
        pixels = [_pixels(source, processor, options.signal) for source in chosen]
        _check_sizes(list(chosen), pixels, options.signal)
        groups = np.array([chosen[part.samples[i]] for i in places], np.int64)
        numbers |= {
            text: number
            for number, text in enumerate(dict.fromkeys(t for t in captions if t not in numbers), len(numbers))
        }
        first, begin, last = len(table), last, last + len(chosen)
        table += [Pair(int(g), numbers[text], text).entry() for g, text in zip(groups, captions, strict=True)]
        # The text after the last makes the padding known, whatever the lengths.
        inputs, lengths = encode((*captions, "."), options.max_length)
        labels = np.arange(first, first + len(captions), dtype=np.int64)
        stacked = np.stack(pixels)[groups - begin] if pixels else np.zeros((0, *(options.signal or ())), np.float32)
        padded = padded_to(Split(inputs, np.arange(len(captions) + 1)), options.max_length).inputs
        own = {"pixel_values": stacked, **{key: array[:-1] for key, array in padded.items()}}
        made[split] = Split(own, labels, lengths[:-1], task=options.task, groups=groups)
        texts[split] = captions
    made = {split: replace(part, table=tuple(table)) for split, part in made.items()}
    notes = () if processor else (f"The model has no {FILES[0]}: images are resized, with values in 0 … 1.",)
    return TaskData(name, "image", (), made, texts, notes=notes, task=options.task)


def _together(rows: Rows) -> Rows:
    """Rows of an image one after the other; equal captions of an image once."""
    pairs = dict.fromkeys(zip(rows.samples, (text.strip() for text in rows.labels), strict=True))
    by_image: dict[Source, list[str]] = {}
    for source, text in pairs:
        by_image.setdefault(source, []).append(text)
    flat = [(source, text) for source, texts in by_image.items() for text in texts]
    return Rows(tuple(source for source, _ in flat), tuple(text for _, text in flat), rows.notes)


def _pixels(source: Source, processor: Processor | None, shape: tuple[int, ...] | None) -> Array:
    """float32 [channels, height, width] of an image; raises DataError."""
    name = source.name if isinstance(source, Picture) else f"{source.parent.name}/{source.name}"
    with reading(name, DataError, "is not a readable image", "Remove it."):
        with source.open() if isinstance(source, Picture) else pillow().open(source, formats=FORMATS) as image:
            image = image.convert("RGB")
        if processor is not None:
            return processor(image)
        _, height, width = shape if shape and len(shape) == 3 else (3, 0, 0)
        size = width or image.width, height or image.height
        image = image if image.size == size else image.resize(size, pillow().Resampling.BICUBIC)
        return np.asarray(image, np.float32).transpose(2, 0, 1) / 255


def _check_sizes(sources: Sequence[Source], pixels: Sequence[Array], shape: tuple[int, ...] | None) -> None:
    """Raise DataError for an image of another size than the model's, or than the first."""
    wanted = shape if shape and all(shape) else pixels[0].shape if pixels else ()
    for source, array in zip(sources, pixels, strict=True):
        if array.shape != wanted:
            own, other = (" × ".join(map(str, size)) for size in (array.shape, wanted))
            raise DataError(f"The image {source.name} is {own} (channels × height × width) after its processing, "
                            f"not {other}.", "Use the image processor of the model.")  # fmt: skip
