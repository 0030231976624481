"""What the field of operations offers: torch itself, by the pass, is the judge of each row."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import espalier as es
from espalier.app.features.edits.insertable import OPERATIONS, matching, operations_after, refusal
from espalier.model.errors import EspalierError


class Convolutional(nn.Module):
    """Images of odd size, then a flat head."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.pool, self.head = nn.Conv2d(3, 6, 3, padding=1), nn.AdaptiveAvgPool2d(1), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.pool(self.conv(x)).flatten(1))


class Signal(nn.Module):
    """Sequences in the order batch, channels, length."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(5, 7, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x).mean(-1)


class Volume(nn.Module):
    """Five dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv3d(2, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x)


MODELS = {
    "images": lambda: (es.trace(Convolutional(), torch.randn(2, 3, 13, 11)), "conv", "head"),
    "signal": lambda: (es.trace(Signal(), torch.randn(2, 5, 9)), "conv", "conv"),
    "volume": lambda: (es.trace(Volume(), torch.randn(2, 2, 5, 4, 3)), "conv", "conv"),
    "text": lambda: (es.open("config:bert?num_hidden_layers=1&hidden_size=24&num_attention_heads=2"
                             "&intermediate_size=20&vocab_size=50"), "encoder_layer_0_intermediate_dense",
                     "pooler_dense"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_torch_agrees_with_each_row(name: str) -> None:
    """Each possible row runs as an edit, and none of the refused ones does; several rows of each kind are there."""
    model, *nodes = MODELS[name]()
    for node in dict.fromkeys(nodes):
        rows = operations_after(model.project.graph, node)
        assert len(rows) == len(OPERATIONS) and any(not o.reason for _, o in rows) and any(o.reason for _, o in rows)
        for operation, offer in rows:
            edit = {"insert_after": {"node": node, "op": operation.op, "attrs": dict(operation.attrs),
                                     "init": operation.init}}  # fmt: skip
            try:
                after = model.copy().edit_graph([edit])
            except (EspalierError, UserWarning) as error:  # torch warns of what it will refuse in a later release
                assert offer.reason, f"{operation.title} after {node}: {error}"
            else:
                # torch would read a tensor of one dimension less as one without a batch, and pool across samples
                unbatched = operation.family == "pooling" and offer.reason
                assert unbatched or not offer.reason, f"{operation.title} after {node}: {offer.reason}"
                assert len(after.project.graph) == len(model.project.graph) + 1


@pytest.mark.slow
def test_what_nothing_can_follow() -> None:
    model = MODELS["text"]()[0]
    graph = model.project.graph
    assert refusal(graph, "input_ids") == "input_ids gives int64. Select a node that gives floating-point values."
    assert "Nothing follows the output" in refusal(graph, graph.output.id)
    assert "result 1" in refusal(graph, "pooler_dense", 1)
    assert refusal(graph, "pooler_dense") == ""


def test_possible_rows_and_titles_that_begin_so_come_first() -> None:
    graph = MODELS["text"]()[0].project.graph
    rows = operations_after(graph, "pooler_dense")
    flags = [bool(o.reason) for _, o in rows]
    assert flags == sorted(flags)
    assert next(o.title for _, o in matching(rows, "layer")) == "LayerNorm"
    assert {o.title for _, o in matching(rows, "conv 2d")} == {"Conv2d 1 × 1 (identity)", "Conv2d 3 × 3 (identity)"}
    assert matching(rows, "banana") == []
    reason = next(o.reason for _, o in matching(rows, "conv2d"))
    assert reason == "takes 4 dimensions, not batch × 24"
