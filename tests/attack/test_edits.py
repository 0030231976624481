"""Edits of the graph as a stranger's recipe may hold them: clear errors alone, and whatever is done still runs."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import espalier as es
from espalier.model.errors import EspalierError
from espalier.passes.edits.base import EDITS

COUNT = 400
VALUES: list[Any] = [0, 1, -1, 2, 7, 10**3, 10**6, 10**18, 0.5, -0.5, float("nan"), float("inf"), "x", "same", "", None,
                     True, [1, 2], [0, 0], [10**9], [-1, -1], {}, {"a": 1}, {"ref": ["c", 0]}, {"float": "inf"},
                     {"torch": ["dtype", "float16"]}, {"slice": [0, 1, 2]}, [[1]], "reflect"]  # fmt: skip
OPS: list[Any] = ["relu", "linear", "conv2d", "Conv2d", "conv1d", "layer_norm", "rms_norm", "batch_norm", "group_norm",
                  "dropout", "identity", "softmax", "GLU", "Flatten", "Unflatten", "MaxPool2d", "Embedding", "lstm",
                  "PixelShuffle", "Upsample", "ConvTranspose2d", "PReLU", "low_rank", "Conv1D", "nonsense", 3, None,
                  "NonDynamicallyQuantizableLinear", "InstanceNorm2d", ""]  # fmt: skip
NAMES = ["p", "eps", "out_features", "in_features", "kernel_size", "stride", "padding", "dilation", "groups", "dim",
         "num_groups", "bias", "padding_mode", "normalized_shape", "num_embeddings", "embedding_dim", "size", "inplace",
         "unflattened_size", "upscale_factor", "scale_factor", "device", "output_padding", "affine", "x"]  # fmt: skip
SELECTS: list[Any] = [{"by": "where", "values": ["params > 3"]}, {"by": "type", "values": ["linear"]},
                      {"by": "nonsense"}, 3, {"by": "where", "values": ["a b"]}]  # fmt: skip


class Net(nn.Module):
    """Convolution, norms, functions and layers of odd sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.c, self.b, self.a = nn.Conv2d(3, 5, 3, padding=1), nn.BatchNorm2d(5), nn.GELU()
        self.pool, self.f, self.n = nn.AdaptiveAvgPool2d(1), nn.Linear(5, 7), nn.LayerNorm(7)
        self.d, self.h = nn.Dropout(0.1), nn.Linear(7, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.pool(self.a(self.b(self.c(x)))).flatten(1)
        return self.h(self.d(self.n(torch.relu(self.f(y))) + 1))


def edit(drawn: random.Random, nodes: list[Any]) -> dict[str, Any]:
    """An operation with values that fit, or do not."""
    tag, table = drawn.choice(list(EDITS)), {"node": drawn.choice(nodes)}
    if drawn.random() < 0.1:
        table["select"] = drawn.choice(SELECTS)
    if tag in ("insert_after", "replace"):
        attrs = {drawn.choice(NAMES): drawn.choice(VALUES) for _ in range(drawn.choice([0, 1, 1, 2]))}
        table |= {"op": drawn.choice(OPS), "attrs": attrs if drawn.random() < 0.9 else drawn.choice(VALUES)}
        table["init"] = drawn.choice(["default", "identity", "zero", "nonsense"])
    if tag == "replace":
        table["rank"] = drawn.choice([0, 1, 2, 99, -1, 10**9, "x"])
    if tag == "rewire":
        table |= {"source": drawn.choice(nodes), "port": drawn.choice(["data_in", "data_in_1", "weight", "x"]),
                  "output": drawn.choice([0, 1, -1, 10**9])}  # fmt: skip
    if tag == "set_attr":
        table |= {"name": drawn.choice(NAMES), "value": drawn.choice(VALUES)}
    return {tag: table}


@pytest.mark.slow
def test_random_edits_are_refused_clearly_or_run() -> None:
    """Another seed tries others; 10 000 found two faults, in classes and in arguments."""
    model, drawn = es.trace(Net().eval(), torch.randn(2, 3, 9, 9)), random.Random(5)
    nodes, ran, refused = [*model.project.graph.nodes, "nonsense", "", 3, None, ["c"]], 0, 0
    before = model.project.graph
    for _ in range(COUNT):
        try:
            model.edit_graph([edit(drawn, nodes) for _ in range(drawn.choice([1, 1, 2]))])  # type: ignore[attr-defined]
        except EspalierError as error:
            refused += 1
            assert error.hint and len(error.message) < 2000
            continue
        ran += 1
        model.to_torch()(torch.randn(1, 3, 9, 9))
        model.undo()
    assert model.project.graph is before and ran > 10 and refused > 200


def test_sizes_of_a_stranger_fill_no_memory() -> None:
    model = es.trace(Net().eval(), torch.randn(2, 3, 9, 9))
    for table in ({"insert_after": {"node": "h", "op": "linear", "attrs": {"out_features": 10**8}}},
                  {"set_attr": {"node": "h", "name": "out_features", "value": 10**8}}):  # fmt: skip
        try:
            model.edit_graph([table])  # type: ignore[attr-defined]
        except EspalierError as error:
            assert "allows up to" in error.hint or "whole number from 1 to" in error.hint
        else:
            raise AssertionError("800 MB of parameters for a model of 300")
