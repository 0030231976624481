"""What onnxruntime makes of exported files: counted operators of its optimised model, and results beside torch's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import espalier as es
from espalier.app.cli import main
from espalier.passes.export.compare import PRECISE
from tests.passes.export.precise_session import precise_session, skip_if_products_overflow

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

AFFINE = "scaled_integer(granularity=tensor,symmetric=false)"
SYMMETRIC = "scaled_integer(granularity=tensor)"
STATIC_LAYERS = ("QLinearConv", "QGemm", "MatMulIntegerToFloat", "QLinearMatMul")


class Odd(nn.Module):
    """Odd sizes, strides and channels; grouped, depthwise and transposed convolutions; a residual addition."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 10, 3, stride=2, padding=1)
        self.depthwise = nn.Conv2d(10, 10, 3, padding=1, groups=10)
        self.grouped = nn.Conv2d(10, 15, (1, 3), padding=(0, 1), groups=5, bias=False)
        self.residual = nn.Conv2d(15, 15, 1)
        self.up = nn.ConvTranspose2d(15, 7, 2, stride=2)
        self.head = nn.Linear(7, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x))
        x = torch.nn.functional.max_pool2d(torch.relu(self.depthwise(x)), 2)
        x = torch.relu(self.grouped(x))
        x = torch.relu(x + self.residual(x))
        return self.head(torch.relu(self.up(x)).mean((2, 3)))


class Mlp(nn.Module):
    """Odd widths, a batch norm that cannot be folded into a Linear, no bias in one layer."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(37, 53), nn.Linear(53, 29, bias=False), nn.Linear(29, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.c(torch.relu(self.b(torch.relu(self.a(x)))))


class Normed(nn.Module):
    """Batch norms with negative factors behind quantised convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.na = nn.Conv2d(2, 6, 3), nn.BatchNorm2d(6)
        self.b, self.nb = nn.Conv2d(6, 4, 3, bias=False), nn.BatchNorm2d(4)
        for norm in (self.na, self.nb):
            norm.weight.data = torch.randn(norm.num_features)
            norm.bias.data = torch.randn(norm.num_features)
            norm.running_mean = torch.randn(norm.num_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.nb(self.b(torch.relu(self.na(self.a(x)))))


SHAPES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "odd": (Odd, (3, 18, 22)), "mlp": (Mlp, (37,)), "normed": (Normed, (2, 9, 11)),
}  # fmt: skip


