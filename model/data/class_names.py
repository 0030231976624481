"""Class order: named labels take the order of the model's class names, and names that differ are reported."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from espalier.model.borders import read_json, tried
from espalier.model.data.base import Split, TaskData
from espalier.model.errors import DataError

_UNNAMED = re.compile(r"LABEL_\d+|\d+", re.IGNORECASE)


def model_names(source: str | None) -> tuple[str, ...]:
    """The classes of the config.json beside a model's tokenizer, in order; empty if it is missing or has no names."""
    path = local_file(source, "config.json") if source else None
    return tried(lambda: names_of(read_json(path).get("id2label")), ()) if path else ()


def names_of(found: Any) -> tuple[str, ...]:
    """The classes of an `id2label` mapping, whose keys are numbers or numeric strings; empty if they have no names."""
    names = tried(lambda: _in_order({int(at): str(name) for at, name in found.items()}), ())
    return names if named(names) else ()


def _in_order(names: Mapping[int, str]) -> tuple[str, ...]:
    return tuple(names[at] for at in range(len(names)))


def named(classes: Sequence[str]) -> bool:
    """Whether classes have names, not only numbers."""
    return not all(map(_UNNAMED.fullmatch, classes))


def local_file(source: str, name: str) -> Path | None:
    """A file of a folder, or of a cached model of the hub."""
    if Path(source).is_dir():
        return file if (file := Path(source) / name).is_file() else None
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(source, name)
    except HFValidationError:
        return None
    return Path(found) if isinstance(found, str) else None


def in_order_of(data: TaskData, names: tuple[str, ...]) -> TaskData:
    """The data with classes numbered as the model numbers those names; unchanged if a class is not among them.

    Raises DataError if only some of the classes are among them: the others are mistakes, and numbers would be wrong.
    """
    places = {name.strip().casefold(): at for at, name in enumerate(names)}
    if named(names) and data.classes and not named(data.classes) and any(s.classes for s in data.splits.values()):
        return _with_names(data, names)
    own = [places.get(name.strip().casefold()) for name in data.classes]
    unknown = [name for name, at in zip(data.classes, own, strict=True) if at is None]
    if 0 < len(unknown) < len(own) and named(names):
        known = f"{', '.join(names[:6])}{', …' if len(names) > 6 else ''}"
        raise DataError(f"The label {unknown[0]!r} is none of the model's classes: {known}.",
                        "Correct the label, or use a model that has this class.")  # fmt: skip
    if not own or None in own or len(places) < len(names) or len(set(own)) < len(own) or own == list(range(len(names))):
        return data
    order = np.array(own, np.int64)
    splits = {n: _renumbered(s, order, names) for n, s in data.splits.items()}
    return replace(data, classes=names, splits=splits)


def _with_names(data: TaskData, names: tuple[str, ...]) -> TaskData:
    """The data whose labels are numbers with the model's names for them; unchanged if they exceed these."""
    if len(data.classes) > len(names):
        return data
    return replace(data, classes=names, splits={n: replace(s, classes=names) for n, s in data.splits.items()})


def _renumbered(split: Split, order: NDArray[np.int64], names: tuple[str, ...]) -> Split:
    """Class numbers, or columns of sets of classes, as the model has them."""
    if split.labels.dtype.kind == "f":
        labels = np.zeros((len(split), len(names)), np.float32)
        labels[:, order] = split.labels
    else:
        labels = np.where(split.labels < 0, split.labels, order[np.maximum(split.labels, 0)])
    return replace(split, labels=labels, classes=names if split.classes else ())


def misnamed(classes: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, str]:
    """(warning, hint) if labels are not the model's, with the index of each; empty strings otherwise.

    Numbers have to be 0, 1, 2 …: in a file without a row of class 1, label 2 would get index 1.
    """
    known = {name.strip().casefold() for name in names}
    numbers = all(map(_UNNAMED.fullmatch, classes))
    fits = all(int(c.rpartition("_")[2]) == at for at, c in enumerate(classes)) if numbers else not names
    if fits or {c.strip().casefold() for c in classes} <= known:
        return "", ""
    suffixes = [f" {names[at] if at < len(names) else '?'}" if names else "" for at in range(len(classes))]
    shown = [f"{c} counts as {at}{suffixes[at]}" for at, c in enumerate(classes[:4])]
    more = f" and {len(classes) - 4} more" if len(classes) > 4 else ""
    text = f"The data's labels are not the model's: {', '.join(shown)}{more}."
    return text, "Use the model's class names, or numbers from 0."
