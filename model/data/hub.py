"""Data sets of the Hugging Face hub, from its cache or online. Code from the hub is never run."""

from __future__ import annotations

import importlib
from typing import Any

from espalier.model.data import cache
from espalier.model.data.base import SOURCES, DataSource, LoadOptions, TaskData
from espalier.model.data.columns import LABEL_NAMES, choose_columns, one_of
from espalier.model.data.images import Picture, image_data
from espalier.model.data.prepare import text_data
from espalier.model.data.rows import SPLIT_NAMES, Rows, label_name
from espalier.model.data.tables import rows_of
from espalier.model.errors import DataError, first_line
from espalier.model.network import offline_if_unreachable

LOCAL = "Download it where there is a network and give the folder or file, or use demo:reviews."


def load_hub(name: str, options: LoadOptions) -> TaskData:
    """`NAME` or `NAME:CONFIG`, texts or images; raises DataError if it cannot be reached, or lacks the columns."""
    repository, _, config = name.partition(":")
    parts = _download(repository, config or None)
    known = {SPLIT_NAMES[split]: part for split, part in parts.items() if split in SPLIT_NAMES}
    source = f"hub:{name}"
    if not known:
        raise DataError(f"{source} has no split that is known.", f"Its splits: {', '.join(parts) or 'none'}.")
    pictures = _image_column(next(iter(known.values())), options)
    if pictures:
        rows = {split: _images(part, pictures, source, options) for split, part in known.items()}
        return image_data(source, _labelled(rows, source), options)
    prints = [(split, str(part._fingerprint)) for split, part in known.items()]  # of the content, by its publisher
    key = cache.key_of((), ["hub", source, prints], options)
    return text_data(
        source, key, lambda: _labelled({s: _texts(part, source, options) for s, part in known.items()}, source), options
    )


def _labelled(rows: dict[str, Rows], source: str) -> dict[str, Rows]:
    """Without the splits whose labels are hidden, as those of some test sets are."""
    found = {split: some for split, some in rows.items() if some.labels and set(some.labels) != {"-1"}}
    if not found:
        raise DataError(f"{source} has no split with labels.", f"Its splits: {', '.join(rows)}.")
    return found


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
    """What is known of a failure: only one that says so is a data set that is not there."""
    if not online and isinstance(error, ConnectionError | FileNotFoundError):
        return "the hub cannot be reached, and it is not cached"
    if isinstance(error, missing):
        return "the hub has no such data set that is open to you"
    return first_line(error).rstrip(".")


def _texts(part: Any, source: str, options: LoadOptions) -> Rows:
    _, label = choose_columns(part.column_names, options.text, options.label, source)
    rows = rows_of(part.to_pandas(), source, options)
    return Rows(rows.samples, _class_names(part, label, rows.labels))


def _class_names(part: Any, label: str, labels: tuple[str, ...]) -> tuple[str, ...]:
    """The names that the publisher gave to the numbers, where there are any."""
    names = getattr(part.features[label], "names", None)
    if not names:
        return labels
    return tuple(names[int(at)] if int(at) >= 0 else label_name(at) for at in labels)


def _image_column(part: Any, options: LoadOptions) -> str:
    """The column of pictures: the one that is named, if it holds some, or the only one; empty where there is none."""
    found = [name for name, kind in part.features.items() if type(kind).__name__ == "Image"]
    if options.text is not None:
        return options.text if options.text in found else ""
    return found[0] if found else ""


def _images(part: Any, column: str, source: str, options: LoadOptions) -> Rows:
    """Pictures are decoded when they are read, one after another."""
    label = one_of(part.column_names, options.label, LABEL_NAMES, "--label", source)
    labels = tuple(label_name(value) for value in part[label])
    samples = tuple(Picture(f"{source} row {row}", lambda row=row: part[row][column]) for row in range(len(labels)))
    return Rows(samples, _class_names(part, label, labels))


SOURCES.add("hub", DataSource(load_hub))
