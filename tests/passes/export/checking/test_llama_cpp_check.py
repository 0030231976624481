"""A check of a GGUF file has the float file and llama.cpp's own quantiser beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import espalier as es
from espalier.app.cli import main
from espalier.passes.export.checking import llama_cpp_target
from espalier.passes.export.llama_cpp.server import binding
from tests.passes.export.llama_cpp.tokenizers_of import give, gpt2
from tests.passes.export.models import made

pytest.importorskip("gguf")
Q4 = "scaled_integer(width=4, granularity=group, group=32, scale_dtype=float16)"


@pytest.mark.slow
def test_a_missing_runtime_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llama_cpp_target, "binding", lambda: "")
    out = tmp_path / "m.gguf"
    assert main(["export", "demo:stories", "--as", "gguf", "--check", "-o", str(out)]) == 2
    error = capsys.readouterr().err
    assert "needs xllamacpp" in error and "pip install xllamacpp" in error and not out.exists()


@pytest.mark.slow
@pytest.mark.skipif(not binding(), reason="neither llama-cpp-python nor xllamacpp is installed")
def test_the_command_measures_all_files_on_the_same_samples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project, out = tmp_path / "m.espalier", tmp_path / "m.gguf"
    m = es.open("demo:stories")
    m.quantize("linear", weight=Q4)
    m.save(project)
    given = ["export", str(project), "--as", "gguf", "-o", str(out), "--check", "--data", "demo:stories"]
    given += ["--limit", "4", "--runs", "2", "--batch-size", "2", "--json"]
    assert main(given) == 0
    found = json.loads(capsys.readouterr().out)["check"]
    rows = {row["name"]: row for row in found["rows"]}
    assert list(rows) == ["Espalier", "this file", "float", "llama-quantize Q4_0", "llama-quantize Q4_K_M"]
    own, mine, plain = rows["Espalier"], rows["this file"], rows["float"]
    assert found["runtime"].startswith("llama.cpp by ") and own["n"] == 512
    low, high = mine["interval"]
    assert low < own["accuracy"] < high and abs(mine["accuracy"] - own["accuracy"]) < 0.02
    assert mine["change"]["value"] == pytest.approx(mine["accuracy"] - own["accuracy"])
    assert mine["difference"] < 0.5 < plain["difference"], "of log-probabilities, from the model with formats"
    assert plain["ratio"] == 1 and mine["milliseconds"] > 0 and mine["peak_bytes"] > 0
    assert mine["bytes"] == out.stat().st_size < 0.4 * plain["bytes"]
    theirs = rows["llama-quantize Q4_0"]
    if binding() == "llama_cpp":
        assert theirs["bytes"] < mine["bytes"] and theirs["difference"] > mine["difference"]
    else:
        assert theirs["reason"] == "xllamacpp has no quantiser, llama-cpp-python has one"


@pytest.mark.slow
@pytest.mark.skipif(not binding(), reason="neither llama-cpp-python nor xllamacpp is installed")
def test_without_data_rows_are_generated(tmp_path: Path) -> None:
    """Generated masks leave out the ends of rows, which llama.cpp does not."""
    home = made("llama", tmp_path / "home", vocab_size=520, eos_token_id=0)
    give(gpt2(), home)
    done = es.open(home).export("gguf", tmp_path / "m.gguf", check=True, batch_size=2, runs=1)
    rows = {row["name"]: row for row in done.summary["check"]["rows"]}
    assert list(rows) == ["Espalier", "this file", "float"] and rows["this file"]["accuracy"] is None
    assert rows["this file"]["difference"] == rows["float"]["difference"] < 0.02
