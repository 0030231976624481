"""Which samples of which data a pass runs on: options, loading, the choice of a split."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from espalier.model.errors import DataError
from espalier.passes.base import Context
from espalier.passes.running.data_fit import TextLimit, fitted, text_limit, wanted_image

if TYPE_CHECKING:
    from espalier.model.data.base import LoadOptions, Split, TaskData
    from espalier.model.sources.reading import Reading


SPLITS = "test, train, validation or all; default: all rows of a lone file, else test, else validation"


TRAIN = "train"


_WHICH = ("data", "text", "label", "tokenizer", "max_length")


@dataclass(frozen=True, slots=True)
class EvaluateOptions:
    """Which data, how much of it."""

    data: str = field(default="", metadata={"help": "demo:NAME, hub:NAME, a file or a folder", "edit": "data"})
    split: str = field(default="", metadata={"help": SPLITS, "edit": "split"})
    limit: int = field(default=0, metadata={"min": 0, "help": "maximum number of samples; 0 = all"})
    batch_size: int = field(default=64, metadata={"min": 1, "max": 4096})
    text: str = field(default="", metadata={"help": "name of the text column", "edit": "text"})
    label: str = field(default="", metadata={"help": "name of the label column", "edit": "label"})
    tokenizer: str = field(default="", metadata={"help": "folder of the tokenizer; default: the source's"})
    max_length: int = field(
        default=0, metadata={"min": 0, "help": "maximum length of a text in tokens; 0 = limit of model and tokenizer"}
    )

    @property
    def which(self) -> dict[str, Any]:
        """Those of the options that say which data, and how it is read."""
        return {name: getattr(self, name) for name in _WHICH}


def data_warning(data: TaskData, context: Context, split: str = "") -> dict[str, str]:
    """What of the data is likely not as it was meant, under `warning`: strange labels, a split without rows."""
    from espalier.model.data.naming import misnamed

    empty = [f"{files} holds no rows and is left out." for files in data.empty.values() if not split]
    words = " ".join(w for w in (*misnamed(data.classes, context.reading.classes), *empty, *data.notes) if w)
    return {"warning": words} if words else {}


def data_of(options: Any, **given: Any) -> EvaluateOptions:
    """The data that other options name, in the fields that they share with these; `given` fields instead of theirs."""
    shared = {f.name: getattr(options, f.name) for f in fields(EvaluateOptions) if hasattr(options, f.name)}
    return EvaluateOptions(**(shared | given))


def load_split(options: EvaluateOptions, context: Context) -> Split:
    """The chosen split of the data; raises DataError."""
    data = load_task(options, context.reading, whole=options.split in ("", "all"))
    return choose_split(data, options.split, options.limit)


def load_task(options: EvaluateOptions, reading: Reading, *, whole: bool) -> TaskData:
    """All splits as the model takes them, classes in its order; a lone file stays whole where `whole`.

    What the options leave open is as the project reads its data. Raises DataError.
    """
    from espalier.model.data.base import LoadOptions
    from espalier.model.data.naming import in_order_of

    if not options.data:
        raise DataError("There is no data to measure on.", "Name it: demo:NAME, hub:NAME, a file or a folder.")
    tokenizer = options.tokenizer or reading.tokenizer
    wish = LoadOptions(
        tokenizer=tokenizer,
        text=options.text or None,
        label=options.label or None,
        max_length=text_limit(options.max_length, reading, tokenizer).tokens,
        whole=whole,  # never seeded by the pass: a file's split must be the one that training saw
        image=wanted_image(reading),
    )
    return in_order_of(fitted(_with_columns(options.data, wish, reading), reading), reading.classes)


def _with_columns(spec: str, wish: LoadOptions, reading: Reading) -> TaskData:
    """The data by the project's own columns; those that it has not, or that are named, are found as always."""
    from espalier.model.data.columns import ColumnError
    from espalier.model.data.recent import load_recent

    usual = replace(wish, text=wish.text or reading.text or None, label=wish.label or reading.label or None)
    try:
        return load_recent(spec, usual)
    except ColumnError:
        if usual == wish:
            raise
        return load_recent(spec, wish)


def length_of(options: EvaluateOptions, context: Context) -> TextLimit:
    """How many tokens of a text are used; raises DataError."""
    return text_limit(options.max_length, context.reading, options.tokenizer or context.reading.tokenizer)


def choose_split(data: TaskData, name: str, limit: int) -> Split:
    """Split `name`, or all of lone rows, or test, or validation, or the only one; first `limit` samples (0 = all)."""
    wish = name or next((s for s in ("all", "test", "validation") if s in data.splits), next(iter(data.splits)))
    # Hub test sets hide their labels as −1 (GLUE); fall back on the validation set.
    if not name and bool((data.split(wish).labels < 0).any()) and "validation" in data.splits:
        wish = "validation"
    return replace(data.split(wish), name=wish).take(limit or None)


def measured_split(data: TaskData, name: str, limit: int) -> Split:
    """As `choose_split`; of data that only train, the samples that a training holds out: the others are known to it."""
    if name or not only_trains(data):
        return choose_split(data, name, limit)
    from espalier.passes.running.held_out import held_out

    whole = data.split(TRAIN)
    return whole.rows(held_out(whole)).take(limit or None)


def only_trains(data: TaskData) -> bool:
    """Whether there are training samples alone."""
    return list(data.splits) == [TRAIN] and len(data.splits[TRAIN]) > 1
