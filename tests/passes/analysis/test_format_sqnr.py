"""SQNR of formats: against the plain formula, with fitted parameters, masks, and parts on the way."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from espalier.model.formats.base import Format, parse_format
from espalier.model.formats.integer import Integer
from espalier.model.graph.graph import Graph, Node, Ref
from espalier.model.graph.meta import Sparsity, TensorMeta, Weight
from espalier.model.store.weights import Tensor, WeightStore
from espalier.passes.analysis.format_sqnr import (
    FormatSqnrOptions,
    WeightSqnr,
    columns,
    fitted,
    format_sqnr,
    tried_nodes,
    usual_formats,
)
from espalier.passes.base import Context

RANDOM = np.random.default_rng(3)


def one_layer(values: np.ndarray, folder: Path, keep: np.ndarray | None = None) -> tuple[Graph, WeightStore]:
    """x → fc → output with these weights."""
    store = WeightStore(folder)
    out, into = values.shape
    key = store.hold(Tensor(values, "float32"))
    wide = TensorMeta(("batch", into), "float32")
    ports = {
        "data_in": wide,
        "weight": TensorMeta(values.shape, "float32"),
        "data_out": TensorMeta(("batch", out), "float32"),
    }
    pruned = (
        {}
        if keep is None
        else {
            "weight": Sparsity("l1", 0.5, "local", store.hold(Tensor(np.packbits(keep), "uint8")), int((~keep).sum()))
        }
    )
    nodes = [
        Node("x", "placeholder", "placeholder", "x", ports={"data_out": wide}),
        Node("fc", "linear", "call_module", "fc", (Ref("x"),), ports=ports, weights={"weight": "fc.weight"},
             attrs={"class": "torch.nn.modules.linear.Linear"}, module_path="fc", sparsity=pruned),
        Node("output", "output", "output", "output", (Ref("fc"),)),
    ]  # fmt: skip
    weights = {"fc.weight": Weight(key, values.shape, "float32")}
    return Graph({n.id: n for n in nodes}, weights, ("output",), "tensor", {"batch": 2}), store


def plain(fmt: Format, x: np.ndarray) -> float:
    y = fmt.define(torch.from_numpy(x)).double().numpy()
    noise = float(((x - y) ** 2).sum())
    return math.inf if noise == 0 else 10 * math.log10(float((x.astype(np.float64) ** 2).sum()) / noise)


def test_every_format_agrees_with_the_formula(tmp_path: Path) -> None:
    values = RANDOM.normal(0, 0.02, (700, 300)).astype(np.float32)  # more than one part, short blocks
    graph, store = one_layer(values, tmp_path)
    heard: list[object] = []
    _, report = format_sqnr(graph, FormatSqnrOptions(), Context(store, found=heard.append))
    (found,) = heard
    assert isinstance(found, WeightSqnr) and found.node == "fc" and found.elements == values.size
    assert len(found.formats) == len(usual_formats()) == len(report.rows[0]) - 2
    for fmt, value in zip(found.formats, found.sqnr, strict=True):
        assert value == pytest.approx(plain(fmt, values), abs=1e-3), fmt.label


def test_reference_values(tmp_path: Path) -> None:
    graph, store = one_layer(RANDOM.normal(0, 0.02, (512, 512)).astype(np.float32), tmp_path)
    tried = tuple(parse_format(t) for t in ("integer(width=8, frac_width=7)", "mxint", "mxfp(element=e4m3)"))
    _, report = format_sqnr(graph, FormatSqnrOptions(tried, fit=False), Context(store))
    assert list(report.rows[0].values())[2:] == pytest.approx([19.0, 42.4, 30.7], abs=0.2)


def test_a_mask_counts_as_zeros(tmp_path: Path) -> None:
    values = RANDOM.normal(0, 0.02, (64, 64)).astype(np.float32)
    keep = RANDOM.random(values.shape) > 0.5
    graph, store = one_layer(values, tmp_path, keep.reshape(-1))
    fmt = parse_format("mxint(width=4)")
    _, report = format_sqnr(graph, FormatSqnrOptions((fmt,)), Context(store))
    assert report.rows[0][fmt.label] == pytest.approx(plain(fmt, values * keep), abs=1e-3)


def test_each_weight_gets_its_own_binary_point(tmp_path: Path) -> None:
    formats = tuple(parse_format(t) for t in ("integer(width=8)", "minifloat_ieee", "mxint"))
    x = torch.from_numpy(RANDOM.normal(0, 0.02, 5000).astype(np.float32))
    small, large = fitted(formats, x), fitted(formats, x * 1024)
    tried = [Integer(8, f) for f in range(20)]
    assert small[0] == min(tried, key=lambda f: float((f.define(x) - x).square().sum()))
    assert large[0] == Integer(8, small[0].frac_width - 10)  # type: ignore[attr-defined]
    assert small[1].bias - large[1].bias == 10 and small[2] == large[2] == formats[2]  # type: ignore[attr-defined]
    assert fitted(formats, torch.zeros(4)) == formats == fitted(formats, torch.zeros(0))


def test_nodes_without_weights_are_not_tried(tmp_path: Path) -> None:
    graph, _ = one_layer(np.ones((2, 2), np.float32), tmp_path)
    assert [n.id for n in tried_nodes(graph)] == ["fc"]


def test_names_of_columns() -> None:
    tried = tuple(parse_format(t) for t in ("integer(width=6, frac_width=3)", "mxint", "minifloat_ieee"))
    assert columns(tried) == ("int 6 fitted", "mxint8/32", "E4M3 fitted")
    assert columns(tried, fit=False) == ("int 6/3", "mxint8/32", "E4M3")


def test_the_report_tells_exact_from_no_signal(tmp_path: Path) -> None:
    graph, store = one_layer(np.full((4, 8), 0.5, np.float32), tmp_path / "some")
    options = FormatSqnrOptions((Integer(8, 4), Integer(4, 0)), fit=False)
    _, report = format_sqnr(graph, options, Context(store))
    assert report.rows[0]["int 8/4"] == "exact" and report.rows[0]["int 4/0"] == 0.0
