"""Data of the built-in demos, prepared for their models: `demo:reviews`, `demo:stories` and `demo:digits`."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np

from espalier.model.data import cache
from espalier.model.data.base import SOURCES, DataSource, LoadOptions, TaskData
from espalier.model.data.prepare import encoded, trimmed
from espalier.model.data.tokens import Encoder, open_shipped, open_tokenizer
from espalier.model.errors import DataError

RESOURCES = Path(__file__).resolve().parents[2] / "resources" / "demos"
SHIPPED = RESOURCES / "reviews"
TEXTS = SHIPPED / "texts.tsv.gz"  # lines of split, label, text; written by tests/demos
STORIES = RESOURCES / "stories"
STORY_TEXTS = STORIES / "texts.tsv.gz"  # lines of split, text
STORY_LENGTH = 128  # tokens that the model was trained on
CLASSES = ("negative", "positive")


def load_demo_data(name: str, options: LoadOptions) -> TaskData:
    """`reviews`, `stories` or `digits` (also as `digits-mlp`); raises DataError for any other name."""
    if name == "reviews":
        return _reviews(options)
    if name == "stories":
        return _stories(options)
    if name in ("digits", "digits-mlp"):
        return _digits(options)
    raise DataError(f"There is no demo data {name!r}.", "There are: demo:reviews, demo:stories, demo:digits.")


def _reviews(options: LoadOptions) -> TaskData:
    tokenizer = Path(options.tokenizer or SHIPPED)
    key = cache.key_of([TEXTS], "demo:reviews", replace(options, tokenizer=tokenizer))
    data = cache.read(key, "demo:reviews")
    if data is None:
        encode = open_shipped(SHIPPED) if tokenizer.resolve() == SHIPPED else open_tokenizer(options.tokenizer or "")
        data = _tokenise(encode, options.max_length)
        cache.write(key, data)
    kept = {name: trimmed(split.take(options.limit)) for name, split in data.splits.items() if _wanted(name, options)}
    return replace(data, splits=kept, texts={name: data.texts[name][: options.limit] for name in kept})


def _stories(options: LoadOptions) -> TaskData:
    """In windows for language models, with the demo's tokenizer where none is given."""
    from espalier.model.data.windows import windows_of

    tokenizer = Path(options.tokenizer or STORIES)
    longest = STORY_LENGTH if tokenizer.resolve() == STORIES else options.max_length
    given = replace(options, tokenizer=tokenizer, max_length=min(options.max_length, longest))
    key = cache.key_of([STORY_TEXTS], "demo:stories", given)
    return windows_of("demo:stories", key, _story_texts, given)


def _story_texts() -> dict[str, tuple[str, ...]]:
    texts: dict[str, list[str]] = {}
    with gzip.open(STORY_TEXTS, "rt", encoding="utf-8") as file:
        for line in file:
            split, text = line.rstrip("\n").split("\t")
            texts.setdefault(split, []).append(text)
    return {split: tuple(rows) for split, rows in texts.items()}


def _tokenise(encode: Encoder, max_length: int) -> TaskData:
    texts: dict[str, list[str]] = {}
    labels: dict[str, list[int]] = {}
    with gzip.open(TEXTS, "rt", encoding="utf-8") as file:
        for line in file:
            split, label, text = line.rstrip("\n").split("\t")
            texts.setdefault(split, []).append(text)
            labels.setdefault(split, []).append(int(label))
    whole = {k: tuple(v) for k, v in texts.items()}
    splits = {k: encoded(encode, v, np.array(labels[k], dtype=np.int64), max_length) for k, v in whole.items()}
    return TaskData("demo:reviews", "text", CLASSES, splits, whole)


def _digits(options: LoadOptions) -> TaskData:
    from espalier.model.data.digits import CLASSES as DIGITS
    from espalier.model.data.digits import load_digits

    splits = {name: split for name, split in load_digits().items() if _wanted(name, options)}
    return TaskData("demo:digits", "image", DIGITS, splits, {}).take(options.limit)


def _wanted(split: str, options: LoadOptions) -> bool:
    return options.splits is None or split in options.splits


SOURCES.add("demo", DataSource(load_demo_data))
