"""Data sets as named splits of arrays in the form that a model takes; what reads them registers in `SOURCES`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from espalier.model.errors import DataError
from espalier.model.registry import Registry

Array = NDArray[Any]
Inputs = dict[str, Array]
ALL = "all"  # name of the split of all samples
CLASSIFICATION, NEXT_TOKEN = "classification", "next-token"  # what the labels are: see `TaskData.task`
USUAL_LENGTH = 512  # tokens of a text, if neither model nor tokenizer sets a limit


@dataclass(frozen=True, slots=True)
class Split:
    """Samples in the form that the model takes.

    inputs: by the model's input name, first axis = sample. Text: `input_ids`, `attention_mask`, int64 [n, seq],
    padded to the longest sample. Images: `x`, float32 [n, c, h, w], 0…1. labels: int64 [n], index into `classes`;
    of windows of a text int64 [n, seq], the next token of each position. lengths: int64 [n], tokens of each text before
    truncation; None for images and windows. name: of the split. text_bytes: int64 [n], UTF-8 bytes of the text that a
    window's labels are tokens of; None for other samples.
    """

    inputs: Inputs
    labels: Array
    lengths: Array | None = None
    name: str = ""
    text_bytes: Array | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def targets(self) -> int:
        """Number of labels: the samples, or the tokens of all windows."""
        return int(self.labels.size)

    def take(self, limit: int | None) -> Split:
        """The first `limit` samples; all if None."""
        if limit is None or limit >= len(self):
            return self
        return self.rows(slice(limit))

    def rows(self, which: Array | slice) -> Split:
        """The samples at these indices, in this order."""
        lengths, text_bytes = (None if a is None else a[which] for a in (self.lengths, self.text_bytes))
        inputs = {name: array[which] for name, array in self.inputs.items()}
        return Split(inputs, self.labels[which], lengths, self.name, text_bytes)

    def batches(self, size: int) -> Iterator[tuple[Inputs, Array]]:
        """(inputs, labels) of `size` samples in order; the last may be smaller."""
        for start in range(0, len(self), size):
            part = slice(start, start + size)
            yield {name: array[part] for name, array in self.inputs.items()}, self.labels[part]


@dataclass(frozen=True, slots=True)
class TaskData:
    """A data set. kind: "text" or "image"; texts: the raw rows by split, empty for images.

    empty: file names of splits without rows. notes: conversions of the samples to fit the model. task:
    "classification", or "next-token" for windows of a text, which have no classes.
    """

    name: str
    kind: str
    classes: tuple[str, ...]
    splits: dict[str, Split]
    texts: dict[str, tuple[str, ...]]
    empty: dict[str, str] = field(default_factory=dict[str, str])
    notes: tuple[str, ...] = ()
    task: str = CLASSIFICATION

    def split(self, name: str) -> Split:
        """The split of this name (`train`, `validation`, `test`), or `all`; raises DataError listing the splits."""
        if name in self.splits:
            return self.splits[name]
        if name == ALL and self.splits:
            return join(list(self.splits.values()))
        if name in self.empty:
            raise DataError(
                f"{self.empty[name]} holds no rows.", f"Fill it, or choose another split: {', '.join(self.splits)}."
            )
        names = (*self.splits, *((ALL,) if ALL not in self.splits else ()))
        raise DataError(f"{self.name} has no split {name!r}.", f"There are: {', '.join(names)}.")

    def only(self, name: str) -> TaskData:
        """The data set with one split; raises DataError."""
        return replace(self, splits={name: self.split(name)}, texts={n: t for n, t in self.texts.items() if n == name})

    def take(self, limit: int | None) -> TaskData:
        """Truncate every split to its first `limit` samples."""
        return replace(
            self,
            splits={name: split.take(limit) for name, split in self.splits.items()},
            texts={name: rows[:limit] for name, rows in self.texts.items()},
        )


def join(parts: Sequence[Split]) -> Split:
    """Concatenate the labelled samples of several splits; texts are padded to the longest."""
    if len({p.labels.shape[1:] for p in parts}) > 1:
        raise DataError("The splits have windows of different lengths.", "Choose one split, or a smaller max_length.")
    labels = np.concatenate([p.labels for p in parts])
    labelled = labels >= 0 if labels.ndim == 1 else np.ones(len(labels), bool)  # the hub hides some labels as −1
    names = list(parts[0].inputs)
    inputs = {
        n: np.concatenate(_padded([p.inputs[n] for p in parts], _padding_value(n, parts)))[labelled] for n in names
    }
    lengths, sizes = (_joined([getattr(p, name) for p in parts], labelled) for name in ("lengths", "text_bytes"))
    return Split(inputs, labels[labelled], lengths, text_bytes=sizes)


def _joined(arrays: list[Array | None], chosen: Array) -> Array | None:
    known = [a for a in arrays if a is not None]
    return np.concatenate(known)[chosen] if len(known) == len(arrays) else None


def _padded(arrays: list[Array], value: int) -> list[Array]:
    if arrays[0].ndim != 2:
        return arrays
    longest = max(a.shape[1] for a in arrays)
    return [np.pad(a, ((0, 0), (0, longest - a.shape[1])), constant_values=value) for a in arrays]


def padded_to(split: Split, width: int) -> Split:
    """Pad texts to `width` tokens."""
    inputs = {
        name: np.pad(
            array, ((0, 0), (0, max(0, width - array.shape[1]))), constant_values=_padding_value(name, [split])
        )
        for name, array in split.inputs.items()
    }
    return replace(split, inputs=inputs)


def _padding_value(name: str, parts: Sequence[Split]) -> int:
    """Padding of an input: for `input_ids` the token at a masked position, if there is one; otherwise 0."""
    for part in parts if name == "input_ids" else ():
        hidden = part.inputs[name][part.inputs.get("attention_mask", np.ones(1)) == 0]
        if hidden.size:
            return int(hidden.flat[0])
    return 0


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Options of reading rows and converting them to inputs; see `loading.load_data`.

    max_length: tokens of a text, the rest is truncated, or of a window; set by the caller from the model's limit.
    image: channels, height and width that images are converted to, 0 to keep one. task: as of `TaskData`.
    """

    tokenizer: str | Path | None = None
    text: str | None = None
    label: str | None = None
    max_length: int = USUAL_LENGTH
    limit: int | None = None
    seed: int = 0
    splits: tuple[str, ...] | None = None
    whole: bool = False
    image: tuple[int, int, int] | None = None
    task: str = CLASSIFICATION


