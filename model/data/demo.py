"""The data of the built-in demos, ready for their models: `demo:reviews` and `demo:digits`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from model.data.base import LoadOptions, Split, TaskData
from model.data.tokens import open_shipped, open_tokenizer
from model.errors import DataError

RESOURCES = Path(__file__).resolve().parents[2] / "resources" / "demos"


def load_demo_data(name: str, options: LoadOptions) -> TaskData:
    """`reviews` or `digits` (also as `digits-mlp`); raises DataError for any other name."""
    if name == "reviews":
        return _reviews(options)
    if name in ("digits", "digits-mlp"):
        return _digits(options)
    raise DataError(f"There is no demo data {name!r}.", "There are: demo:reviews, demo:digits.")


def _reviews(options: LoadOptions) -> TaskData:
    from model.data.reviews import CLASSES, make_reviews

    rows = {split: some[: options.limit] for split, some in make_reviews().items() if _wanted(split, options)}
    texts = {split: tuple(row.text for row in some) for split, some in rows.items()}
    encode = open_tokenizer(options.tokenizer) if options.tokenizer else open_shipped(RESOURCES / "reviews")
    splits = {
        split: Split(
            encode(texts[split], options.max_length),
            np.array([row.label for row in some], dtype=np.int64),
        )
        for split, some in rows.items()
    }
    return TaskData("demo:reviews", "text", CLASSES, splits, texts)


def _digits(options: LoadOptions) -> TaskData:
    from model.data.digits import CLASSES, load_digits

    splits = {name: split for name, split in load_digits().items() if _wanted(name, options)}
    return TaskData("demo:digits", "image", CLASSES, splits, {}).take(options.limit)


def _wanted(split: str, options: LoadOptions) -> bool:
    return options.splits is None or split in options.splits
