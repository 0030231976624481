"""A check of a torchao folder has the float folder and torchao's own quantiser beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import espalier as es
from espalier.app.cli import main
from espalier.passes.export.checking import torchao_target

pytest.importorskip("torchao")


@pytest.mark.slow
def test_the_command_measures_all_folders_on_the_same_samples(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    project, out, threads = tmp_path / "m.espalier", tmp_path / "out", torch.get_num_threads()
    m = es.open("demo:reviews")
    m.quantize("linear", weight="int8")
    m.save(project)
    given = ["export", str(project), "--as", "torchao", "-o", str(out), "--check", "--data", "demo:reviews"]
    given += ["--limit", "40", "--runs", "2", "--batch-size", "8", "--json"]
    assert main(given) == 0
    found = json.loads(capsys.readouterr().out)["check"]
    rows = {row["name"]: row for row in found["rows"]}
    assert list(rows) == ["Espalier", "this file", "float", "torchao.quantize_"]
    assert rows["this file"]["accuracy"] == rows["Espalier"]["accuracy"] and rows["Espalier"]["n"] == 40
    assert rows["this file"]["difference"] < 1e-4 < rows["torchao.quantize_"]["difference"]
    assert rows["float"]["ratio"] == 1 and rows["this file"]["milliseconds"] > 0
    size = sum((out / name).stat().st_size for name in ("model.safetensors", "config.json"))
    assert rows["this file"]["bytes"] == size < 0.6 * rows["float"]["bytes"]
    assert rows["this file"]["peak_bytes"] > 0 and torch.get_num_threads() == threads

    def refuses(*_: Any) -> None:
        raise RuntimeError("no such shape")

    monkeypatch.setattr(torchao_target, "_quantise", refuses)
    assert main([*given, "--limit", "8", "--runs", "1"]) == 0
    (row,) = [r for r in json.loads(capsys.readouterr().out)["check"]["rows"] if r["name"] == "torchao.quantize_"]
    assert row["reason"] == "no such shape"
