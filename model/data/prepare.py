"""From rows to arrays: the steps that every text data set takes, wherever its rows come from."""

from __future__ import annotations

from collections.abc import Mapping

from model.data.base import LoadOptions, Split, TaskData
from model.data.rows import Rows, arrange, class_indices, find_classes
from model.data.tokens import open_tokenizer
from model.errors import DataError


def text_data(name: str, splits: Mapping[str, Rows], options: LoadOptions) -> TaskData:
    """Tokenises the wanted splits; raises DataError without a tokenizer or with fewer than two classes."""
    classes = find_classes(splits, name)
    if options.tokenizer is None:
        raise DataError(
            f"{name} holds texts, and there is no tokenizer to turn them into numbers.",
            "Name the model's folder or its Hugging Face name with --tokenizer.",
        )
    encode = open_tokenizer(options.tokenizer)
    rows = arrange(splits, options)
    texts = {split: tuple(str(text) for text in some.samples) for split, some in rows.items()}
    made = {
        split: Split(encode(texts[split], options.max_length), class_indices(some, classes))
        for split, some in rows.items()
    }
    return TaskData(name, "text", classes, made, texts)
