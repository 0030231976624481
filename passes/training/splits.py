"""Which samples a training learns from, and which it is judged on: a tenth is held out where the data name none."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from espalier.model.errors import DataError
from espalier.passes.base import Context
from espalier.passes.running.data_fit import text_facts
from espalier.passes.running.held_out import held_out
from espalier.passes.running.splits import data_of, data_warning, length_of, load_task
from espalier.passes.training.options import FinetuneOptions

if TYPE_CHECKING:
    from espalier.model.data.base import Split, TaskData

TRAIN, VALIDATION = "train", "validation"


@dataclass(frozen=True, slots=True)
class Splits:
    """`check`: None where nothing is validated. `warnings`: what of the data is likely not as it was meant.

    `classes`: their names by number. `texts`: how much of the training's texts is used.
    """

    train: Split
    check: Split | None
    warnings: tuple[str, ...]
    classes: tuple[str, ...] = ()
    texts: dict[str, Any] = field(default_factory=dict[str, Any])


def splits(options: FinetuneOptions, context: Context) -> Splits:
    """The samples that are asked for; raises DataError."""
    name = options.train_split or TRAIN
    data = _load(options, name, context)
    train, check, told = data.split(name), None, ""
    if options.validate:
        train, check, told = _checked(options, context, data.name, train)
    warning = data_warning(data, context, name).get("warning", "")
    limit, most = options.train_limit or None, options.validation_limit or None
    taken = train.take(limit)
    texts = text_facts(taken, length_of(data_of(options), context))
    return Splits(taken, check and check.take(most), tuple(w for w in (warning, told) if w), data.classes, texts)


def _checked(options: FinetuneOptions, context: Context, name: str, train: Split) -> tuple[Split, Split, str]:
    """(what trains, what validates, what is to be said of that)."""
    wanted, trained = options.validation_split or VALIDATION, options.train_split or TRAIN
    data = _load(options, wanted, context)
    if options.validation_split or wanted in data.splits or wanted in data.empty:
        shared = wanted == trained or "all" in (wanted, trained)
        same = "Validation is measured on training samples: its figures say little of new ones." if shared else ""
        return train, data.split(wanted), same
    if len(train) < 2:
        raise DataError(f"{name} has no validation split, and one sample alone to train on.",
                        "Choose data with more rows, or set validate to false.")  # fmt: skip
    held = held_out(train)
    told = f"a tenth of the training samples ({int(held.sum())}) validates and trains not."
    return train.rows(~held), train.rows(held), f"{name} has no validation split: {told}"


def _load(options: FinetuneOptions, name: str, context: Context) -> TaskData:
    return load_task(data_of(options, split=name), context.reading, whole=name == "all")