@dataclass
class Made:
    """An exported file with its report, and the same model in torch."""

    path: Path
    report: Any
    module: nn.Module

    @property
    def operators(self) -> Counter[str]:
        """Those that onnxruntime runs."""
        options = onnxruntime.SessionOptions()
        options.optimized_model_filepath = str(self.path.with_suffix(".optimised.onnx"))
        options.log_severity_level = 4
        onnxruntime.InferenceSession(str(self.path), options, providers=["CPUExecutionProvider"])
        return Counter(n.op_type for n in onnx.load(options.optimized_model_filepath).graph.node)

    def both(self, **inputs: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
        """(onnxruntime's first result, torch's)."""
        session = precise_session(self.path)
        got = session.run(None, {i.name: inputs[i.name].numpy() for i in session.get_inputs()})[0]
        with torch.no_grad():
            want = torch.utils._pytree.tree_leaves(self.module(**inputs))[0]
        return got, want.numpy()


def made(
    name: str, folder: Path, data_in: str, weight: str = "int8", *, calibrate: bool = True, **options: Any
) -> Made:
    torch.manual_seed(5)
    build, shape = SHAPES[name]
    x = torch.randn(64, *shape)
    model = es.trace(build().eval(), x[:3])
    types = ["linear", "conv2d"] if name == "odd" else ["linear"] if name == "mlp" else ["conv2d"]
    model.quantize(types, weight=weight, **({"data_in": data_in} if data_in else {}))
    if calibrate and data_in:
        model.calibrate(data=(x, torch.zeros(64, dtype=torch.long)), ports=["data_in"], method="minmax")
    path = folder / f"{name}.onnx"
    return Made(path, model.export("onnx", path, **options), model.to_torch())


def inputs(name: str, rows: int = 5) -> dict[str, torch.Tensor]:
    shape = SHAPES[name][1]
    return {"x": torch.randn(rows, *shape, generator=torch.Generator().manual_seed(8)).clamp(-2, 2)}


# -- static scales


@pytest.mark.slow
@pytest.mark.parametrize("data_in", [AFFINE, SYMMETRIC])
def test_layers_between_quantised_ends_become_integer_operators(data_in: str, tmp_path: Path) -> None:
    done = made("odd", tmp_path, data_in)
    found = done.operators
    assert found["QLinearConv"] >= 2, found  # first and depthwise; the addition has no format
    assert found["MatMulIntegerToFloat"] == 1 and not found["Clip"] and not found["IsNaN"]
    notes = " ".join(done.report.summary["notes"])
    assert "residual computes in float: its result is not rounded to 8 bits" in notes
    got, want = done.both(**inputs("odd"))
    np.testing.assert_allclose(got, want, atol=0.05 * np.abs(want).max())


@pytest.mark.slow
@pytest.mark.parametrize("data_in", [AFFINE, SYMMETRIC])
def test_a_perceptron_becomes_gemms(data_in: str, tmp_path: Path) -> None:
    found = made("mlp", tmp_path, data_in).operators
    assert found["QGemm"] + found["QLinearMatMul"] == 2 and found["MatMulIntegerToFloat"] == 1
    relus = found["QLinearLeakyRelu"]
    assert relus == (2 if data_in == SYMMETRIC else 0) and set(found) <= {
        *STATIC_LAYERS,
        "QuantizeLinear",
        "QLinearLeakyRelu",
    }


@pytest.mark.slow
def test_codes_to_255_need_no_relu_and_are_told(tmp_path: Path) -> None:
    done = made("mlp", tmp_path, SYMMETRIC, clip="code")
    assert set(done.operators) <= {*STATIC_LAYERS, "QuantizeLinear"}
    assert any("codes up to 255" in n for n in done.report.summary["notes"])


@pytest.mark.slow
def test_a_result_is_a_step_away_at_most(tmp_path: Path) -> None:
    """One layer between grids: what differs is the rounding of its result, once."""
    torch.manual_seed(1)
    x = torch.randn(256, 40)
    model = es.trace(nn.Sequential(nn.Linear(40, 30), nn.ReLU(), nn.Linear(30, 30, bias=False)).eval(), x[:2])
    model.quantize("linear", weight="int8", data_in=AFFINE)
    model.calibrate(data=(x, torch.zeros(256, dtype=torch.long)), ports=["data_in"])
    path = tmp_path / "m.onnx"
    model.export("onnx", path)
    done = Made(path, model.parameters(), model.to_torch())
    name = next(i.name for i in onnx.load(path).graph.input)
    got, want = done.both(**{name: x})
    scales = [onnx.numpy_helper.to_array(i) for i in onnx.load(path).graph.initializer if i.name.endswith("scale")]
    step = max(float(s) for s in scales if s.size == 1)
    weights = model.to_torch().state_dict()
    most = max(float(w.abs().sum(1).max()) for k, w in weights.items() if k.endswith("weight"))
    assert np.abs(got - want).max() <= 1.01 * step * most
    assert float((np.abs(got - want) < 1e-4).mean()) > 0.9


@pytest.mark.sampled(0.34)
@pytest.mark.slow
@pytest.mark.parametrize("name", ["odd", "mlp", "normed"])
@pytest.mark.parametrize("data_in", [AFFINE, SYMMETRIC, "int8", ""])
def test_exact_files_are_equal_but_for_float_rounding(name: str, data_in: str, tmp_path: Path) -> None:
    skip_if_products_overflow()
    done = made(name, tmp_path, data_in, calibrate=data_in in (AFFINE, SYMMETRIC), exact=True)
    got, want = done.both(**inputs(name))
    close = np.abs(got - want) < 1e-4 * np.abs(want).max()
    assert close.all() and done.report.summary["max_abs_diff"] < 1e-4 * np.abs(want).max(), (
        1 - close.mean(),
        done.report.summary["max_abs_diff"],
    )


@pytest.mark.slow
def test_batch_norms_become_part_of_scales(tmp_path: Path) -> None:
    done = made("normed", tmp_path, AFFINE)
    found = done.operators
    assert not found["BatchNormalization"] and found["QLinearConv"] == 1, found


# -- scales from the data


@pytest.mark.slow
@pytest.mark.parametrize("data_in", [AFFINE, SYMMETRIC, "int8"])
def test_scales_from_the_data_are_exact_in_integers(data_in: str, tmp_path: Path) -> None:
    done = made("mlp", tmp_path, data_in, calibrate=False)
    found = done.operators
    assert not found["MatMul"] and not found["Gemm"] and not found["IsNaN"]
    products = {AFFINE: "DynamicQuantizeMatMul", SYMMETRIC: "MatMulIntegerToFloat", "int8": "MatMulInteger"}[data_in]
    assert found[products] == 3, found
    # without VNNI products overflow, which a note tells (test_export_onnx.py)
    others = [note for note in done.report.summary["notes"] if PRECISE[0] not in note]
    assert done.report.summary["max_abs_diff"] < 1e-5 and not others


@pytest.mark.slow
def test_the_runtime_s_own_scales_are_a_choice_and_told(tmp_path: Path) -> None:
    done = made("mlp", tmp_path, "int8", calibrate=False, dynamic="runtime")
    assert done.operators["DynamicQuantizeMatMul"] == 3
    assert any("DynamicQuantizeLinear" in n for n in done.report.summary["notes"])
    assert 0 < done.report.summary["max_abs_diff"] < 0.1


@pytest.mark.slow
def test_zeros_have_no_scale_that_is_no_number(tmp_path: Path) -> None:
    for fmt in (AFFINE, SYMMETRIC, "int8"):
        got, want = made("mlp", tmp_path, fmt, calibrate=False).both(x=torch.zeros(3, 37))
        np.testing.assert_allclose(got, want, atol=1e-6)


# -- weights alone

GROUPS = "scaled_integer(width=4,granularity=group,group=16)"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("weight", "options", "product"),
    [(GROUPS, {}, "MatMulNBits"), (GROUPS, {"standard": True}, ""), ("int8", {}, ""),
     ("scaled_integer(width=4,symmetric=false,granularity=group,group=32)", {}, "MatMulNBits"),
     ("int8", {"accuracy_level": 4}, "MatMulNBits")],
)  # fmt: skip
def test_stored_integers_keep_their_bits_and_values(
    weight: str, options: dict[str, Any], product: str, tmp_path: Path
) -> None:
    torch.manual_seed(2)
    x = torch.randn(4, 64)
    model = es.trace(nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 8)).eval(), x)
    model.quantize("linear", weight=weight)
    path = tmp_path / "m.onnx"
    report = model.export("onnx", path, **options)
    count = 1 if weight == "int8" else 2  # blocks of the second one would take more bytes than its codes and scales
    assert Made(path, report, model.to_torch()).operators[product or "MatMulNBits"] == (count if product else 0)
    own = {n.domain for n in onnx.load(path).graph.node}
    assert own <= ({"", "com.microsoft"} if product else {""})
    if options.get("accuracy_level") == 4:
        assert any("accuracy level 4" in n for n in report.summary["notes"])
    else:
        assert report.summary["max_abs_diff"] < 1e-5 and not report.summary["notes"]


