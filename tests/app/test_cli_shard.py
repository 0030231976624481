"""`shard` and `m.shard_plan` in this process: answers, text, and errors of mistakes."""

from __future__ import annotations

import json
from typing import Any

import pytest

import espalier as es
from espalier.app.cli import main

Capture = pytest.CaptureFixture[str]
MODEL = "demo:digits-mlp"


def answer(capsys: Capture, *words: object) -> dict[str, Any]:
    """The JSON answer."""
    assert main([*map(str, words), "--json"]) == 0, capsys.readouterr().err
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("--mesh", "2x2x2"), ("no mesh", "4 or 2x2")),
        (("--mesh", "2", "--device", "h10"), ("no device 'h10'", "h100")),
        (("--mesh", "7", "--batch-size", "8"), ("axis of 7 devices divides no", "would divide")),
        (("--mesh", "2", "--memory", "1KiB"), ("needs at least", "more memory")),
        (("--mesh", "2", "--memory", "much"), ("memory is 'much'", "16GiB")),
        (("--mesh", "2", "--sizes", "sequence=4"), ("no size 'sequence'", "")),
        (("--mesh", "4", "--stages", "2"), ("2 stages", "--stages 4")),
    ],
)
def test_mistakes_are_reported_in_two_lines(capsys: Capture, words: tuple[str, ...], parts: tuple[str, str]) -> None:
    """What is wrong with which value, and what to do."""
    assert main(["shard", MODEL, *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 2
    assert all(p in captured.err for p in parts)


def test_the_command_and_the_interface_agree(capsys: Capture) -> None:
    """The same rows and figures."""
    found = answer(capsys, "shard", MODEL, "--mesh", "2x2", "--training", "--device", "cpu")
    report = es.open(MODEL).shard_plan(mesh="2x2", training=True, device="cpu")
    assert found["summary"] == json.loads(json.dumps(report.summary))
    assert found["rows"] == json.loads(json.dumps(list(report.rows)))
    summary = found["summary"]
    assert summary["step_ms"] == pytest.approx(summary["compute_ms"] + summary["communication_ms"])
    assert all(summary[f"{name}_ratio"] >= 1 - 1e-9 for name in ("replicated", "data", "fsdp", "megatron"))
    assert sum(r["bytes"] for r in found["rows"]) == summary["moved_bytes"]


def test_the_text_compares_baselines(capsys: Capture) -> None:
    """One line each."""
    assert main(["shard", MODEL, "--mesh", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("mesh 2 of h100")
    assert [x.split()[0] for x in lines if " ×" in x] == ["replicated", "data", "fsdp", "megatron"]


def test_a_run_of_many_processes_is_refused(capsys: Capture) -> None:
    """Before any starts; the option allows more."""
    assert main(["shard", MODEL, "--mesh", "3x3", "--run", "--strategy", "replicated"]) == 2
    error = capsys.readouterr().err
    assert "would start 9 processes" in error and "at most 8" in error and "max_ranks" in error
    assert main(["shard", MODEL, "--mesh", "2", "--run", "--strategy", "replicated", "--max-ranks", "1"]) == 2
    assert "at most 1 may be started" in capsys.readouterr().err
