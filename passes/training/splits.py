"""Training and validation samples; a tenth of the training samples validates if the data have no validation split."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from espalier.model.errors import DataError
from espalier.passes.base import Context
from espalier.passes.running.data_fit import text_facts
from espalier.passes.running.holdout import holdout_mask
from espalier.passes.running.splits import data_of, data_warning, length_of, load_task
from espalier.passes.tasks.own import functions_of
from espalier.passes.training.options import FinetuneOptions

if TYPE_CHECKING:
    from espalier.model.data.base import Split, TaskData

TRAIN, VALIDATION = "train", "validation"


@dataclass(frozen=True, slots=True)
class Splits:
    """`check`: None without validation. `warnings`: likely mistakes in the data.

    `classes`: names by index. `texts`: statistics of the training texts' truncation.
    """

    train: Split
    check: Split | None
    warnings: tuple[str, ...]
    classes: tuple[str, ...] = ()
    texts: dict[str, Any] = field(default_factory=dict[str, Any])


def splits(options: FinetuneOptions, context: Context) -> Splits:
    """The samples of the options; raises DataError."""
    name = options.train_split or TRAIN
    data = _load(options, name, context)
    train, check, note = data.split(name), None, ""
    if options.validate:
        train, check, note = _checked(options, context, data.name, train)
    warning = data_warning(data, context, name).get("warning", "")
    train = train.take(options.train_limit or None)
    check = check and check.take(options.validation_limit or None)
    texts = text_facts(train, length_of(data_of(options), context))
    warnings = tuple(w for w in (warning, note, _own_note(options)) if w)
    return Splits(train, check, warnings, data.classes, texts)


def _own_note(options: FinetuneOptions) -> str:
    """That functions of a program are in no file; empty for other tasks."""
    functions = functions_of(options.task)
    if functions is None:
        return ""
    return f"The {functions.title} of this program are in no file: the step cannot run again in another process."


def _checked(options: FinetuneOptions, context: Context, name: str, train: Split) -> tuple[Split, Split, str]:
    """(training samples, validation samples, warning)."""
    wanted, trained = options.validation_split or VALIDATION, options.train_split or TRAIN
    data = _load(options, wanted, context)
    if options.validation_split or wanted in data.splits or wanted in data.empty:
        shared = wanted == trained or "all" in (wanted, trained)
        same = "Validation uses training samples: it says little about new samples." if shared else ""
        return train, data.split(wanted), same
    if len(train) < 2:
        raise DataError(f"{name} has no validation split, and only one training sample.",
                        "Choose data with more rows, or set validate to false.")  # fmt: skip
    validates = holdout_mask(train)
    note = f"a tenth of the training samples ({int(validates.sum())}) is used for validation instead of training."
    return train.rows(~validates), train.rows(validates), f"{name} has no validation split: {note}"


def _load(options: FinetuneOptions, name: str, context: Context) -> TaskData:
    return load_task(data_of(options, split=name), context.reading, whole=name == "all")
