"""Conversions at operands: each operand has its own, stored and exact tensors have none, scales count."""

from __future__ import annotations

from dataclasses import replace

from espalier.model.formats.base import parse_format
from espalier.model.graph.casts import Cast, casts, origin
from espalier.model.graph.graph import Graph, Node, Ref
from espalier.model.graph.meta import Precision, TensorMeta, Weight
from espalier.passes.analysis.types import types
from espalier.passes.base import Context, NoOptions
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.select import Select
from espalier.passes.transform.quantize import quantize
from tests.model.zoo import case

INT8, INT4 = Precision(parse_format("integer(width=8, frac_width=4)")), Precision(parse_format("integer(width=4)"))
FLAT = TensorMeta((4, 4), "float32")


def product(left: Precision | None = None, **precision: Precision) -> Graph:
    """x → relu → view → matmul(view, w), w a stored tensor."""
    made = {"data_out": left} if left else {}
    nodes = [
        Node("x", "placeholder", "placeholder", "x", ports={"data_out": FLAT}),
        Node("w", "get_attr", "get_attr", "w", ports={"data_out": FLAT}, weights={"value": "w"}),
        Node("act", "relu", "call_function", "aten.relu.default", (Ref("x"),),
             ports={"data_in": FLAT, "data_out": FLAT}, precision=made),
        Node("flat", "view", "call_function", "aten.view.default", (Ref("act"), (4, 4)),
             ports={"data_in": FLAT, "data_out": FLAT}),
        Node("mm", "matmul", "call_function", "aten.matmul.default", (Ref("flat"), Ref("w")),
             ports={"data_in": FLAT, "weight": FLAT, "data_out": FLAT}, precision=precision),
    ]  # fmt: skip
    return Graph({n.id: n for n in nodes}, {"w": Weight(None, (4, 4), "float32")})


def test_stored_tensors_are_not_converted_and_moved_ones_keep_their_format() -> None:
    assert casts(product()) == {}
    assert casts(product(data_in=INT8, weight=INT4)) == {"mm": (Cast(Ref("flat"), "data_in", "float32", None, INT8),)}
    assert casts(product(INT8, data_in=INT8, weight=INT4)) == {}
    assert casts(product(INT4, data_in=INT8))["mm"][0].before == INT4
    assert origin(Ref("flat"), product()) == Ref("act")


def test_another_scale_is_a_conversion() -> None:
    fmt = parse_format("scaled_integer(width=8)")
    found = casts(product(Precision(fmt, "a"), data_in=Precision(fmt, "b")))
    assert found["mm"][0].rescales
    assert casts(product(Precision(fmt, "a"), data_in=Precision(fmt, "a"))) == {}


def test_both_operands_of_one_product_have_their_own() -> None:
    graph = product(data_in=INT8, weight=INT4)
    graph = graph.replace(replace(graph["mm"], args=(Ref("flat"), Ref("act"))))
    assert [(c.ref.node, c.port, c.after) for c in casts(graph)["mm"]] == [
        ("flat", "data_in", INT8), ("act", "weight", INT4)]  # fmt: skip


def test_the_types_report_tells_them() -> None:
    held = case("mlp")
    rules = (Rule(Select("type", ("linear",)), {"data_in": INT8.format, "weight": INT4.format}),)
    graph, _ = quantize(held.graph, QuantizeOptions(rules), Context(held.store))
    _, report = types(graph, NoOptions(), Context(held.store))
    told = {r["node"]: r["casts"] for r in report.rows if r["casts"]}
    assert told == {n.id: f"data_in: float32 → {INT8.label}" for n in graph if n.op == "linear"}
    assert not any(r["casts"] for r in types(held.graph, NoOptions(), Context(held.store))[1].rows)
