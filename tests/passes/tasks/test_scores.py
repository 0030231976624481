"""What is no score of classes is refused, whatever its shape."""

from __future__ import annotations

import pytest
import torch

from espalier.model.errors import DataError, GraphError
from espalier.model.graph.graph import Graph
from espalier.passes.tasks.base import TASKS
from espalier.passes.tasks.scores import scores_of
from espalier.passes.tasks.tally import Tally


def test_spans_of_answers_are_no_classes() -> None:
    """They are matrices [batch, positions], and a short text fits labels by chance."""
    spans = {"start_logits": torch.zeros(2, 7), "end_logits": torch.zeros(2, 7)}
    with pytest.raises(GraphError, match="where an answer starts"):
        scores_of(spans, Graph({}))


def test_scores_of_another_width_in_each_batch_are_no_classes() -> None:
    tally = Tally(TASKS.get("multi-label"))
    tally.add(torch.zeros(2, 4), torch.zeros(2, 4))
    with pytest.raises(DataError, match="another number of scores in each batch"):
        tally.add(torch.zeros(2, 5), torch.zeros(2, 5))
