"""Data sets as named splits of arrays in the form that a model takes; what reads them registers in `SOURCES`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
CLASSIFICATION, NEXT_TOKEN = "classification", "next-token"  # names of tasks that data have where none is named
DECODER = "decoder_"  # prefix of inputs with the length of the target
IGNORED = -100  # label of a position that does not count, as in transformers
ROWED = ("lengths", "text_bytes", "groups")  # further arrays of a split with an entry a row
USUAL_LENGTH = 512  # tokens of a text, if neither model nor tokenizer sets a limit


@dataclass(frozen=True, slots=True)
class Split:
    """Samples in the form that the model takes.

    inputs: by the model's input name, first axis = sample. Text: `input_ids`, `attention_mask`, int64 [n, seq],
    padded to the longest sample. Images: `x`, float32 [n, c, h, w], 0…1. Sounds: `x` or as the model's feature
    extractor names them, float32 [n, samples] or [n, …] features. labels: as the task has them: int64 [n], index
    into `classes`; int64 [n, seq], of each position, IGNORED where none counts; float32 [n, classes], 1 for each class
    that applies; float32 [n], numbers; int16 or int64 [n, h, w], of each pixel. lengths: int64 [n], tokens of each text
    before truncation; None for images and windows. name: of the split. text_bytes: int64 [n], UTF-8 bytes of the text
    that a window's labels are tokens of; None for other samples. task: its name; empty: by the labels' shape, a class
    or the next token. classes: names of the labels, for metrics that depend on them. groups: int64 [n], the sample that
    each row is a part of, rows of one sample together; None: each row is a sample. table: texts that labels are indices
    into, of all splits.
    """

    inputs: Inputs
    labels: Array
    lengths: Array | None = None
    name: str = ""
    text_bytes: Array | None = None
    task: str = ""
    classes: tuple[str, ...] = ()
    groups: Array | None = None
    table: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def targets(self) -> int:
        """Number of labels that count: the samples, or the positions with a label."""
        return int((self.labels != IGNORED).sum()) if self.labels.dtype.kind in "iu" else len(self)

    @property
    def predicts(self) -> str:
        """The name of the task."""
        return self.task or task_of_labels(self.labels)

    def take(self, limit: int | None) -> Split:
        """The first `limit` samples; all if None."""
        if limit is None or limit >= self.samples:
            return self
        return self.rows(slice(int(self.starts[limit])))

    @property
    def starts(self) -> Array:
        """int64 [samples]: the first row of each sample."""
        if self.groups is None:
            return np.arange(len(self))
        return np.flatnonzero(np.diff(self.groups, prepend=self.groups[:1] - 1))

    @property
    def samples(self) -> int:
        """Number of samples."""
        return len(self.starts)

    def of_samples(self, which: Array) -> Array:
        """The indices of the rows of these samples, in this order."""
        if self.groups is None:
            return which
        parts = np.split(np.arange(len(self)), self.starts[1:])
        return np.concatenate([parts[at] for at in which.tolist()] or [np.arange(0)])

    def rows(self, which: Array | slice) -> Split:
        """The samples at these indices, in this order."""
        inputs = {name: array[which] for name, array in self.inputs.items()}
        known = {name: array[which] for name in ROWED if (array := getattr(self, name)) is not None}
        return replace(self, inputs=inputs, labels=self.labels[which], **known)

    def batches(self, size: int) -> Iterator[tuple[Inputs, Array]]:
        """(inputs, labels) of `size` samples in order; the last may be smaller."""
        for start in range(0, len(self), size):
            part = slice(start, start + size)
            yield {name: array[part] for name, array in self.inputs.items()}, self.labels[part]


def non_finite_rows(array: Array) -> Array:
    """bool [n]: which samples hold NaN or infinite numbers."""
    if array.dtype.kind != "f":
        return np.zeros(len(array), bool)
    sound = np.asarray(np.isfinite(array).all(axis=tuple(range(1, array.ndim))))
    return ~sound


def non_finite_text(count: int, total: int, name: str) -> str:
    """`NaN or infinite numbers are in 2 of 53 samples of x.npz`."""
    return f"NaN or infinite numbers are in {count} of {total} samples of {name}"


def task_of_labels(labels: Any) -> str:
    """The task of labels whose task has no name: the next token of each position, or one class a sample."""
    return NEXT_TOKEN if labels.ndim == 2 else CLASSIFICATION


@dataclass(frozen=True, slots=True)
class TaskData:
    """A data set. kind: "text", "image", "audio" or "array"; texts: the raw rows by split, empty for other kinds.

    empty: file names of splits without rows. notes: conversions of the samples to fit the model. task: its name.
    split_notes: those of each split, where they are counted for each.
    """

    name: str
    kind: str
    classes: tuple[str, ...]
    splits: dict[str, Split]
    texts: dict[str, tuple[str, ...]]
    empty: dict[str, str] = field(default_factory=dict[str, str])
    notes: tuple[str, ...] = ()
    task: str = CLASSIFICATION
    split_notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def notes_of(self, split: str) -> tuple[str, ...]:
        """The conversions of a split's samples; of all samples where they are not counted for each split."""
        return self.split_notes.get(split, self.notes)

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
        texts = {n: t for n, t in self.texts.items() if n == name}
        return replace(self, splits={name: self.split(name)}, texts=texts, notes=self.notes_of(name))

    def take(self, limit: int | None) -> TaskData:
        """Truncate every split to its first `limit` samples."""
        return replace(
            self,
            splits={name: split.take(limit) for name, split in self.splits.items()},
            texts={name: rows[:limit] for name, rows in self.texts.items()},
        )


