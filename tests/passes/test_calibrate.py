"""The transform: what it changes, what it reports, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from espalier.app.number_text import row_value
from espalier.model.document.recipe import Step
from espalier.model.errors import DataError, OptionsError, PassError
from espalier.model.formats.base import Format, parse_format
from espalier.model.formats.integer import Integer
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.graph.check import check
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Precision, Weight
from espalier.model.opening import open_any
from espalier.model.store.weights import Tensor
from espalier.model.torch.build import build
from espalier.model.torch.tensors import to_numpy, to_torch
from espalier.model.trust import Origin
from espalier.passes.analysis.evaluate import measure
from espalier.passes.base import Context, Report, run_step
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.observed.options import ObserveOptions
from espalier.passes.observed.shift_selection import Method
from espalier.passes.running.splits import EvaluateOptions, load_split
from espalier.passes.select import Select
from espalier.passes.transform.calibrate import CalibrateOptions
from espalier.passes.transform.quantize import quantize
from tests.model.zoo import case

MLP = "demo:digits-mlp"


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> tuple[Graph, Context]:
    """The digits' MLP."""
    found = open_any(MLP, tmp_path_factory.mktemp("mlp"), origin=Origin.TYPED)
    return found.project.graph, Context(found.store)


def with_formats(graph: Graph, context: Context, fmt: Format, ports: tuple[str, ...] = ("weight", "data_in")) -> Graph:
    rule = Rule(Select("type", ("linear",)), dict.fromkeys(ports, fmt))
    return quantize(graph, QuantizeOptions((rule,)), context)[0]


def calibrated(graph: Graph, context: Context, **options: Any) -> tuple[Graph, Report]:
    result = run_step(graph, Step("calibrate", CalibrateOptions(**options)), context)
    return result.graph, result.report


def accuracy(graph: Graph, context: Context) -> float:
    split = load_split(EvaluateOptions(data="demo:digits"), context)
    return measure(build(graph, context.store), graph, split, 64, context).figures()["accuracy"]


@pytest.mark.parametrize("method", ["minmax", "percentile", "mse", "entropy"])
def test_a_coarse_place_of_the_binary_point_is_mended(opened: tuple[Graph, Context], method: Method) -> None:
    graph, context = opened
    coarse = with_formats(graph, context, Integer(6, 0))
    after, report = calibrated(coarse, context, data="demo:digits", method=method)
    assert accuracy(coarse, context) < 0.7 and accuracy(after, context) > accuracy(graph, context) - 0.03
    assert report.summary["ports"] == len(report.rows) == 6 and report.summary["left"] == 0
    assert report.summary["mean_sqnr_db"] > report.summary["mean_sqnr_before_db"] + 10
    for row in report.rows:
        fmt = after[row["node"]].precision[row["port"]].format
        assert isinstance(fmt, Integer) and (fmt.width, fmt.frac_width) == (6, row["after"]) and row["before"] == 0
        assert row["parameter"] == "frac_width" and row["high"] == fmt.limits[1] / 2.0**fmt.frac_width
        if method == "minmax":
            assert row["low"] <= row["min"] and row["max"] <= row["high"] and row["saturated"] == 0


def test_activations_are_those_of_the_float_model_before_its_formats(opened: tuple[Graph, Context]) -> None:
    """A useless format on the first layer does not spoil what the second is fitted to."""
    graph, context = opened
    first, second = [n for n in graph if n.op == "linear"][:2]
    useless = replace(first, precision={"weight": Precision(Integer(2, -5)), "data_in": Precision(Integer(2, -9))})
    good = replace(second, precision={"data_in": Precision(Integer(8, 0))})
    _, alone = calibrated(graph.replace(good), context, data="demo:digits")
    _, both = calibrated(graph.replace(useless, good), context, data="demo:digits")
    assert alone.rows[0] == next(r for r in both.rows if r["node"] == second.id)
    split = load_split(ObserveOptions(data="demo:digits", split="train"), context)
    module, seen = build(graph, context.store), []
    module.get_submodule(second.target).register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    with torch.no_grad():
        module(torch.from_numpy(next(split.batches(256))[0]["x"]))
    assert alone.rows[0]["max"] == float(seen[0].max()) and alone.rows[0]["elements"] == seen[0].numel()


@pytest.mark.slow
@pytest.mark.parametrize("fmt", [ScaledInteger(4, "tensor"), ScaledInteger(4, "tensor", symmetric=False),
                                 parse_format("binary_scaled(granularity=tensor)")], ids=str)  # fmt: skip
def test_static_scales_are_buffers_of_the_graph(opened: tuple[Graph, Context], fmt: Format) -> None:
    graph, context = opened
    after, report = calibrated(with_formats(graph, context, fmt), context, data="demo:digits")
    assert not [p for p in check(after) if p.severity == "error"]
    names = {c.scale for n in after for c in n.precision.values()}
    assert len(names) == len(report.rows) == 6 and None not in names
    for name in names:
        held = after.weights[name or ""]
        assert held.role == "buffer" and not held.trainable and held.shape == fmt.scale_shape((3, 4))  # type: ignore[attr-defined]
    row = next(r for r in report.rows if r["port"] == "data_in")
    assert (row["parameter"], row["before"], row["after"] in names) == ("scale", "own", True)
    module = build(after, context.store)
    assert len(names & set(dict(module.meta["espalier"]))) == 6
    again, second = calibrated(after, context, data="demo:digits")
    assert again.weights == after.weights, "the same data gives the same scales, under the same names"
    assert all(r["before"] == r["after"] for r in second.rows)


