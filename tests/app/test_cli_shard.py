"""`shard` and `m.shard_plan` in this process: answers, text, and errors of mistakes."""

from __future__ import annotations

import json
from typing import Any

import pytest

import espalier as es
from espalier.app.cli import main
from espalier.model.errors import EspalierError
from espalier.passes.analysis import shard_links
from espalier.passes.analysis.shard_run import ShardRunOptions
from espalier.passes.base import Report
from espalier.passes.recipes.config import decode_options
from espalier.passes.sharding.mesh import Mesh, parse_mesh

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
        (
            ("--kill-rank", "1", "--after", "3"),
            ("--kill-rank and --after have no effect without --serve", "leave them"),
        ),
        (("--run", "--request-rate", "9"), ("--request-rate has no effect without --serve", "leave it out")),
        (("--max-restarts", "1", "--emit", "x"), ("--max-restarts has no effect without --serve", "Add --serve")),
        (("--serve", "--after", "3"), ("--after has no effect without --kill-rank", "Add --kill-rank")),
        (("--data", "demo:digits", "--limit", "3"), ("--data and --limit have no effect without --run", "Add --run")),
        (("--strategy", "fsdp"), ("--strategy has no effect without --run, --serve or --emit", "leave it out")),
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


def test_without_a_model_there_is_only_a_measurement(capsys: Capture) -> None:
    for words in (("shard",), ("shard", "--measure", "--run")):
        assert main(list(words)) == 2
        error = capsys.readouterr().err
        assert "shard needs SOURCE|PROJECT." in error and "--measure" in error


def measured() -> Report:
    """A report as a measurement makes it."""
    row = {"collective": "all_reduce", "bytes": 1024, "milliseconds": 0.4, "fitted_ms": 0.5}
    return Report("shard_links", (row,), {
        "latency_us": 200.0, "rate": 5e8, "factor": 1.2, "worst_factor": 1.6, "flops": 8e10, "memory_bytes": 2**34,
        "bandwidth": 2e10, "backend": "gloo", "ranks": 2, "threads": 1, "cores": 2, "torch": "2", "source": "here",
        "measured": "2026-01-01 00:00",
    })  # fmt: skip


def test_a_measurement_is_told_alone_or_before_a_plan(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """The measurement itself is tested in passes/distributed/test_measured_links.py."""
    monkeypatch.setattr(shard_links, "measured_machine", lambda context: measured())
    assert main(["shard", "--measure"]) == 0
    text = capsys.readouterr().out
    assert "latency 200 µs, rate 500\u2009MB/s" in text and "factor of 1.20" in text and "worst by 1.60" in text
    assert "all-reduce" in text and "0.400" in text
    found = answer(capsys, "shard", "--measure")
    assert found["summary"]["latency_us"] == 200.0 and found["rows"][0]["bytes"] == 1024
    both = answer(capsys, "shard", MODEL, "--mesh", "2", "--measure")
    assert both["measured"]["summary"] == found["summary"] and both["summary"]["mesh"] == "2"
    assert main(["shard", MODEL, "--mesh", "2", "--measure"]) == 0
    text = capsys.readouterr().out
    assert text.index("rate 500") < text.index("mesh 2 of h100")


@pytest.mark.parametrize("mesh", [2, (2,), [2], "2"])
def test_a_mesh_is_a_number_or_numbers_in_python(mesh: Any) -> None:
    """In methods, in recipes and in options alike."""
    m = es.open(MODEL)
    assert m.shard_plan(mesh=mesh, device="cpu").summary["mesh"] == "2"
    assert {n.sharding.mesh for n in m.shard(mesh=mesh, strategy="data").graph if n.sharding} == {(2,)}
    assert decode_options("shard_run", {"mesh": mesh}) == ShardRunOptions(mesh="2")
    assert parse_mesh(mesh) == Mesh((2,))


@pytest.mark.parametrize("mesh", [True, 2.0, 0, (2, 2, 2), None])
def test_other_values_are_no_mesh(mesh: Any) -> None:
    with pytest.raises(EspalierError, match="mesh"):
        es.open(MODEL).shard_plan(mesh=mesh)