@dataclass(frozen=True, slots=True)
class DataSource:
    """Data with names such as `hub:sst2`: `load(name, options)` gets what follows the colon, and raises DataError.

    files: the files that a name is read from, so that a change is noticed. texts: the texts of each split, for language
    models; None: those of `load`.
    """

    load: Callable[[str, LoadOptions], TaskData]
    files: Callable[[str], Iterable[Path]] = lambda name: ()
    texts: Callable[[str, LoadOptions], dict[str, tuple[str, ...]]] | None = None


_OURS = ("espalier.model.data.demo", "espalier.model.data.hub", "espalier.model.data.memory")
SOURCES: Registry[str, DataSource] = Registry("data source", DataError, _OURS)


def source_of(spec: str) -> tuple[DataSource | None, str]:
    """The source of a prefix, and the name without it; None for a file or folder."""
    prefix, colon, name = spec.partition(":")
    source = SOURCES.find(prefix) if colon else None
    return source, name if source else spec


def sound(prefix: str, data: object) -> TaskData:
    """What a source returned, which a plug-in may have made wrongly."""
    if not isinstance(data, TaskData):
        raise DataError(f"The data source {prefix} returned a {type(data).__name__}.", "Return a TaskData.")
    for split, held in data.splits.items():
        for name, array in held.inputs.items():
            if len(array) != len(held):
                text = f"The split {split} of {data.name} has {len(array)} samples of {name} and {len(held)} labels."
                raise DataError(text, "Give each sample one label.")
    return data
