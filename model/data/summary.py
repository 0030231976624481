"""Summary statistics of a data set: sizes, class balance, text lengths, share of truncated texts.

The window receives these small values, never the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from espalier.model.data.base import CLASSIFICATION, Split, TaskData

BINS = 48  # maximum, of the histogram of lengths
SHOWN = 0.995  # quantile of the lengths at which the histogram ends; longer texts count in its last bin


@dataclass(frozen=True, slots=True)
class SplitSummary:
    """One split. counts: samples by class, of windows their number, of sets of labels and masks those with each;
    lengths: texts by bin of `DataSummary.edges`; cut: truncated texts. tokens, text_bytes, frequent: of windows, the
    labels, the bytes of their text, and how many of them are the most frequent token. number: of samples, if not the
    sum of counts.
    """

    name: str
    counts: tuple[int, ...]
    lengths: tuple[int, ...] = ()
    cut: int = 0
    tokens: int = 0
    text_bytes: int = 0
    frequent: int = 0
    number: int | None = None

    @property
    def samples(self) -> int:
        """Number of samples."""
        return sum(self.counts) if self.number is None else self.number

    @property
    def majority(self) -> float:
        """Majority-class accuracy, or the share of the most frequent token."""
        if self.tokens:
            return self.frequent / self.tokens
        return max(self.counts, default=0) / max(self.samples, 1)


@dataclass(frozen=True, slots=True)
class DataSummary:
    """A data set. edges: of the length bins; shape: of an image (channels, height, width), a sound or an array;
    window: tokens of the windows of a text, which has no classes. task: of the labels; guessing: the best constant
    prediction, as a sentence.
    """

    name: str
    kind: str
    classes: tuple[str, ...]
    splits: tuple[SplitSummary, ...]
    max_length: int = 0
    edges: tuple[int, ...] = ()
    median: int = 0
    longest: int = 0
    shape: tuple[int, ...] = ()
    window: int = 0
    task: str = CLASSIFICATION
    guessing: str = ""

    @property
    def samples(self) -> int:
        """Number of samples of all splits."""
        return sum(s.samples for s in self.splits)

    @property
    def counts(self) -> tuple[int, ...]:
        """Samples of all splits by class."""
        return tuple(sum(column) for column in zip(*(s.counts for s in self.splits), strict=True))

    @property
    def cut(self) -> float:
        """Share of truncated texts."""
        return sum(s.cut for s in self.splits) / max(sum(s.samples for s in self.splits), 1)

    @property
    def evaluated(self) -> SplitSummary:
        """The split on which a model is measured by default."""
        by_name = {s.name: s for s in self.splits}
        return next((by_name[n] for n in ("test", "validation") if n in by_name), self.splits[0])


def summarise(data: TaskData, max_length: int) -> DataSummary:
    """Summary of all splits; texts longer than `max_length` tokens count as truncated."""
    parts = [s.lengths for s in data.splits.values() if s.lengths is not None]
    lengths = np.concatenate(parts) if parts else np.zeros(0, np.int64)
    edges = _edges(lengths)
    splits = tuple(_split(name, s, len(data.classes), edges, max_length) for name, s in data.splits.items())
    shape = next(iter(next(iter(data.splits.values())).inputs.values())).shape[1:] if data.kind != "text" else ()
    median, longest = (int(np.median(lengths)), int(lengths.max())) if len(lengths) else (0, 0)
    bins = tuple(map(int, edges))
    window = max((s.labels.shape[-1] for s in data.splits.values() if _has_windows(s)), default=0)
    return DataSummary(
        data.name, data.kind, data.classes, splits, max_length, bins, median, longest, shape, window, data.task
    )


def _has_windows(split: Split) -> bool:
    """Whether samples are windows of a text: a label a position, and no lengths of texts."""
    return split.labels.ndim == 2 and split.labels.dtype.kind in "iu" and split.lengths is None


def _edges(lengths: np.ndarray) -> np.ndarray:
    """Edges of bins of equal width in whole tokens, up to the SHOWN quantile."""
    if not len(lengths):
        return np.zeros(0, np.int64)
    last = int(np.quantile(lengths, SHOWN)) + 1
    width = max(1, -(-last // BINS))
    return np.arange(0, last + width, width)


def _split(name: str, split: Split, classes: int, edges: np.ndarray, max_length: int) -> SplitSummary:
    if _has_windows(split):
        size = 0 if split.text_bytes is None else int(split.text_bytes.sum())
        labels = split.labels[split.labels >= 0]
        most = int(np.bincount(labels).max()) if len(labels) else 0
        return SplitSummary(name, (len(split),), tokens=split.targets, text_bytes=size, frequent=most)
    plain = split.labels.ndim == 1 and split.labels.dtype.kind in "iu" and not split.table
    number = None if plain else split.samples
    counts = _counts(split, classes)
    if split.lengths is None:
        return SplitSummary(name, counts, number=number)
    inside = np.minimum(split.lengths, edges[-1] - 1)
    lengths = np.histogram(inside, edges)[0]
    cut = int((split.lengths > max_length).sum())
    return SplitSummary(name, counts, tuple(lengths.tolist()), cut, number=number)


def _counts(split: Split, classes: int) -> tuple[int, ...]:
    """Labels of each class; of sets of labels and of masks, the samples with each. Numbers have no classes."""
    labels = split.labels
    if labels.ndim == 3:
        return tuple(int((labels == at).any((1, 2)).sum()) for at in range(classes))
    if split.table or (labels.ndim == 2 and labels.dtype.kind in "iu" and not classes):  # entries, tokens of a target
        return ()
    if labels.dtype.kind in "iu":
        return tuple(np.bincount(labels[labels >= 0], minlength=classes).tolist())
    return tuple((labels > 0.5).sum(0).tolist()) if labels.ndim == 2 else ()


def balance(counts: Sequence[int], classes: Sequence[str]) -> str:
    """Description of the class balance."""
    if not any(counts):
        return "there are no samples"
    most, least = int(np.argmax(counts)), int(np.argmin(counts))
    if counts[least] == 0:
        return f"no sample is {classes[least]}"
    ratio = counts[most] / counts[least]
    if ratio < 1.1:
        return "the classes are balanced"
    extent = "slightly " if ratio < 1.5 else "strongly " if ratio >= 4 else ""
    return f"the classes are {extent}unbalanced: {classes[most]} is {ratio:.1f} times as frequent as {classes[least]}"
