"""Words with the tag −100 do not count, as in transformers."""

from __future__ import annotations

import numpy as np

from espalier.model.data.base import IGNORED, LoadOptions
from espalier.model.data.rows import Rows
from espalier.model.sources.demos import RESOURCES
from espalier.passes.tasks.token_classification import tagged


def test_they_are_no_class() -> None:
    words, tags = (("the", "plot", "is", "fine"),), (("O", "-100", "B-X", "O"),)
    options = LoadOptions(tokenizer=str(RESOURCES / "reviews"))
    found = tagged({"test": Rows(words, tags)}, "mine", options)
    labels = found.split("test").labels
    assert found.classes == ("B-X", "O")
    assert labels[labels != IGNORED].tolist() == [1, 0, 1] and np.count_nonzero(labels == IGNORED) == labels.size - 3
