"""Data of the built-in demos, prepared for their models: `demo:reviews` and `demo:digits`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from espalier.model.data import cache
from espalier.model.data.base import LoadOptions, TaskData
from espalier.model.data.prepare import encoded, trimmed
from espalier.model.data.tokens import Encoder, open_shipped, open_tokenizer
from espalier.model.errors import DataError

RESOURCES = Path(__file__).resolve().parents[2] / "resources" / "demos"
SHIPPED = RESOURCES / "reviews"


def load_demo_data(name: str, options: LoadOptions) -> TaskData:
    """`reviews` or `digits` (also as `digits-mlp`); raises DataError for any other name."""
    if name == "reviews":
        return _reviews(options)
    if name in ("digits", "digits-mlp"):
        return _digits(options)
    raise DataError(f"There is no demo data {name!r}.", "There are: demo:reviews, demo:digits.")


def _reviews(options: LoadOptions) -> TaskData:
    tokenizer = Path(options.tokenizer or SHIPPED)
    here = Path(__file__).parent
    sources = [here / name for name in ("review_vocabulary.py", "review_grammar.py", "reviews.py")]
    # The key contains the generator's source, so that a changed grammar invalidates the cache.
    key = cache.key_of(sources, "demo:reviews", replace(options, tokenizer=tokenizer))
    data = cache.read(key, "demo:reviews")
    if data is None:
        encode = open_shipped(SHIPPED) if tokenizer.resolve() == SHIPPED else open_tokenizer(options.tokenizer or "")
        data = _tokenise(encode, options.max_length)
        cache.write(key, data)
    kept = {name: trimmed(split.take(options.limit)) for name, split in data.splits.items() if _wanted(name, options)}
    return replace(data, splits=kept, texts={name: data.texts[name][: options.limit] for name in kept})


def _tokenise(encode: Encoder, max_length: int) -> TaskData:
    from espalier.model.data.reviews import CLASSES, make_reviews

    made = make_reviews()
    texts = {split: tuple(row.text for row in rows) for split, rows in made.items()}
    splits = {
        split: encoded(encode, texts[split], np.array([row.label for row in rows], dtype=np.int64), max_length)
        for split, rows in made.items()
    }
    return TaskData("demo:reviews", "text", CLASSES, splits, texts)


def _digits(options: LoadOptions) -> TaskData:
    from espalier.model.data.digits import CLASSES, load_digits

    splits = {name: split for name, split in load_digits().items() if _wanted(name, options)}
    return TaskData("demo:digits", "image", CLASSES, splits, {}).take(options.limit)


def _wanted(split: str, options: LoadOptions) -> bool:
    return options.splits is None or split in options.splits
