"""`espalier quantize`: one command gives a preset, saves it and measures it; mistakes are two lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import espalier as es
from espalier.app.cli import main

ODD = ("config:llama?vocab_size=61&hidden_size=36&num_attention_heads=2&num_hidden_layers=1&intermediate_size=50"
       "&task=causal-lm")  # fmt: skip


@pytest.mark.slow
def test_a_preset_in_any_spelling_is_saved_and_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "q.espalier"
    words = ["quantize", "demo:stories", "--preset", "W4A16", "--group", "32", "--data", "demo:stories", "--limit", "4"]
    assert main([*words, "-o", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["steps"][0]["pass"] == "quantize_preset"
    assert found["steps"][0]["report"]["summary"]["preset"] == "w4a16_g128"
    assert found["after"]["weight_bits"] < found["before"]["weight_bits"] == 32
    saved = es.open(path)
    options = saved.project.recipe.steps[0].options
    assert (options.preset, options.group) == ("w4a16_g128", 32)
    again = es.open("demo:stories").quantize_preset("w4a16_g128", group=32)
    assert again.score()["weight_bits"] == pytest.approx(saved.score()["weight_bits"])


@pytest.mark.slow
def test_mistakes_are_two_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quantize", ODD, "--preset", "w4a17"]) == 2
    assert capsys.readouterr().err == "There is no preset 'w4a17'.\nDid you mean 'w4a16'?\n"
    assert main(["quantize", ODD, "--preset", "fp8_dynamic", "--group", "32"]) == 2
    assert "no group size" in capsys.readouterr().err
    assert main(["quantize", ODD, "--preset", "w4a16_g128"]) == 2
    message, hint = capsys.readouterr().err.strip().split("\n")[-2:]
    assert "Groups of 128 do not divide the 36 inputs" in message and "--uneven channel" in hint
