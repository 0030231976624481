"""Scores of generated texts, held to transformers' generation and to ROUGE of its texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import espalier as es
from espalier.app.cli import main
from espalier.model.errors import DataError, GraphError
from espalier.passes.analysis.generation_scores import METRICS, scores_of
from espalier.passes.running import batches
from espalier.passes.running.target_decoding import TargetDecoder
from tests.passes.analysis.test_generate_targets import of_transformers
from tests.seq2seq_models import write_seq2seq, write_tokenizer

LIMIT = 40
BEGIN = "[BEGIN] "  # which this tokenizer does not call special


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bart")
    write_seq2seq(folder, 200, 60, kind="bart")
    return folder


def sources_of(folder: Path) -> dict[str, str]:
    """Source → target, as the tokenizer writes them."""
    lines = (folder / "data/test.jsonl").read_text().splitlines()
    return {row["source"]: row["target"] for row in map(json.loads, lines)}


@pytest.mark.slow
def test_the_texts_are_those_of_transformers(folder: Path) -> None:
    """Of the model in float and with formats, in batches that LIMIT does not divide into equal ones."""
    m = es.open(str(folder))
    m.quantize('where:op == "linear" and path != "lm_head"', weight="integer(width=2)")
    m.export("safetensors", folder.parent / "small")
    given: dict[str, Any] = {"data": str(folder / "data"), "split": "test", "limit": LIMIT}
    found = m.run("generated_texts", batch_size=17, **given)
    targets = sources_of(folder)
    sources = [row["source"].removeprefix(BEGIN) for row in found.rows]
    assert [targets[source] for source in sources] == [row["target"].removeprefix(BEGIN) for row in found.rows]
    texts = []
    for where in (folder.parent / "small", folder):
        tokenizer, wanted = of_transformers(where, sources, 8)
        texts.append(tokenizer.batch_decode(wanted, skip_special_tokens=True))
    assert [row["text"] for row in found.rows] == texts[0] and [row["baseline"] for row in found.rows] == texts[1]

    scored = m.run("generation_scores", **given)
    now, base = (np.array([scores_of(a, r["target"]) for a, r in zip(ts, found.rows, strict=True)]) for ts in texts)
    assert [row["metric"] for row in scored.rows] == list(METRICS) and scored.summary["n"] == LIMIT
    assert [row["value"] for row in scored.rows] == pytest.approx(now.mean(0).tolist())
    assert [row["baseline"] for row in scored.rows] == pytest.approx(base.mean(0).tolist())
    assert [row["difference"] for row in scored.rows] == pytest.approx((now - base).mean(0).tolist())
    assert (now != base).any() and 0.1 < now.mean() < 1
    for row, change in zip(scored.rows, (now - base).T, strict=True):
        assert (
            row["low"] <= row["value"] <= row["high"]
            and row["difference_low"] <= row["difference"] <= row["difference_high"]
        )
        wide = 2 * 1.96 * change.std() / np.sqrt(LIMIT)  # of the mean, by the normal distribution
        assert row["difference_high"] - row["difference_low"] == pytest.approx(wide, rel=0.2, abs=1e-9)


@pytest.mark.slow
def test_texts_that_do_not_end_are_counted(folder: Path) -> None:
    m = es.open(str(folder))
    found = m.run("generation_scores", data=str(folder / "data"), split="test", limit=10, new_tokens=1)
    assert found.summary["cut"] == 10 and found.summary["tokens"] == 1
    assert "baseline" not in found.rows[0], "nothing changed since the model was opened"


@pytest.mark.slow
def test_other_models_and_data_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="reads no targets"):
        es.open("demo:reviews").run("generation_scores", data="demo:reviews")
    m = es.open(str(folder))
    with pytest.raises(DataError):
        m.run("generation_scores")
    (tmp_path / "d.csv").write_text("text,label\na,0\nb,1\n")
    with pytest.raises(DataError):
        m.run("generation_scores", data=str(tmp_path / "d.csv"), task="classification")


@pytest.mark.slow
def test_the_command_prints_them(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["report", str(folder), "--what", "generation_scores", "--data", str(folder / "data"), "--limit", "8"]
    assert main([*given, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert [row["metric"] for row in found["rows"]] == list(METRICS)
    assert main(given) == 0
    assert "rougeL" in capsys.readouterr().out
    for what in ("generation_scores", "generated_texts"):
        short = ["report", str(folder), "--what", what, "--data", str(folder / "data"), "--limit", "2", "--json"]
        assert main([*short, "--new-tokens", "1"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["summary"][what]["new_tokens"] == found["summary"][what]["tokens"] == 1
    assert main([*given, "--new-tokens", "5000"]) == 2
    assert "--new-tokens is 5000" in capsys.readouterr().err


@pytest.mark.slow
def test_texts_are_no_longer_than_the_model_takes(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And batches are small enough for the scores of so many tokens, of which the targets have fewer."""
    from transformers import AutoModelForSeq2SeqLM

    model: Any = AutoModelForSeq2SeqLM.from_pretrained(folder)
    model.final_logits_bias[0, 2] = -1e4  # so that no text ends
    model.save_pretrained(tmp_path)
    vocabulary, sizes = len(write_tokenizer(tmp_path, "bart")), list[int]()
    monkeypatch.setattr(batches, "MAX_SCORES", 3 * 32 * vocabulary * 4)
    scores = TargetDecoder.scores

    def counted(self: TargetDecoder, targets: Any) -> Any:
        sizes.append(len(targets))
        return scores(self, targets)

    monkeypatch.setattr(TargetDecoder, "scores", counted)
    found = es.open(str(tmp_path)).run("generation_scores", data=str(folder / "data"), limit=7, new_tokens=4096)
    assert {name: found.summary[name] for name in ("tokens", "new_tokens", "cut")} == {
        "tokens": 32, "new_tokens": 32, "cut": 7}  # fmt: skip
    assert sizes == [3] * 31 + [3] * 31 + [1] * 31, "BART's settings force the last token"
