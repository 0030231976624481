"""Data of a pass: options, loading, choice of a split."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from espalier.model.data.base import ALL, CLASSIFICATION
from espalier.model.errors import DataError
from espalier.passes.base import Context
from espalier.passes.running.data_fit import TextLimit, fitted, text_limit, wanted_image
from espalier.passes.tasks.base import TASK_OPTION, TASKS, Kind, recognised
from espalier.passes.tasks.own import ANY, Functions, functions_of

if TYPE_CHECKING:
    from espalier.model.data.base import LoadOptions, Split, TaskData
    from espalier.model.sources.reading import Reading


SPLITS = "test, train, validation or all; default: all rows of a lone file, else test, else validation"


TRAIN = "train"


WHICH = ("data", "text", "label", "tokenizer", "max_length", "task")  # which data, and how they are read


@dataclass(frozen=True, slots=True)
class EvaluateOptions:
    """Data, split and number of samples."""

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
    task: str = field(default="", metadata=TASK_OPTION)

    @property
    def which(self) -> dict[str, Any]:
        """The options that identify the data and how they are read."""
        return {name: getattr(self, name) for name in WHICH}


def data_warning(data: TaskData, context: Context, split: str = "", used: str = "") -> dict[str, str]:
    """Likely mistakes in the data, under `warning`: labels that are not the model's, splits without rows.

    split: as chosen by the user; used: the split whose conversions are counted, if it is another.
    """
    from espalier.model.data.class_names import misnamed

    empty = [f"{files} has no rows and is ignored." for files in data.empty.values() if not split]
    words = " ".join(
        w for w in (*misnamed(data.classes, context.reading.classes), *empty, *data.notes_of(used or split)) if w
    )
    return {"warning": words} if words else {}


def data_of(options: Any, **given: Any) -> EvaluateOptions:
    """The data that other options name, in the fields that they share with these; `given` fields instead of theirs."""
    shared = {f.name: getattr(options, f.name) for f in fields(EvaluateOptions) if hasattr(options, f.name)}
    return EvaluateOptions(**(shared | given))


def load_split(options: EvaluateOptions, context: Context) -> Split:
    """The chosen split of the data; raises DataError."""
    data = load_task(options, context.reading, whole=options.split in ("", "all"))
    return choose_split(data, options.split, options.limit)


def calibration_split(options: EvaluateOptions, context: Context) -> Split:
    """As `load_split`, for a pass that computes scales, weights or masks from the samples.

    Raises DataError also for samples with NaN or infinite numbers.
    """
    import numpy as np

    from espalier.model.data.base import non_finite_rows, non_finite_text

    split = load_split(options, context)
    rows = [non_finite_rows(array) for array in split.inputs.values()]
    if count := int(np.any(rows, axis=0).sum()):
        text = non_finite_text(count, len(split), f"the split {split.name}" if split.name else "the data")
        raise DataError(f"{text}: what is computed from them would be wrong.", "Correct or remove these samples.")
    return split


def load_task(options: EvaluateOptions, reading: Reading, *, whole: bool) -> TaskData:
    """All splits in the model's inputs and class order; `whole`: do not divide a single file.

    Options that are not set are the project's. Raises DataError.
    """
    if functions := functions_of(options.task):
        return _on(load_task(replace(options, task=_labels_of(functions)), reading, whole=whole), functions)
    from espalier.model.data.base import LoadOptions
    from espalier.model.data.class_names import in_order_of

    if not options.data:
        raise DataError("There is no data to measure on.", "Give demo:NAME, hub:NAME, a file or a folder.")
    tokenizer, task = options.tokenizer or reading.tokenizer, task_name(options, reading)
    load = LoadOptions(
        tokenizer=tokenizer,
        text=options.text or None,
        label=options.label or None,
        max_length=text_limit(options.max_length, reading, tokenizer, task).tokens,
        whole=whole,  # without the pass's seed, since training must see the same division of a file
        image=wanted_image(reading),
        task=task,
        form=TASKS.get(task).form,
        classes=reading.limits.pixel_classes if reading.limits else None,
        start=reading.limits.start if reading.limits else None,
        signal=reading.limits.signal if reading.limits else None,
        masked=reading.limits is not None and reading.limits.masked,
    )
    data = _of_task(options, load, reading)
    return in_order_of(fitted(data, reading), reading.classes)


def _labels_of(functions: Functions) -> str:
    """The task that reads the labels of functions; empty for that of the data."""
    return "" if functions.labels == ANY else functions.labels


def _on(data: TaskData, functions: Functions) -> TaskData:
    """The data with the task of functions on their labels."""
    name = f"{functions.name}:{functions.labels or data.task}"
    splits = {key: replace(split, task=name) for key, split in data.splits.items()}
    return replace(data, splits=splits, task=name)


def _of_task(options: EvaluateOptions, load: LoadOptions, reading: Reading) -> TaskData:
    """The data of the task; where none is asked for, labels of another form choose theirs. Raises DataError."""
    from espalier.model.data.base import OtherLabelsError

    try:
        data = _with_columns(options.data, load, reading)
    except OtherLabelsError as error:
        name = next((n for n, task in TASKS.items() if task.reads == error.form), "")
        if options.task or not name:
            raise
        data = _with_columns(options.data, replace(load, task=name, form=TASKS.get(name).form), reading)
    if options.task and data.task != options.task:
        raise DataError(
            f"{data.name} has labels of the task {data.task}, not of {options.task}.",
            "Leave the task out, or choose other data.",
        )
    return data


def task_name(options: EvaluateOptions, reading: Reading) -> str:
    """The task that the options name, or read labels by, otherwise that of the model's head, else classification."""
    functions = functions_of(options.task)
    asked = _labels_of(functions) if functions else options.task
    return asked or recognised(reading.limits) or CLASSIFICATION


