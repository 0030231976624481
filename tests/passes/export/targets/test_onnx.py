"""What is said of ONNX before an export is what an export does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from espalier.model.formats.base import Format, parse_format
from espalier.model.formats.scaled import ScaledFormat
from espalier.model.opening import open_any
from espalier.passes.analysis.format_sqnr import usual_formats
from espalier.passes.export.grids import grid_of
from espalier.passes.export.targets import all_unheld
from espalier.passes.export.targets.onnx import stored
from tests.passes.export.models import chosen

MORE = ("mxint(width=16)", "integer(width=16,frac_width=12)", "integer(width=18,frac_width=12)", "mxfp(element=e5m2)",
        "mxint(width=8,rows=2)", "scaled_integer(width=8,granularity=tensor)", "scaled_integer(width=16)",
        "scaled_integer(width=8,symmetric=false)", "minifloat_ieee(width=8,exponent_width=5,reserved=inf)",
        "minifloat_ieee(width=6,exponent_width=3)", "ternary(granularity=tensor)", "nvfp4",
        "scaled_element(element=int8)",
        "scaled_element(element=int4,granularity=group,group=32)", "scaled_element(element=e4m3)",
        "offset_integer(width=4)")  # fmt: skip
FORMATS = [*usual_formats(), *(parse_format(text) for text in MORE)]


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_weights_lie_in_whole_numbers_where_it_is_said(fmt: Format) -> None:
    """`grid_of` looks at the values; the report has none. Values that use all of a format tell both alike."""
    torch.manual_seed(0)
    weight = torch.randn(64, 128) * torch.logspace(-4, 1, 128)
    if not fmt.rowwise and not isinstance(fmt, ScaledFormat):
        weight *= float(fmt.define(torch.tensor([1e30]))) / weight.abs().max() * 1.1
    value = fmt.define(weight).numpy()
    grid = grid_of(value.astype(np.float32), weight.numpy(), fmt, None, None)
    assert (stored(fmt, 2, "float32") is None) == (grid is not None)


def test_a_tensor_of_more_axes_has_one_scale_and_halves_stay_float() -> None:
    channel, tensor = (parse_format(f"scaled_integer(width=8,granularity={g})") for g in ("channel", "tensor"))
    assert stored(tensor, 3, "float32") is None
    for found in (stored(channel, 3, "float32"), stored(tensor, 2, "bfloat16")):
        assert found is not None and found.instead


@pytest.mark.slow
def test_nodes_of_a_model(tmp_path: Path) -> None:
    """Held: a Linear in rows, activations in integers. Not held: logarithms, half scales from the data."""
    opened = open_any("config:bert?vocab_size=61&hidden_size=32&num_attention_heads=4&num_hidden_layers=1"
                      "&intermediate_size=24&task=sequence-classification", tmp_path)  # fmt: skip
    halves = "scaled_integer(width=8,scale_dtype=float16)"
    formats = {"linear.weight": "log", "linear.data_in": halves, "embedding.weight": "scaled_integer(width=8)"}
    graph = chosen(opened.project.graph, formats)
    found = all_unheld("onnx", graph)
    linear = [n.id for n in graph if n.op == "linear"]
    assert [(u.node, u.port) for u in found] == [(n, p) for n in linear for p in ("weight", "data_in")]
    assert "float16s taken from the data" in str(found[1]) and found[1].activation and not found[0].activation
    assert not all_unheld("onnx", chosen(opened.project.graph, {"linear.weight": "mxint8", "linear.data_in": "int8"}))
