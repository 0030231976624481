"""What torchao's tensors hold is said by formats and sizes alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from espalier.model.formats.base import parse_format
from espalier.model.graph.meta import Precision
from espalier.model.opening import open_any
from espalier.passes.export.targets import No, holds, unheld
from espalier.passes.export.targets.torchao import Inputs, Scheme, scheme_of, weight_scheme, with_inputs
from tests.passes.export.models import chosen
from tests.passes.export.targets.hints import choices

CONFIG = ("config:llama?vocab_size=61&hidden_size=32&num_attention_heads=4&num_hidden_layers=1&intermediate_size=24"
          "&num_key_value_heads=2&task=causal-lm")  # fmt: skip
INT, INTX, FLOAT, NV = "Int8Tensor", "IntxUnpackedToInt8Tensor", "Float8Tensor", "NVFP4Tensor"
TOKENS, ZEROS = Inputs("channel", symmetric=True), Inputs("channel", symmetric=False)


@pytest.mark.parametrize(
    ("text", "scheme"),
    [
        ("scaled_integer(width=8)", Scheme(INT, 8, "channel")),
        ("scaled_integer(width=8,symmetric=false)", Scheme(INTX, 8, "channel", symmetric=False)),
        ("scaled_integer(width=4,granularity=group,group=16)", Scheme(INTX, 4, "group", 16)),
        ("scaled_element(element=int8,granularity=tensor)", Scheme(INT, 8, "tensor")),
        ("scaled_element(element=e5m2)", Scheme(FLOAT, 8, "channel", element="e5m2")),
        ("integer(width=8,frac_width=4)", Scheme(INT, 8, "tensor")),
        ("integer(width=6,frac_width=4,signed=false)", Scheme(INTX, 6, "tensor", symmetric=False)),
        ("ternary", Scheme(INTX, 2, "channel")), ("mxint8", Scheme(INT, 8, "group", 32)),
        ("mxfp(element=e2m1)", Scheme(INTX, 5, "group", 32)), ("mxfp(element=e2m3)", Scheme(INTX, 7, "group", 32)),
        ("mxfp(element=e4m3)", Scheme(FLOAT, 8, "group", 32, element="e4m3")),
        ("minifloat_ieee(width=8,exponent_width=4,reserved=nan,exponent_bias=9)",
         Scheme(FLOAT, 8, "tensor", element="e4m3")),
        ("nvfp4", Scheme(NV, 4, "group", 16)),
    ],
)  # fmt: skip
def test_schemes_of_weights(text: str, scheme: Scheme) -> None:
    assert weight_scheme(parse_format(text), (64, 64), "float32") == scheme


@pytest.mark.parametrize(
    ("text", "dtype", "why"),
    [
        ("scaled_integer(width=9)", "float32", "2 to 8 bits, not 9"),
        ("scaled_integer(width=4,granularity=group,group=48)", "float32", "groups of 48 do not divide rows of 64"),
        ("scaled_integer(width=8)", "float64", "not float64"),
        ("nvfp4(block=32)", "float32", "blocks are 16"), ("mxint(rows=2)", "float32", "one row"),
        ("mxfp(element=e3m2)", "float32", "no integers of 8 bits"), ("log", "float32", "no integers of 8 bits"),
        ("minifloat_ieee(width=8,exponent_width=4)", "float32", "no integers of 8 bits"),
    ],
)  # fmt: skip
def test_weights_that_are_not_held(text: str, dtype: str, why: str) -> None:
    found = weight_scheme(parse_format(text), (64, 64), dtype)
    assert isinstance(found, No) and why in found.why and found.instead


@pytest.mark.parametrize(
    "text", ["nvfp4", "mxint(width=8)", "mxfp(element=e4m3)", "scaled_integer(width=4,granularity=group,group=16)"]
)
def test_the_hint_for_rows_that_groups_do_not_divide_helps(text: str) -> None:
    """Each choice that it names is held: of NVFP4 and MXFP another block is not."""
    found = weight_scheme(parse_format(text), (64, 20), "float32")
    assert isinstance(found, No) and "do not divide rows of 20" in found.why
    for choice in choices(found.instead, text):
        assert not isinstance(weight_scheme(parse_format(choice), (64, 20), "float32"), No), choice


def test_schemes_of_inputs_depend_on_the_weight() -> None:
    """Int8Tensor multiplies codes with a scale of the row or tensor; other integers are multiplied as floats."""
    int8, zeros = parse_format("scaled_integer(width=8)"), parse_format("scaled_integer(width=8,symmetric=false)")
    row, four, group = Scheme(INT, 8, "channel"), Scheme(INTX, 4, "channel"), Scheme(INTX, 4, "group", 32)
    asymmetric = Scheme(INTX, 8, "channel", symmetric=False)
    assert with_inputs(row, int8, None) == replace(row, inputs=TOKENS)
    assert with_inputs(four, int8, None) == replace(four, tensor=INT, inputs=TOKENS)
    assert with_inputs(group, zeros, None) == replace(group, inputs=ZEROS)
    assert with_inputs(asymmetric, zeros, None) == replace(asymmetric, inputs=ZEROS)
    for scheme, fmt, scale, why in [
        (group, int8, None, "weights in groups"), (asymmetric, int8, None, "weights with zero points"),
        (row, int8, "scale", "taken from the data"), (row, parse_format("integer(width=8)"), None, "8-bit integers"),
        (Scheme(NV, 4, "group", 16), int8, None, "integers alone"),
    ]:  # fmt: skip
        found = with_inputs(scheme, fmt, scale)
        assert isinstance(found, No) and why in found.why


@pytest.mark.slow
def test_nodes_are_named_with_what_they_can_have(tmp_path: Path) -> None:
    graph = open_any(CONFIG, tmp_path).project.graph
    graph = chosen(graph, {"linear.weight": "scaled_integer(width=4,granularity=group,group=16)"})
    held = [n for n in graph if n.op == "linear"]
    refused = [n for n in held if holds("torchao", n, graph)]
    assert {n.target.rpartition(".")[2] for n in refused} == {"down_proj"}, "rows of 24"
    text = holds("torchao", refused[0], graph)
    assert text and "groups of 16 do not divide rows of 24. Choose a group that divides 24" in text
    assert sum(scheme_of(n, graph) is not None for n in held) == len(held) - 1
    node = replace(held[0], precision={"data_out": Precision(parse_format("int8")), **held[0].precision})
    (found,) = unheld("torchao", node, graph)
    assert found.port == "data_out" and found.activation
    embedding = next(n for n in chosen(graph, {"embedding.weight": "nvfp4"}) if n.op == "embedding")
    assert "looks no rows up" in str(holds("torchao", embedding, graph))