def compared_kind(split: Split, context: Context) -> Kind:
    """How outputs are compared: as the model's head says, otherwise as the labels do."""
    return TASKS.get(recognised(context.reading.limits) or split.predicts).kind


def _with_columns(spec: str, options: LoadOptions, reading: Reading) -> TaskData:
    """Load with the project's columns, unless others are given or the data do not have them."""
    from espalier.model.data.columns import ColumnError
    from espalier.model.data.recent import load_recent

    text, label = options.text or reading.text or None, options.label or reading.label or None
    of_project = replace(options, text=text, label=label)
    try:
        return load_recent(spec, of_project)
    except ColumnError:
        if of_project == options:
            raise
        return load_recent(spec, options)


def length_of(options: EvaluateOptions, context: Context) -> TextLimit:
    """Maximum tokens of a text; raises DataError."""
    tokenizer = options.tokenizer or context.reading.tokenizer
    return text_limit(options.max_length, context.reading, tokenizer, task_name(options, context.reading))


def choose_split(data: TaskData, name: str, limit: int) -> Split:
    """Split `name`, by default all, test, validation or the first; the first `limit` samples (0 = all).

    Raises DataError where it has none.
    """
    chosen = name or next((s for s in ("all", "test", "validation") if s in data.splits), next(iter(data.splits)))
    # Hub test sets hide their labels as −1 (GLUE): use the validation set.
    hidden = TASKS.get(data.task).hides(data.split(chosen).labels)
    if not name and hidden and "validation" in data.splits:
        chosen = "validation"
    found = replace(data.split(chosen), name=chosen)
    if not len(found):
        others = [s for s, split in data.splits.items() if len(split)]
        which = "" if chosen == ALL else f"the split {chosen} of "
        hint = f"Choose another split: {', '.join(others)}." if others else "Give data with samples."
        raise DataError(f"There are no samples in {which}{data.name}.", hint)
    return found.take(limit or None)


def measured_split(data: TaskData, name: str, limit: int) -> Split:
    """As `choose_split`; of data with only a training split, the samples that a training holds out."""
    if name or not only_trains(data):
        return choose_split(data, name, limit)
    from espalier.passes.running.holdout import holdout_mask

    train = data.split(TRAIN)
    return train.rows(holdout_mask(train)).take(limit or None)


def only_trains(data: TaskData) -> bool:
    """Whether there is only a training split."""
    return list(data.splits) == [TRAIN] and len(data.splits[TRAIN]) > 1
