"""What a data set is like, in a few figures: sizes, balance of the classes, lengths of the texts, what a limit cuts.

Small values alone: the window gets these, never the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from espalier.model.data.base import Split, TaskData

BINS = 48  # of the histogram of lengths, at most
SHOWN = 0.995  # share of the texts that the histogram shows; what is longer counts in its last bin


@dataclass(frozen=True, slots=True)
class SplitLook:
    """One split. counts: samples by class; lengths: texts by bin of `DataLook.edges`; cut: texts that are too long."""

    name: str
    counts: tuple[int, ...]
    lengths: tuple[int, ...] = ()
    cut: int = 0

    @property
    def samples(self) -> int:
        """How many there are."""
        return sum(self.counts)

    @property
    def majority(self) -> float:
        """Accuracy of always naming the most frequent class."""
        return max(self.counts, default=0) / max(self.samples, 1)


@dataclass(frozen=True, slots=True)
class DataLook:
    """A data set. edges: of the bins of lengths; shape: (channels, height, width) of images."""

    name: str
    kind: str
    classes: tuple[str, ...]
    splits: tuple[SplitLook, ...]
    max_length: int = 0
    edges: tuple[int, ...] = ()
    median: int = 0
    longest: int = 0
    shape: tuple[int, ...] = ()

    @property
    def counts(self) -> tuple[int, ...]:
        """Samples of all splits by class."""
        return tuple(sum(column) for column in zip(*(s.counts for s in self.splits), strict=True))

    @property
    def cut(self) -> float:
        """Share of the texts that the limit cuts."""
        return sum(s.cut for s in self.splits) / max(sum(s.samples for s in self.splits), 1)

    @property
    def judged(self) -> SplitLook:
        """The split that a model is measured on unasked."""
        by_name = {s.name: s for s in self.splits}
        return next((by_name[n] for n in ("test", "validation") if n in by_name), self.splits[0])


def look(data: TaskData, max_length: int) -> DataLook:
    """The figures of all splits."""
    known = [s.lengths for s in data.splits.values() if s.lengths is not None]
    lengths = np.concatenate(known) if known else np.zeros(0, np.int64)
    edges = _edges(lengths)
    splits = tuple(_split(name, s, len(data.classes), edges, max_length) for name, s in data.splits.items())
    shape = next(iter(next(iter(data.splits.values())).inputs.values())).shape[1:] if data.kind == "image" else ()
    told = (int(np.median(lengths)), int(lengths.max())) if len(lengths) else (0, 0)
    return DataLook(data.name, data.kind, data.classes, splits, max_length, tuple(map(int, edges)), *told, shape)


def _edges(lengths: np.ndarray) -> np.ndarray:
    """Bins of whole tokens, all of one width, up to what nearly all texts have."""
    if not len(lengths):
        return np.zeros(0, np.int64)
    last = int(np.quantile(lengths, SHOWN)) + 1
    width = max(1, -(-last // BINS))
    return np.arange(0, last + width, width)


def _split(name: str, split: Split, classes: int, edges: np.ndarray, max_length: int) -> SplitLook:
    counts = tuple(np.bincount(split.labels[split.labels >= 0], minlength=classes).tolist())
    if split.lengths is None:
        return SplitLook(name, counts)
    inside = np.minimum(split.lengths, edges[-1] - 1)
    lengths = np.histogram(inside, edges)[0]
    return SplitLook(name, counts, tuple(lengths.tolist()), int((split.lengths > max_length).sum()))


def balance(counts: Sequence[int], classes: Sequence[str]) -> str:
    """How even the classes are, in words."""
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
