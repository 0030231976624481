"""The reason why a layer computes in float is one that holds for it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

import espalier as es
from espalier.model.formats.base import parse_format
from espalier.model.graph.meta import Precision
from espalier.passes.export.float_layers import in_float_layers


@pytest.mark.parametrize(
    ("after", "why"), [("int8", "no integer operator of onnxruntime was found"), ("", "is not rounded to 8 bits")]
)
def test_a_result_that_is_rounded_is_not_said_to_be_in_float(after: str, why: str) -> None:
    module = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    graph = es.trace(module.eval(), torch.randn(2, 6)).graph
    first, last = (n for n in graph if n.op == "linear")
    data = Precision(parse_format("integer(width=8,rounding=floor)"))
    changed = [replace(first, precision={"weight": Precision(parse_format("int8")), "data_in": data})]
    if after:
        changed.append(
            replace(last, precision={"data_in": Precision(parse_format("scaled_integer(granularity=tensor)"))})
        )
    (found,) = in_float_layers(graph.replace(*changed), frozenset())
    assert found.startswith(first.id) and why in found
