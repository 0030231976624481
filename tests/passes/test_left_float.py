"""Presets choose Linears that are modules, and say what stays float."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from espalier.model.formats.scaled_element import ScaledElement
from espalier.model.graph.graph import Graph
from espalier.model.trace.trace import trace
from espalier.passes.base import Context, Report
from espalier.passes.choices.presets import QuantizePresetOptions
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.left_float import left_float
from espalier.passes.select import Select
from espalier.passes.transform.quantize import quantize
from espalier.passes.transform.quantize_preset import quantize_preset
from tests.model.zoo import case

INT4 = ScaledElement("int4", "channel")


class Router(nn.Module):
    """A product with a parameter of its own, as transformers' routers."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 16))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight)


class Mixture(nn.Module):
    """A Linear, a router, and experts in one parameter: 256, 64 and 1024 elements."""

    def __init__(self, turned: bool = False) -> None:
        super().__init__()
        self.a, self.gate, self.turned = nn.Linear(16, 16, bias=False), Router(), turned
        self.experts = nn.Parameter(torch.randn(4, 16, 16))

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        experts = self.experts.transpose(1, 2) if self.turned else self.experts
        return torch.einsum("bi,eij->bej", h, experts) * self.gate(h).softmax(-1)[..., None]


def traced(model: nn.Module) -> Graph:
    torch.manual_seed(0)
    return trace(model.eval(), {"x": torch.randn(4, 16)}, case("mlp").store).graph


def preset(graph: Graph, **more: object) -> tuple[Graph, Report]:
    options = QuantizePresetOptions("w4a16_g128", group=16, **more)  # type: ignore[arg-type]
    return quantize_preset(graph, options, Context(case("mlp").store))


def linears(graph: Graph) -> list[str]:
    return [n.call for n in graph if n.op == "linear" and n.precision]


def test_a_router_stays_float_and_is_named() -> None:
    graph, report = preset(traced(Mixture()))
    assert linears(graph) == ["call_module"]
    (row,) = [r for r in report.rows if "skipped" in r]
    assert row["skipped"] == "a function of a parameter, such as a router, not a Linear"
    assert report.summary["skipped"] == 1


def test_the_report_says_the_share_that_stays_float() -> None:
    _, report = preset(traced(Mixture()))
    # 1024 + 64 of 1344 elements
    assert report.summary["float"] == (
        '81% of the parameters stay float (einsum 76%, linear 5%). quantize("all", weight = …) reaches einsum, linear.'
    )


def test_what_it_names_is_reached() -> None:
    graph = traced(Mixture())
    rule = Rule(Select(), {"weight": INT4})
    after, _ = quantize(graph, QuantizeOptions((rule,)), Context(case("mlp").store))
    assert left_float(after) == ""


def test_weights_in_another_shape_are_not_promised() -> None:
    _, report = preset(traced(Mixture(turned=True)))
    assert report.summary["float"].endswith("Weights that are read through transpose are always stored in float.")


def test_a_selected_router_is_quantised() -> None:
    graph = traced(Mixture())
    router = next(n.id for n in graph if n.op == "linear" and n.call == "call_function")
    assert linears(preset(graph, select=Select("name", (router,)))[0]) == ["call_function"]


def test_a_model_of_functions_alone_is_quantised() -> None:
    graph, report = preset(traced(Router()))
    assert linears(graph) == ["call_function"] and "float" not in report.summary
