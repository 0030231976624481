"""Layers that a model calls twice: their integer weights are read by two operators of a file."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import espalier as es

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")
ACTIVATION = "scaled_integer(width=8, granularity=tensor, symmetric=false)"


class Twice(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(torch.relu(self.layer(x))).flatten(1)


def calibrated(layer: nn.Module, x: Tensor, width: int = 8) -> es.Model:
    m = es.trace(Twice(layer).eval(), x)
    m.quantize("all", weight=f"scaled_integer(width={width})", data_in=ACTIVATION)
    labels = torch.zeros(len(x), dtype=torch.long)
    return m.calibrate(data={"train": (x, labels), "test": (x, labels)})


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["linear", "conv"])
def test_a_shared_layer_of_static_8_bit_integers_is_exported(kind: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    layer = nn.Linear(12, 12) if kind == "linear" else nn.Conv2d(4, 4, 3, padding=1, bias=False)
    x = torch.randn(40, 12) if kind == "linear" else torch.randn(40, 4, 8, 8)
    m = calibrated(layer, x)
    for exact, standard in ((False, False), (True, False), (False, True)):
        report = m.export("onnx", tmp_path / "m.onnx", exact=exact, standard=standard)
        onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
        if report.figures["max_abs_diff"] > 1e-4:  # on processors whose 8-bit products overflow
            notes = " ".join(report.figures["notes"])
            assert "cannot open the file" in notes and "weights of 7 bits" in notes


@pytest.mark.slow
def test_weights_of_7_bits_do_not_overflow_in_a_shared_layer(tmp_path: Path) -> None:
    torch.manual_seed(0)
    m = calibrated(nn.Linear(12, 12), torch.randn(40, 12), width=7)
    assert m.export("onnx", tmp_path / "m.onnx", exact=True).figures["max_abs_diff"] < 1e-5
