"""The baseline's score of a second `run` comes from the cache, and only where nothing that it hangs on has changed."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from espalier.app.cli import main
from espalier.kernels.bench import machine
from espalier.model.sources.demos import RESOURCES
from espalier.passes.plugins import kept_scores
from espalier.passes.plugins.plugins import unload_plugins

SMALL = "hidden_size=16&num_attention_heads=2&intermediate_size=16&num_hidden_layers=1&max_position_embeddings=16"
BERT = f"config:bert?{SMALL}&vocab_size=2000&task=sequence-classification"
RULE = {"select": {"by": "type", "values": ["linear"]}, "formats": {"weight": "integer(width=3, frac_width=2)"}}
Run = Any
NAME = machine.name("cpu")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    unload_plugins()  # of tests before: with one, no score is kept
    monkeypatch.delenv("ESPALIER_NO_CACHE")
    monkeypatch.setenv("ESPALIER_CACHE", str(tmp_path / "cache"))
    (tmp_path / "recipe.json").write_text(json.dumps({"steps": [{"pass": "quantize", "options": {"rules": [RULE]}}]}))
    rows = [f"the plot was {'good' if at % 3 else 'bad'} number {at},{'up' if at % 2 else 'down'}" for at in range(40)]
    (tmp_path / "rows.csv").write_text("\n".join(["text,label", *rows, ""]))

    def answer(*more: str) -> dict[str, Any]:
        words = ["run", BERT, str(tmp_path / "recipe.json"), "--data", str(tmp_path / "rows.csv")]
        assert main([*words, "--tokenizer", str(RESOURCES / "reviews"), *more, "--json"]) == 0, capsys.readouterr().err
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    return answer


@pytest.mark.slow
def test_a_second_run_takes_the_baseline_from_the_cache(run: Run) -> None:
    begun = time.time()
    first, second = run(), run()
    when = second["before"].pop("from_cache")
    assert begun <= when <= time.time() and "from_cache" not in first["before"]
    assert (second["before"], second["after"], second["change"]) == (first["before"], first["after"], first["change"])
    assert second["change"]["accuracy"]["test"] == "McNemar", "which samples were right is kept too"


@pytest.mark.slow
@pytest.mark.parametrize("change", ["limit", "data", "weights", "split", "batch"])
def test_what_changes_the_score_misses(run: Run, change: str, tmp_path: Path) -> None:
    run()
    more = {"limit": ("--limit", "30"), "weights": ("--seed", "5"), "split": ("--split", "test"),
            "batch": ("--batch-size", "8")}  # fmt: skip
    if change == "data":
        path = tmp_path / "rows.csv"
        path.write_text(path.read_text().replace("number 3,up", "number 3,down"))
    assert "from_cache" not in run(*more.get(change, ()))["before"]
    assert "from_cache" in run(*more.get(change, ()))["before"]


@pytest.mark.slow
@pytest.mark.parametrize("change", ["processor", "transformers", "kernels", "verilog"])
def test_what_computes_the_score_is_part_of_its_key(run: Run, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run()
    versions, read = kept_scores.version, Path.read_bytes

    def edited(path: Path) -> bytes:
        return read(path) + (b"# edited" if path.parts[-2:] == (change, "__init__.py") else b"")

    monkeypatch.setattr(machine, "name", lambda device: "another processor" if change == "processor" else NAME)
    monkeypatch.setattr(kept_scores, "version", lambda p: "0" if p == change else versions(p))
    monkeypatch.setattr(Path, "read_bytes", edited)
    kept_scores._other_code.cache_clear()
    try:
        assert "from_cache" not in run()["before"]
    finally:
        kept_scores._other_code.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize("text", ["", "{}", "[1", '{"when": "x", "score": {}}'])
def test_a_damaged_entry_is_measured_again(run: Run, text: str, tmp_path: Path) -> None:
    first = run()
    (entry,) = (tmp_path / "cache" / "scores").glob("*.json")
    entry.write_text(text)
    assert run()["before"] == first["before"]


@pytest.mark.slow
def test_no_cache_measures_again(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run()
    monkeypatch.setenv("ESPALIER_NO_CACHE", "1")
    assert "from_cache" not in run()["before"]
