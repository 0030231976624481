"""A check measures the file beside its baselines on the same samples, and names what it could not make."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from espalier.app.cli import main
from espalier.model.errors import ExportError
from espalier.passes.export.checking import onnxruntime_target
from espalier.passes.export.checking.check import alternated, ready
from espalier.passes.export.checking.target import TARGETS

pytest.importorskip("onnxruntime")


def test_calls_take_turns() -> None:
    seen: list[str] = []
    times = alternated([lambda: seen.append("a"), lambda: seen.append("b")], 2)
    assert seen == ["a", "a", "b", "b"] * 5 and len(times) == 2 and all(t >= 0 for t in times)


def test_a_form_without_a_runtime_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert list(TARGETS) and "onnx" in TARGETS
    with pytest.raises(ExportError, match="graphml are not checked in a runtime") as found:
        ready("graphml")
    assert "onnx" in found.value.hint and "compressed-tensors" not in found.value.hint
    assert main(["export", "demo:digits-mlp", "--as", "graphml", "--check", "-o", str(tmp_path / "g")]) == 2
    assert not list(tmp_path.iterdir())
    assert main(["export", "demo:digits-mlp", "--as", "onnx", "--data", "demo:digits", "-o", str(tmp_path / "g")]) == 2
    assert "--check" in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_measures_all_files_on_the_same_samples(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: Any) -> None:
        raise RuntimeError("first line\nno such operator")

    monkeypatch.setattr(onnxruntime_target, "_dynamic", refuses)
    file = tmp_path / "m.onnx"
    given = ["export", "demo:digits-mlp", "--as", "onnx", "-o", str(file), "--check", "--data", "demo:digits"]
    assert main([*given, "--limit", "60", "--runs", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["check"]
    rows = {row["name"]: row for row in found["rows"]}
    assert list(rows) == ["Espalier", "this file", "float", "quantize_static", "quantize_dynamic"]
    assert rows["quantize_dynamic"]["reason"] == "no such operator"
    assert rows["this file"]["accuracy"] == rows["Espalier"]["accuracy"] and rows["Espalier"]["n"] == 60
    low, high = rows["this file"]["interval"]
    assert low < rows["this file"]["accuracy"] <= high
    assert rows["this file"]["difference"] < 1e-4 < rows["quantize_static"]["difference"]
    assert rows["float"]["ratio"] == 1 and rows["this file"]["milliseconds"] > 0
    assert rows["this file"]["bytes"] == file.stat().st_size and rows["this file"]["peak_bytes"] > 0
    assert rows["this file"]["change"]["value"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("split", ["", "test"])
def test_data_are_loaded_once(split: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a lone file, whose training part calibrates, and of a folder's splits."""
    import espalier as es
    from espalier.model.data import recent

    loads, real = list[str](), recent.load_with

    def counted(spec: str, options: Any) -> Any:
        loads.append(spec)
        return real(spec, options)

    rng = np.random.default_rng(0)
    np.savez(tmp_path / "d.npz", x=rng.random((40, 1, 8, 8), np.float32), y=rng.integers(0, 10, 40))
    monkeypatch.setattr(recent, "load_with", counted)
    recent.forget()
    m = es.open("demo:digits-mlp")
    found = m.export("onnx", tmp_path / "m.onnx", check=True, data=str(tmp_path / "d.npz"), split=split, runs=2)
    assert loads == [str(tmp_path / "d.npz")]
    assert found.summary["check"]["rows"][0]["n"] == (4 if split else 40)


def test_a_form_that_is_not_run_says_so(tmp_path: Path) -> None:
    import espalier as es

    summary = es.open("demo:digits-mlp").export("safetensors", tmp_path / "m").summary
    assert "max_abs_diff" not in summary and summary["not_compared"] == "safetensors is not run when it is written."