@pytest.mark.slow
def test_a_stranger_s_bert_with_tied_embeddings(tmp_path: Path) -> None:
    """64 positions, masked language model: its decoder shares the embedding."""
    model = es.open(
        "config:bert?num_hidden_layers=1&hidden_size=48&num_attention_heads=3&intermediate_size=80&vocab_size=101"
        "&max_position_embeddings=64&task=masked-lm", seed=3,
    )  # fmt: skip
    model.quantize("linear", weight="int8", data_in=SYMMETRIC).quantize("embedding", weight="int8")
    path = tmp_path / "m.onnx"
    report = model.export("onnx", path)
    assert report.summary["max_abs_diff"] < 1e-4
    found = Made(path, report, model.to_torch()).operators
    assert found["MatMulIntegerToFloat"] >= 7 and found["Gather"] >= 1
    codes = [i for i in onnx.load(path).graph.initializer if list(i.dims) in ([101, 48], [48, 101])]
    assert codes and all(i.data_type == onnx.TensorProto.INT8 for i in codes)


def test_other_forms_take_no_options_of_onnx(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for given in (["--exact"], ["--clip", "code"], ["--accuracy-level", "4"]):
        assert main(["export", "demo:digits-mlp", "--as", "packed", *given, "-o", str(tmp_path / "x")]) == 2
        assert "none of the options of ONNX" in capsys.readouterr().err and not list(tmp_path.iterdir())
