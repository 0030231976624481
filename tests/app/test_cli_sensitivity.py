"""`sensitivity`: its answer, its files, and what it says of mistakes."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from espalier.app.cli import main
from espalier.model.data.loading import load_data

Capture = pytest.CaptureFixture[str]
WORDS = ["sensitivity", "demo:digits-mlp", "--formats", "integer(width=4|6, signed=true), mxint", "--limit", "48"]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESPALIER_CACHE", str(tmp_path / "cache"))


def test_the_answer_holds_rows_and_seconds(capsys: Capture) -> None:
    assert main([*WORDS, "--data", "demo:digits", "--ports", "weight,data_in", "--measure", "8", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["seconds"] > 0 and {r["port"] for r in found["rows"]} == {"weight", "data_in"}
    assert sum(r["measured"] is not None for r in found["rows"]) == 8
    assert {r["candidate"].split()[0].split("/")[0] for r in found["rows"]} == {"int", "mxint8"}


def test_a_demo_brings_its_data_and_rows_go_to_a_file(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    assert main([*WORDS, "--measure", "0", "-o", str(path)]) == 0
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert rows and all(float(r["predicted"]) >= 0 for r in rows)
    told = capsys.readouterr().out
    assert f"{len(rows)} rows written to {path}" in told and "evidence seconds" in told


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sensitivity", "config:bert?num_hidden_layers=1&hidden_size=16&num_attention_heads=2"], "none is named"),
        ([*WORDS[:2], "--formats", "nosuch"], "nosuch"),
        ([*WORDS, "--ports", "wieght"], "wieght"),
        ([*WORDS, "--sparsities", "half"], "half"),
        ([*WORDS, "-o", "x.xyz"], "unknown file type"),
    ],
)
def test_mistakes_are_told(words: list[str], said: str, capsys: Capture) -> None:
    assert main(words) == 2
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_what_is_cut_of_texts_is_told(capsys: Capture) -> None:
    words = ["sensitivity", "demo:reviews", "--data", "demo:reviews", "--limit", "16", "--max-length", "8",
             "--formats", "int8", "--ports", "weight", "--json"]  # fmt: skip
    assert main(words) == 0
    summary = json.loads(capsys.readouterr().out)["summary"]
    texts = load_data("demo:reviews", max_length=1 << 20).split("test").take(16)
    lengths = texts.inputs["attention_mask"].sum(1)
    assert (lengths > 8).any() and summary["split"] == "test" and summary["longest"] == lengths.max()
    assert summary["texts_cut"] == pytest.approx((lengths > 8).mean())
    assert summary["tokens_lost"] == pytest.approx((lengths - 8).clip(0).sum() / lengths.sum())
