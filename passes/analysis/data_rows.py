"""Some samples of the data as people read them: a page of a split, of one class, or those that hold some words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from espalier.model.errors import DataError
from espalier.model.graph.graph import Graph
from espalier.passes.analysis.data import task_of
from espalier.passes.base import Context, Report, Row, analysis
from espalier.passes.running.splits import EvaluateOptions

if TYPE_CHECKING:
    from espalier.model.data.base import Array, Split, TaskData

PAGE = 200
SIDE = 64  # pixels of a picture, at most


@dataclass(frozen=True, slots=True)
class DataRowsOptions(EvaluateOptions):
    """Which samples; `limit` is how many are shown."""

    limit: int = field(default=PAGE, metadata={"min": 1, "help": "number of samples shown"})
    start: int = field(default=0, metadata={"min": 0, "help": "number of samples skipped"})
    of_class: str = field(default="", metadata={"help": "only samples of this class"})
    holding: str = field(default="", metadata={"help": "only samples whose text contains these words"})
    among: tuple[int, ...] = field(default=(), metadata={"help": "only samples with these numbers, in this order"})


@analysis("data_rows", "Samples of the data", DataRowsOptions)
def data_rows(graph: Graph, options: DataRowsOptions, context: Context) -> tuple[Graph, Report]:
    """Number, class, text and length in tokens of each; `found` in the summary counts all that match."""
    task = task_of(options, context)
    name = options.split or next(iter(task.splits))
    split, texts = task.split(name), task.texts.get(name, ())
    places = _matching(task, split, texts, options)
    page = places[options.start : options.start + options.limit]
    rows = tuple(_row(task, split, texts, int(at)) for at in page)
    if task.kind == "image":
        context.found(_pictures(split, page))
    return graph, Report("data_rows", rows, {"split": name, "found": len(places)})


def _matching(task: TaskData, split: Split, texts: tuple[str, ...], options: DataRowsOptions) -> Array:
    """The numbers of the samples that are asked for."""
    import numpy as np

    places = np.array(options.among, dtype=np.int64) if options.among else np.arange(len(split))
    if places.size and int(places.max()) >= len(split):
        raise DataError(f"There is no sample {int(places.max())}.", f"The split has {len(split)}.")
    if options.of_class:
        if options.of_class not in task.classes:
            raise DataError(f"There is no class {options.of_class!r}.", f"There are: {', '.join(task.classes)}.")
        places = places[split.labels[places] == task.classes.index(options.of_class)]
    wish = options.holding.casefold()
    if wish and texts:
        places = places[[wish in texts[at].casefold() for at in places.tolist()]]
    return places


def _row(task: TaskData, split: Split, texts: tuple[str, ...], at: int) -> Row:
    row: Row = {"sample": at, "class": task.classes[int(split.labels[at])]}
    if texts:
        row["text"] = texts[at]
    if split.lengths is not None:
        row["tokens"] = int(split.lengths[at])
    return row


def _pictures(split: Split, page: Array) -> dict[int, tuple[int, int, int, bytes]]:
    """Sample → (height, width, channels, bytes), large ones in every so manieth pixel."""
    import numpy as np

    pixels = next(iter(split.inputs.values()))
    step = max(1, -(-max(pixels.shape[2:]) // SIDE))
    small = np.clip(pixels[page, :, ::step, ::step] * 255 + 0.5, 0, 255).astype(np.uint8).transpose(0, 2, 3, 1)
    return {int(at): (*image.shape, image.tobytes()) for at, image in zip(page, small, strict=True)}
