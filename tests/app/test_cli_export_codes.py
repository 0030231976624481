"""`export` of codes and scales: what is reported, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from espalier.app.cli import main
from tests.passes.export.models import made

pytestmark = pytest.mark.slow
Capture = pytest.CaptureFixture[str]
FORMAT = "scaled_integer(width=8,granularity=group,group=32,scale_dtype=float16)"


def project(kind: str, tmp_path: Path) -> Path:
    import espalier as es

    m = es.open(str(made(kind, tmp_path / "home")))
    m.quantize("linear", weight=FORMAT)
    return m.save(tmp_path / "p.espalier")


@pytest.mark.parametrize(("form", "stored"), [("compressed-tensors", "pack-quantized"), ("gguf", "Q8_0")])
def test_counts_and_bytes_are_printed(form: str, stored: str, tmp_path: Path, capsys: Capture) -> None:
    pytest.importorskip("compressed_tensors" if form == "compressed-tensors" else form)
    words = ["export", str(project("llama", tmp_path)), "--as", form, "-o", str(tmp_path / "out")]
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith(f"8 × int8 group 32 as {stored}: ") for line in lines)
    assert any("× the weights in float32 (" in line for line in lines)
    assert any("× the packed file (" in line for line in lines)
    assert "run and compared with the model: on the inputs tried, results differ by up to 0" in lines
    assert main([*words, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["bytes"] < data["float32_bytes"] and data["packed_bytes"] and data["max_abs_diff"] == 0.0
    assert sum(t["bytes"] for t in data["tensors"]) <= data["bytes"]


def test_a_refusal_names_node_and_format(tmp_path: Path, capsys: Capture) -> None:
    pytest.importorskip("compressed_tensors")
    path, out = project("gpt2", tmp_path), tmp_path / "out"
    assert main(["export", str(path), "--as", "compressed-tensors", "-o", str(out)]) == 2
    message, hint = capsys.readouterr().err.strip().splitlines()
    assert "transformer_h_0_attn_c_attn weight (int8 group 32: Conv1D is no Linear" in message
    assert "--leave-float" in hint and not out.exists()
