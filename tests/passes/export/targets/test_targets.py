"""What a target holds is said node by node, by formats and sizes alone."""

from __future__ import annotations

import pytest

from espalier.model.errors import ExportError
from espalier.model.formats.base import parse_format
from espalier.model.opening import open_any
from espalier.passes.export.targets import TARGETS, No, all_unheld, holds, refusal
from espalier.passes.export.targets.compressed_tensors import Args, input_args, storage, weight_args
from espalier.passes.export.targets.gguf import type_of
from tests.passes.export.models import chosen
from tests.passes.export.targets.hints import choices

CONFIG = ("config:llama?vocab_size=61&hidden_size=32&num_attention_heads=4&num_hidden_layers=1&intermediate_size=24"
          "&num_key_value_heads=2&task=causal-lm")  # fmt: skip


@pytest.mark.parametrize(
    ("text", "dtype", "args"),
    [
        ("scaled_integer(width=8)", "float32", Args(8, "channel")),
        ("scaled_integer(width=4,granularity=group,group=16)", "float32", Args(4, "group", group_size=16)),
        ("scaled_integer(width=6,granularity=tensor,symmetric=false)", "float32", Args(6, "tensor", symmetric=False)),
        ("scaled_integer(width=8,scale_dtype=bfloat16)", "bfloat16", Args(8, "channel")),
        ("integer(width=8,frac_width=4,signed=false)", "float32", Args(8, "tensor", symmetric=False)),
        ("ternary", "float32", Args(2, "channel")),
        ("mxint8", "float32", Args(8, "group", group_size=32)),
        ("nvfp4", "bfloat16", Args(4, "tensor_group", "float", group_size=16, scale_dtype="float8_e4m3fn")),
        ("mxfp(element=e2m1)", "bfloat16", Args(4, "group", "float", group_size=32, scale_dtype="uint8")),
        ("minifloat_ieee(width=8,exponent_width=4,reserved=nan)", "float32", Args(8, "tensor", "float")),
    ],
)  # fmt: skip
def test_arguments_of_weights(text: str, dtype: str, args: Args) -> None:
    assert weight_args(parse_format(text), (64, 64), dtype) == args


@pytest.mark.parametrize(
    ("text", "dtype", "why"),
    [
        ("scaled_integer(width=9)", "float32", "2 to 8 bits, not 9"),
        ("scaled_integer(width=4,granularity=group,group=48)", "float32", "groups of 48 do not divide rows of 64"),
        ("scaled_integer(width=8)", "bfloat16", "read in the weight's bfloat16"),
        ("nvfp4", "float32", "make bfloat16 of it"),
        ("mxfp(element=e5m2)", "bfloat16", "elements are e2m1 or e4m3"),
        ("mxfp(element=e4m3,block=16)", "bfloat16", "blocks are 32"),
        ("log", "float32", "no integers times scales"),
        ("minifloat_ieee(width=8,exponent_width=5,reserved=inf)", "float32", "no integers times scales"),
    ],
)
def test_weights_that_are_not_held(text: str, dtype: str, why: str) -> None:
    found = weight_args(parse_format(text), (64, 64), dtype)
    assert isinstance(found, No) and why in found.why


@pytest.mark.parametrize(
    "text",
    [
        "nvfp4",
        "mxint(width=8)",
        "mxfp(element=e4m3)",
        "scaled_integer(width=4,granularity=group,group=16,scale_dtype=bfloat16)",
    ],
)
def test_the_hint_for_rows_that_groups_do_not_divide_helps(text: str) -> None:
    """Each choice that it names is held: of NVFP4 and MXFP another block is not."""
    found = weight_args(parse_format(text), (64, 20), "bfloat16")
    assert isinstance(found, No) and "do not divide rows of 20" in found.why
    for choice in choices(found.instead, text):
        assert not isinstance(weight_args(parse_format(choice), (64, 20), "bfloat16"), No), choice


def test_inputs_and_storage() -> None:
    int8 = parse_format("scaled_integer(width=8)")
    assert input_args(int8, None) == Args(8, "token", dynamic=True)
    assert isinstance(input_args(int8, "scale"), No), "no scale of a row is kept for inputs"
    assert isinstance(input_args(parse_format("integer(width=8,frac_width=4,rounding=floor)"), None), No)
    four, eight = Args(4, "channel"), Args(8, "channel")
    assert storage(eight, None, "Linear") == "pack-quantized"
    assert storage(eight, Args(8, "token", dynamic=True), "Linear") == "int-quantized"
    assert storage(four, Args(8, "token", dynamic=True), "Linear") == "pack-quantized"
    assert storage(four, None, "Embedding") == "int-quantized"
    assert storage(Args(4, "group", symmetric=False, group_size=32), None, "Linear") == "int-quantized"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("scaled_integer(width=8,granularity=group,group=32,scale_dtype=float16)", "Q8_0"),
        ("scaled_integer(width=4,granularity=group,group=64,scale_dtype=float16)", "Q4_0"),
        ("scaled_integer(width=5,granularity=tensor,scale_dtype=float16)", "Q5_0"),
        ("integer(width=4,frac_width=2,signed=false)", "Q5_0"),
        ("mxint8", "Q8_0"), ("block_fp(width=4,block=32)", "Q4_0"), ("mxfp(element=e2m1)", "MXFP4"),
    ],
)  # fmt: skip
def test_types_of_ggml(text: str, kind: str) -> None:
    assert type_of(parse_format(text), 64) == kind
    assert isinstance(type_of(parse_format(text), 65), No)


@pytest.mark.parametrize("text", ["scaled_integer(width=8)", "ternary", "mxfp(element=e4m3)", "block_fp(block=16)",
                                  "scaled_integer(width=4,symmetric=false,scale_dtype=float16)"])  # fmt: skip
def test_formats_without_a_type_name_one(text: str) -> None:
    found = type_of(parse_format(text), 64)
    assert isinstance(found, No) and "for Q8_0" in found.instead


@pytest.mark.slow
def test_nodes_are_named_with_what_they_can_have(tmp_path: object) -> None:
    from pathlib import Path

    graph = open_any(CONFIG, Path(str(tmp_path))).project.graph
    assert {"compressed-tensors", "gguf"} <= set(TARGETS)
    for target in TARGETS:
        assert all(holds(target, node, graph) is None for node in graph), "float goes anywhere"
    graph = chosen(graph, {"linear.weight": "log", "linear.data_in": "scaled_integer(width=8)"})
    node = next(n for n in graph if n.op == "linear")
    text = holds("compressed-tensors", node, graph)
    assert text is not None and text.startswith("log 8 of weight") and "Choose scaled_integer(width=8)" in text
    found = all_unheld("gguf", graph)
    assert {u.port for u in found} == {"weight", "data_in"} and {u.node for u in found} == {
        n.id for n in graph if n.op == "linear"
    }
    error = refusal("gguf", found)
    assert node.id in error.message and "more." in error.message and error.node == node.id
    with pytest.raises(ExportError, match="no target of export"):
        holds("ggml", node, graph)
