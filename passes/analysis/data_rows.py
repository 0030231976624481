"""A page of samples of the data in readable form: of a split, of a class, or with given words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from espalier.model.errors import DataError
from espalier.model.graph.graph import Graph
from espalier.passes.analysis.data import splits_or_whole
from espalier.passes.base import Context, Report, Row, analysis
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.tasks.base import task_of

if TYPE_CHECKING:
    from espalier.model.data.base import Array, Split, TaskData

PAGE = 200
SIDE = 64  # pixels of an image, at most


@dataclass(frozen=True, slots=True)
class DataRowsOptions(EvaluateOptions):
    """The selected samples; `limit`: number shown."""

    limit: int = field(default=PAGE, metadata={"min": 1, "help": "number of samples shown"})
    start: int = field(default=0, metadata={"min": 0, "help": "number of samples skipped"})
    of_class: str = field(default="", metadata={"help": "only samples of this class"})
    holding: str = field(default="", metadata={"help": "only samples whose text contains these words"})
    among: tuple[int, ...] = field(default=(), metadata={"help": "only samples with these numbers, in this order"})


@analysis("data_rows", "Samples of the data", DataRowsOptions)
def data_rows(graph: Graph, options: DataRowsOptions, context: Context) -> tuple[Graph, Report]:
    """Number, class, text and length in tokens of each sample; `found` in the summary: number of matches."""
    task = splits_or_whole(options, context)
    name = options.split or next(iter(task.splits))
    split, texts = task.split(name), task.texts.get(name, ())
    numbers = _matching(task, split, texts, options)
    page = numbers[options.start : options.start + options.limit]
    rows = tuple(_row(task, split, texts, int(at)) for at in page)
    if task.kind in ("image", "audio"):
        context.found((_pictures if next(iter(split.inputs.values())).ndim == 4 else _curves)(split, page))
    return graph, Report("data_rows", rows, {"split": name, "found": len(numbers)})


def _matching(task: TaskData, split: Split, texts: tuple[str, ...], options: DataRowsOptions) -> Array:
    """The numbers of the matching samples; raises DataError for an unknown sample or class."""
    import numpy as np

    numbers = np.array(options.among, dtype=np.int64) if options.among else np.arange(len(split))
    if numbers.size and int(numbers.max()) >= len(split):
        raise DataError(f"There is no sample {int(numbers.max())}.", f"The split has {len(split)}.")
    if options.of_class:
        if options.of_class not in task.classes:
            raise DataError(f"There is no class {options.of_class!r}.", f"There are: {', '.join(task.classes)}.")
        numbers = numbers[_has_class(split, task.classes.index(options.of_class))[numbers]]
    wish = options.holding.casefold()
    if wish and texts:
        numbers = numbers[[wish in texts[at].casefold() for at in numbers.tolist()]]
    return numbers


def _row(task: TaskData, split: Split, texts: tuple[str, ...], at: int) -> Row:
    row: Row = {"sample": at}
    row |= {"label": task_of(split).shown(int(split.labels[at]))} if split.table else _label(task, split.labels[at])
    if texts:
        row["text"] = texts[at]
    if split.lengths is not None:
        row["tokens"] = int(split.lengths[at])
    return row


def _has_class(split: Split, index: int) -> Array:
    """bool [samples]: which have the class, or it among their labels."""
    labels = split.labels
    if labels.dtype.kind == "f":
        return labels[:, index] > 0.5
    return labels == index if labels.ndim == 1 else (labels == index).reshape(len(labels), -1).any(1)


def _label(task: TaskData, label: Array) -> Row:
    """The label of a sample in readable form, of a mask its classes by number of pixels; empty for windows."""
    if label.ndim == 2:
        import numpy as np

        found, counts = np.unique(label[label >= 0], return_counts=True)
        return {"class": ", ".join(task.classes[int(at)] for at in found[np.argsort(-counts, kind="stable")])}
    if label.ndim == 0:
        return {"class": task.classes[int(label)]} if task.classes else {"label": float(label)}
    if label.dtype.kind == "f":
        return {"class": ", ".join(name for name, on in zip(task.classes, label, strict=False) if on > 0.5)}
    return {"class": " ".join(task.classes[int(at)] for at in label if at >= 0)} if task.classes else {}


def _pictures(split: Split, page: Array) -> dict[int, tuple[int, int, int, bytes]]:
    """Sample → (height, width, channels, bytes), subsampled to at most SIDE pixels a side."""
    import numpy as np

    pixels = next(iter(split.inputs.values()))
    step = max(1, -(-max(pixels.shape[2:]) // SIDE))
    small = np.clip(pixels[page, :, ::step, ::step] * 255 + 0.5, 0, 255).astype(np.uint8).transpose(0, 2, 3, 1)
    return {int(at): (*image.shape, image.tobytes()) for at, image in zip(page, small, strict=True)}


def _curves(split: Split, page: Array) -> dict[int, tuple[int, int, int, bytes]]:
    """As `_pictures`: the range of a waveform in SIDE columns, or a spectrogram in grey, time from left to right."""
    values = next(iter(split.inputs.values()))
    pictures = {int(at): (_range if 1 in values.shape[1:-1] or values.ndim == 2 else _grey)(values[at]) for at in page}
    return {at: (*pixels.shape, 1, pixels.tobytes()) for at, pixels in pictures.items()}


def _range(wave: Array) -> Array:
    """uint8 [SIDE // 2, SIDE]: dark between the least and the largest value of each column."""
    import numpy as np

    parts = [part for part in np.array_split(wave.reshape(-1), SIDE) if len(part)]
    peak = max(float(np.abs(wave).max(initial=0)), 1e-9)
    ends = np.array([[part.min(), part.max()] for part in parts]) / peak
    low, high = ((1 - ends[:, at]) / 2 * (SIDE // 2 - 1) for at in (1, 0))
    rows = np.arange(SIDE // 2)[:, None]
    return np.where((rows >= np.floor(low)) & (rows <= np.ceil(high)), 40, 255).astype(np.uint8)


def _grey(features: Array) -> Array:
    """uint8 [bins, frames] of at most SIDE each, the larger axis as time."""
    import numpy as np

    grid = features if features.shape[0] <= features.shape[1] else features.T
    grid = grid[:: max(1, -(-grid.shape[0] // SIDE)), :: max(1, -(-grid.shape[1] // SIDE))][::-1]
    low, high = float(grid.min()), float(grid.max())
    return (255 - (grid - low) / max(high - low, 1e-9) * 255).astype(np.uint8)
