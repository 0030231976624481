"""Data sets of the Hugging Face hub, cached or online. Code from the hub is never executed."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from espalier.model.borders import read_bytes
from espalier.model.data import cache
from espalier.model.data.base import SOURCES, DataSource, LoadOptions, TaskData
from espalier.model.data.columns import LABEL_NAMES, choose_columns, one_of
from espalier.model.data.images import Picture, image_data
from espalier.model.data.prepare import text_data
from espalier.model.data.rows import SPLIT_NAMES, Rows, label_name
from espalier.model.data.sounds import sound_data
from espalier.model.data.tables import rows_of, texts_of
from espalier.model.data.wav import LARGEST, Sound, Wave, decoded
from espalier.model.errors import DataError, first_line
from espalier.model.network import offline_if_unreachable

LOCAL = "Download it on a machine with a network and give the folder or file, or use demo:reviews."


def load_hub(name: str, options: LoadOptions) -> TaskData:
    """Load `NAME` or `NAME:CONFIG`, texts, images or sounds; raises DataError without a network or columns."""
    repository, _, config = name.partition(":")
    parts = _download(repository, config or None)
    known = {SPLIT_NAMES[split]: part for split, part in parts.items() if split in SPLIT_NAMES}
    source = f"hub:{name}"
    if not known:
        raise DataError(
            f"{source} has no split named train, validation or test.", f"Its splits: {', '.join(parts) or 'none'}."
        )
    sounds = _column_of("Audio", next(iter(known.values())), options)
    if sounds:
        rows = {split: _sounds(part, sounds, source, options) for split, part in known.items()}
        return sound_data(source, _labelled(rows, source), options)
    pictures = _column_of("Image", next(iter(known.values())), options)
    if pictures:
        rows = {split: _images(part, pictures, source, options) for split, part in known.items()}
        return image_data(source, _labelled(rows, source), options)
    fingerprints = [(split, str(part._fingerprint)) for split, part in known.items()]
    key = cache.key_of((), ["hub", source, fingerprints], options)
    return text_data(
        source, key, lambda: _labelled({s: _texts(part, source, options) for s, part in known.items()}, source), options
    )


def _labelled(rows: dict[str, Rows], source: str) -> dict[str, Rows]:
    """The splits with labels; those of some test sets are hidden as −1."""
    labelled = {split: some for split, some in rows.items() if some.labels and set(some.labels) != {"-1"}}
    if not labelled:
        raise DataError(f"{source} has no split with labels.", f"Its splits: {', '.join(rows)}.")
    return labelled


def _download(repository: str, config: str | None) -> dict[str, Any]:
    datasets: Any = importlib.import_module("datasets")
    online = True
    try:
        with offline_if_unreachable() as online:
            loaded = datasets.load_dataset(repository, config)
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        why = _why(error, online, datasets.exceptions.DatasetNotFoundError)
        raise DataError(f"hub:{repository} cannot be loaded: {why}.", LOCAL) from error
    return {str(split): part for split, part in loaded.items()}


def _why(error: Exception, online: bool, missing: type[Exception]) -> str:
    """Reason of a failed download."""
    if not online and isinstance(error, ConnectionError | FileNotFoundError):
        return "the hub cannot be reached, and it is not cached"
    if isinstance(error, missing):
        return "the hub has no such data set, or you have no access to it"
    return first_line(error).rstrip(".")


def _texts(part: Any, source: str, options: LoadOptions) -> Rows:
    form = options.form
    _, label = choose_columns(part.column_names, options.text, options.label, source, form.texts, form.labels)
    rows = (form.rows or rows_of)(part.to_pandas(), source, options)
    return Rows(rows.samples, _class_names(part, label, rows.labels), rows.notes)


def _class_names(part: Any, label: str, labels: tuple[Any, ...]) -> tuple[Any, ...]:
    """The labels with the publisher's class names in place of numbers, if there are any; of lists in each."""
    feature = part.features[label]
    names = getattr(getattr(feature, "feature", feature), "names", None)
    if not names:
        return labels
    if any(isinstance(at, tuple) for at in labels):
        return tuple(tuple(_class_name(names, inner) for inner in at) for at in labels)
    return tuple(_class_name(names, at) for at in labels)


def _class_name(names: list[str], at: Any) -> str:
    return names[int(at)] if int(at) >= 0 else label_name(at)


def _column_of(kind: str, part: Any, options: LoadOptions) -> str:
    """The column of images or sounds: the requested one, or the first; empty if it is not one or there is none."""
    columns = [name for name, feature in part.features.items() if type(feature).__name__ == kind]
    if options.text is not None:
        return options.text if options.text in columns else ""
    return columns[0] if columns else ""


def _images(part: Any, column: str, source: str, options: LoadOptions) -> Rows:
    """Rows of images, each decoded when it is read."""
    label = one_of(part.column_names, options.label, LABEL_NAMES, "--label", source)
    labels = tuple(label_name(value) for value in part[label])
    samples = tuple(Picture(f"{source} row {row}", lambda row=row: part[row][column]) for row in range(len(labels)))
    return Rows(samples, _class_names(part, label, labels))


def _sounds(part: Any, column: str, source: str, options: LoadOptions) -> Rows:
    """Rows of sounds, whose files are decoded here: the library's own decoder needs further packages."""
    datasets: Any = importlib.import_module("datasets")
    label = one_of(part.column_names, options.label, LABEL_NAMES, "--label", source)
    labels = tuple(label_name(value) for value in part[label])
    files = part.cast_column(column, datasets.Audio(decode=False))

    def read(row: int) -> Wave:
        entry = files[row][column]
        return decoded(entry["bytes"] if entry["bytes"] is not None else read_bytes(Path(entry["path"]), LARGEST))

    samples = tuple(Sound(f"{source} row {row}", lambda row=row: read(row)) for row in range(len(labels)))
    return Rows(samples, _class_names(part, label, labels))


def hub_texts(name: str, options: LoadOptions) -> dict[str, tuple[str, ...]]:
    """The texts of each split of `NAME` or `NAME:CONFIG`, which needs no labels; raises DataError."""
    repository, _, config = name.partition(":")
    parts = _download(repository, config or None)
    source = f"hub:{name}"
    return {SPLIT_NAMES[split]: texts_of(part.to_pandas(), source, options)
            for split, part in parts.items() if split in SPLIT_NAMES}  # fmt: skip


SOURCES.add("hub", DataSource(load_hub, texts=hub_texts))