def join(parts: Sequence[Split]) -> Split:
    """Concatenate the labelled samples of several splits; texts are padded to the longest."""
    given = [p.labels for p in parts]
    if len({a.shape[1:] for a in given}) > 1:
        if parts[0].lengths is None:
            text = "The splits have windows of different lengths."
            raise DataError(text, "Choose one split, or a smaller max_length.")
        given = _padded(given, IGNORED)  # of texts, a label a position
    labels = np.concatenate(given)
    classes = labels.ndim == 1 and labels.dtype.kind in "iu"
    labelled = labels >= 0 if classes else np.ones(len(labels), bool)  # the hub hides some labels as −1
    names = list(parts[0].inputs)
    inputs = {
        n: np.concatenate(_padded([p.inputs[n] for p in parts], _padding_value(n, parts)))[labelled] for n in names
    }
    known = {name: _joined([getattr(p, name) for p in parts], labelled) for name in ROWED}
    return replace(parts[0], inputs=inputs, labels=labels[labelled], name="", **known)


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
    labels = split.labels
    if labels.ndim == 2 and labels.dtype.kind in "iu":
        labels = np.pad(labels, ((0, 0), (0, max(0, width - labels.shape[1]))), constant_values=IGNORED)
    return replace(split, inputs=inputs, labels=labels)


def _padding_value(name: str, parts: Sequence[Split]) -> int:
    """Padding of an input: for `input_ids` the token at a masked position, if there is one; otherwise 0."""
    for part in parts if name == "input_ids" else ():
        hidden = part.inputs[name][part.inputs.get("attention_mask", np.ones(1)) == 0]
        if hidden.size:
            return int(hidden.flat[0])
    return 0


class OtherLabelsError(DataError):
    """The labels have another form than the task reads.

    form: "lists" of labels of a row, "tags" of its words, or "masks" of images.
    """

    def __init__(self, message: str, hint: str = "", form: str = "") -> None:
        super().__init__(message, hint)
        self.form = form


@dataclass(frozen=True, slots=True)
class LabelForm:
    """How a task reads labels; an empty entry reads one class a sample.

    rows: (table, name, options) → Rows. targets: (rows by split, name) → classes, and the labels of each split.
    samples: (rows by split, name, options) → the tokenised data, for labels that depend on tokens. load: (name,
    options) → the data, for texts without rows. labels, texts: common names of columns.
    """

    rows: Callable[[Any, str, LoadOptions], Any] | None = None
    targets: Callable[[Any, str], tuple[tuple[str, ...], dict[str, Array]]] | None = None
    samples: Callable[[Any, str, LoadOptions], TaskData] | None = None
    load: Callable[[str, LoadOptions], TaskData] | None = None
    labels: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()


CLASSES = LabelForm()


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Options of reading rows and converting them to inputs; see `loading.load_data`.

    max_length: tokens of a text, the rest is truncated, or of a window; set by the caller from the model's limit.
    image: channels, height and width that images are converted to, 0 to keep one. task: its name. form: how it reads
    labels. classes: those of the model's pixels; None if unknown. start: the token with which its decoder starts, −1
    for the target's last; None without one. signal: the shape of a sample of numbers, 0 for a dynamic size; None if
    unknown. masked: whether the model takes a mask of it.
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
    form: LabelForm = CLASSES
    classes: int | None = None
    start: int | None = None
    signal: tuple[int, ...] | None = None
    masked: bool = False


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
