"""The integer model of a whole network equals the fake-quantised model in double precision."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from espalier.model.errors import EmitError
from espalier.model.formats.integer import Integer
from espalier.model.formats.mxfp import MXFP
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Precision
from espalier.model.opening import Opened, open_any
from espalier.model.torch.build import build
from espalier.verilog.design.options import EmitOptions
from espalier.verilog.emulation.integer_model import IntegerModel
from espalier.verilog.lowering.lower import lower

CHOICES = {"data_in": Integer(8, 4), "weight": Integer(8, 6), "bias": Integer(12, 8)}


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return open_any("demo:digits-mlp", tmp_path_factory.mktemp("work"))


def quantised(opened: Opened, **formats: object) -> Graph:
    graph = opened.project.base
    chosen = {p: Precision(f) for p, f in {**CHOICES, **formats}.items()}
    return graph.replace(*(replace(n, precision=chosen) for n in graph if n.op == "linear"))


def test_equals_the_fake_quantised_model_in_doubles(opened: Opened) -> None:
    graph = quantised(opened, data_out=Integer(10, 3))
    exact = IntegerModel(graph, opened.store, lower(graph, opened.store, EmitOptions()))
    x = torch.rand(64, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(exact(x=x), build(graph, opened.store).double()(x=x.double()), rtol=0, atol=0)


def test_a_format_without_hardware_names_the_node(opened: Opened) -> None:
    graph = quantised(opened, weight=MXFP("e4m3", 16))
    with pytest.raises(EmitError, match="weight of fc1 is in") as caught:
        lower(graph, opened.store, EmitOptions())
    assert caught.value.node == "fc1"


def test_an_accumulator_beyond_the_supported_width_names_the_node(opened: Opened) -> None:
    graph = quantised(opened, data_in=Integer(32, 4), weight=Integer(32, 30))
    with pytest.raises(EmitError, match="accumulator") as caught:
        lower(graph, opened.store, EmitOptions())
    assert caught.value.node == "fc1"