def test_rows_of_activations_keep_their_own_scales(opened: tuple[Graph, Context]) -> None:
    graph, context = opened
    after, report = calibrated(with_formats(graph, context, ScaledInteger(4)), context, data="demo:digits")
    assert {r["port"] for r in report.rows} == {"weight"} and report.summary["left"] == 3
    first = next(n.id for n in graph if n.op == "linear")
    assert report.summary["note"].startswith(f"Not calibrated: {first}.data_in, ")
    assert report.summary["note"].endswith("(a scale for each row or group, computed from each batch).")
    assert all(n.precision["data_in"].scale is None for n in after if n.precision)


def test_without_data_weights_alone_are_fitted(opened: tuple[Graph, Context]) -> None:
    graph, context = opened
    _, report = calibrated(with_formats(graph, context, Integer(8, 4)), context)
    assert {r["port"] for r in report.rows} == {"weight"} and report.summary["left"] == 3
    first = next(n.id for n in graph if n.op == "linear")
    assert report.summary["note"].startswith(f"Not calibrated: {first}.data_in, ")
    assert report.summary["note"].endswith(" (no data).")
    with pytest.raises(PassError, match="without data"):
        calibrated(with_formats(graph, context, Integer(8, 4), ("data_in",)), context)


def test_several_operands_share_the_range_that_holds_both() -> None:
    """data_in of an addition stands for both of its operands."""
    from espalier.passes.observed.tensor_statistics import operands

    for name in ("attention", "bert", "functions", "odd"):
        for node in case(name).graph:
            if node.op == "add" and "data_in_1" in node.ports and node.ports["data_in_1"].dtype == "float32":
                assert operands(node, "data_in") == ("data_in", "data_in_1")
                return
    pytest.fail("no graph of the zoo adds two tensors")


def test_an_exact_port_is_called_exact(opened: tuple[Graph, Context]) -> None:
    graph, context = opened
    quantised = with_formats(graph, context, Integer(8, 4), ("weight",))
    rounded = {n.weights["weight"] for n in quantised if n.precision}
    values = {k: to_torch(context.store.get(graph.weights[k].key or "")) for k in rounded}
    keys = {k: context.store.hold(to_numpy(Integer(8, 4).forward(v))) for k, v in values.items()}
    held = quantised.with_weights({k: replace(graph.weights[k], key=v) for k, v in keys.items()})
    rows = calibrated(held, context)[1].rows
    assert rows and all(row_value(r, k) == "exact" for r in rows for k in ("sqnr_before_db", "sqnr_db"))


def test_selection_and_ports(opened: tuple[Graph, Context]) -> None:
    graph, context = opened
    quantised = with_formats(graph, context, Integer(8, 4))
    name = next(n.id for n in quantised if n.op == "linear")
    after, report = calibrated(quantised, context, select=Select("name", (name,)), ports=("weight",))
    assert [(r["node"], r["port"]) for r in report.rows] == [(name, "weight")]
    assert set(after.delta(quantised).changed) == {name}


# -- what it refuses


def test_nothing_to_calibrate(opened: tuple[Graph, Context]) -> None:
    graph, context = opened
    with pytest.raises(PassError, match="no formats"):
        calibrated(graph, context)
    with pytest.raises(PassError, match="their formats: mxint"):
        calibrated(with_formats(graph, context, parse_format("mxint")), context)
    with pytest.raises(PassError, match="on these ports"):
        calibrated(with_formats(graph, context, Integer()), context, ports=("bias",))
    with pytest.raises(PassError, match="matches no node"):
        calibrated(graph, context, select=Select("name", ("nowhere",)))


def test_a_weight_that_is_not_finite_is_named(opened: tuple[Graph, Context]) -> None:
    graph, context = opened
    node = next(n for n in graph if n.op == "linear")
    name = node.weights["weight"]
    values = np.ones(graph.weights[name].shape, np.float32)
    values[0, :2] = np.nan, np.inf
    spoilt = graph.with_weights({name: Weight(context.store.hold(Tensor(values, "float32")), values.shape, "float32")})
    with pytest.raises(PassError, match=rf"{name} holds 2 values that are not finite") as caught:
        calibrated(with_formats(spoilt, context, Integer(8, 4)), context)
    assert caught.value.node == node.id and caught.value.hint


def test_data_that_does_not_fit(opened: tuple[Graph, Context]) -> None:
    graph, context = opened
    with pytest.raises(DataError, match=r"needs the input|cannot take"):
        calibrated(with_formats(graph, context, Integer(8, 4)), context, data="demo:reviews")


def test_options_that_cannot_be() -> None:
    with pytest.raises(OptionsError, match="not a port"):
        CalibrateOptions(ports=("wieght",))
    with pytest.raises(OptionsError, match="percentile"):
        CalibrateOptions(percentile=20.0)
    assert CalibrateOptions(ports=("data_in",)).split == "train", "never the split that is scored on"


def test_the_same_seed_gives_the_same_graph(tmp_path: Path) -> None:
    found = open_any(MLP, tmp_path, origin=Origin.TYPED)
    context = Context(found.store)
    graph = with_formats(found.project.graph, context, Integer(8, 4))
    results = [calibrated(graph, context, data="demo:digits") for _ in range(2)]
    assert results[0][1] == results[1][1] and results[0][0].nodes == results[1][0].nodes
