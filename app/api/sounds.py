"""Sounds in Python, as data sets of Hugging Face hold them: {"array": …, "sampling_rate": …} with a label."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from espalier.model.data.base import ALL, CLASSIFICATION, LoadOptions, TaskData
from espalier.model.data.label_forms import sets_of
from espalier.model.data.labelled_arrays import MOST_CLASSES
from espalier.model.data.rows import SPLIT_NAMES, Rows, find_classes, label_name
from espalier.model.data.sounds import sound_data
from espalier.model.data.tables import is_list
from espalier.model.data.wav import Sound, Wave, of_array
from espalier.model.errors import DataError, nearest
from espalier.model.sources.reading import Limits, Reading
from espalier.passes.tasks.base import TASKS, recognised
from espalier.passes.tasks.multi_label import MULTI_LABEL

ARRAY, RATE = "array", "sampling_rate"
_NUMBER = re.compile(r"-?\d+")
LABELS = ("labels", "label", "y", "target", "class")
SHAPES = "Give [({'array': …, 'sampling_rate': …}, label), …], or dicts with audio and label."


def sounds_of(data: Any, reading: Reading) -> TaskData | None:
    """The sounds in the model's inputs; None for other data. Raises DataError."""
    named = cast("Mapping[Any, Any]", data) if isinstance(data, Mapping) else {}
    parts = {SPLIT_NAMES[k]: v for k, v in named.items()} if named and set(named) <= set(SPLIT_NAMES) else {ALL: data}
    if not all(_holds_sounds(part) for part in parts.values()):
        return None
    pairs = {split: _pairs(part) for split, part in parts.items()}
    sets = all(is_list(label) for part in pairs.values() for _, label in part)
    limits = reading.limits or Limits()
    task = TASKS.get(recognised(reading.limits) or (MULTI_LABEL if sets else CLASSIFICATION))
    rows = {split: _rows(part, task.name == MULTI_LABEL) for split, part in pairs.items()}
    options = LoadOptions(tokenizer=reading.tokenizer, whole=True, task=task.name, form=task.form,
                          signal=limits.signal, masked=limits.masked)  # fmt: skip
    if task.form.targets is None:
        options = replace(options, form=replace(task.form, targets=lambda splits, _: _classes(splits, reading)))
    return sound_data(f"{type(data).__name__} in Python", rows, options)


def _holds_sounds(data: Any) -> bool:
    """Whether the first item of a list or a data set is a sound with a label."""
    if isinstance(data, str | bytes | Mapping) or not hasattr(data, "__getitem__") or not hasattr(data, "__len__"):
        return False
    return len(data) > 0 and _pair(data[0]) is not None


def _pair(item: Any) -> tuple[Mapping[str, Any], Any] | None:
    """(sound, label) of a pair or a dict; None for others."""
    if isinstance(item, tuple | list) and len(cast("tuple[Any, ...]", item)) == 2:
        sound, label = cast("tuple[Any, Any]", item)
    elif isinstance(item, Mapping):
        row = cast("Mapping[str, Any]", item)
        sound = next((value for value in row.values() if _is_sound(value)), None)
        label = next((row[name] for name in LABELS if name in row), None)
    else:
        return None
    if not _is_sound(sound) or label is None:
        return None
    return cast("Mapping[str, Any]", sound), label


def _is_sound(value: Any) -> bool:
    return isinstance(value, Mapping) and ARRAY in value and RATE in value


Labelled = tuple[Mapping[str, Any], Any]  # a sound and its label


def _pairs(data: Any) -> list[Labelled]:
    """The items of a list or a data set, of which each is read once."""
    pairs = [_pair(data[at]) for at in range(len(data))]
    if None in pairs:
        raise DataError(f"Sample {pairs.index(None)} is no sound with a label.", SHAPES)
    return [pair for pair in pairs if pair is not None]


def _rows(pairs: Sequence[Labelled], sets: bool) -> Rows:
    """Sounds with labels; `sets`: each label is a list of classes, or a row of zeros and ones."""
    sounds = tuple(_sound(f"sample {at}", sound) for at, (sound, _) in enumerate(pairs))
    labels = [label for _, label in pairs]
    return Rows(sounds, sets_of(labels) if sets else tuple(map(_label, labels)))


def _sound(name: str, value: Mapping[str, Any]) -> Sound:
    def read() -> Wave:
        return of_array(np.asarray(value[ARRAY]), int(value[RATE]))

    return Sound(name, read)


def _label(value: Any) -> Any:
    """A class name, or a number; a set of these of a list."""
    if is_list(value):
        return tuple(label_name(one) for one in value)
    return label_name(value.item() if hasattr(value, "item") else value)


def _classes(splits: Mapping[str, Rows], reading: Reading) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The classes and numbers of labels: whole numbers are class numbers, others names."""
    labels = [label for rows in splits.values() for label in rows.labels]
    if any(isinstance(label, tuple) for label in labels):
        raise DataError("Labels are lists, and the model has one class a sample.",
                        "Give one label a sample, or use a multi-label model.")  # fmt: skip
    if all(_NUMBER.fullmatch(label) for label in labels):
        count = max(map(int, labels), default=-1) + 1
        if count > MOST_CLASSES:
            raise DataError(f"The label {count - 1:,} is no class number.", "Give class numbers from 0, or names.")
        names = reading.classes if len(reading.classes) >= count else tuple(map(str, range(count)))
        return names, {split: np.array([int(label) for label in rows.labels], np.int64)
                       for split, rows in splits.items()}  # fmt: skip
    names = reading.classes or find_classes(splits, "the data")
    places = {name.strip().casefold(): at for at, name in enumerate(names)}
    if wrong := next((label for label in labels if label.casefold() not in places), None):
        raise DataError(f"{wrong!r} is not a class of the model.", nearest(wrong, names))
    return names, {split: np.array([places[label.casefold()] for label in rows.labels], np.int64)
                   for split, rows in splits.items()}  # fmt: skip
