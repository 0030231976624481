"""`espalier kv-cache`: one command quantises the cache, counts it and measures it; searches and allocations use it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import espalier as es
from espalier.app.cli import main
from espalier.passes.costs.base import figures
from espalier.passes.score import static_score

LLAMA = ("config:llama?vocab_size=61&hidden_size=32&num_attention_heads=4&num_key_value_heads=2&num_hidden_layers=1"
         "&intermediate_size=50&task=causal-lm")  # fmt: skip


@pytest.mark.slow
def test_a_cache_is_saved_counted_and_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "q.espalier"
    cache = ["--key", "int4", "--key-scales", "channel", "--value", "int4", "--value-scales", "token"]
    data = ["--calibrate-on", "demo:stories", "--data", "demo:stories", "--limit", "4"]
    words = ["kv-cache", "demo:stories", *cache, "--context", "1000", *data]
    assert main([*words, "-o", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [s["pass"] for s in found["steps"]] == ["kv_cache", "calibrate"]
    assert found["after"]["perplexity"] != found["before"]["perplexity"]
    saved = es.open(path)
    caches = 3 * 2 * 16 * 1000  # layers × heads × size × tokens
    keys, values = caches * 4 / 8 + 3 * 32 * 2, caches * 4 / 8 + 3 * 1000 * 2  # 16-bit scales by channel and by token
    assert figures(saved.project.graph, static_score(saved.project.graph))["kv_cache_bytes"] == keys + values
    again = es.open("demo:stories").kv_cache(key="int4", value="int4", value_scales="token", context=1000)
    assert again.score()["size_bytes"] > 0


@pytest.mark.slow
def test_longer_texts_than_the_model_takes_are_noted(capsys: pytest.CaptureFixture[str]) -> None:
    short = "config:gpt2?vocab_size=61&n_embd=32&n_layer=1&n_head=4&n_positions=64&task=causal-lm"
    assert main(["kv-cache", short, "--context", "65"]) == 0
    assert "texts of 65 tokens, and the model has 64 positions" in " ".join(capsys.readouterr().err.split())
    assert main(["kv-cache", short, "--context", "64"]) == 0
    assert "positions" not in capsys.readouterr().err


@pytest.mark.slow
def test_mistakes_are_two_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kv-cache", LLAMA, "--key", "int5"]) == 2
    assert "int5" in capsys.readouterr().err
    assert main(["kv-cache", LLAMA, "--key-scales", "tensor"]) == 2
    assert "--calibrate-on" in capsys.readouterr().err
    assert main(["kv-cache", LLAMA, "--key", "nvfp4(block=16)"]) == 2
    message, hint = capsys.readouterr().err.strip().split("\n")[-2:]
    assert "later tokens" in message and "by head, token or group" in hint


@pytest.mark.slow
def test_a_search_chooses_formats_of_caches_within_a_limit() -> None:
    """Layers may differ; trials beyond the limit are infeasible and not in the Pareto front."""
    m = es.open("demo:stories").kv_cache(key="float", value="float", context=1000)
    names = [n.id for n in m.graph if n.op == "kv_cache"]
    formats = ["float", "scaled_integer(width=8)", "scaled_integer(width=4)"]
    limit, texts = 180_000, 3 * 2 * 32 * 1000  # layers × keys and values × channels × tokens
    study = m.search(
        {"space": [{"kind": "format", "select": {"by": "name", "values": names}, "ports": ["data_out"],
                    "values": ", ".join(formats)}],
         "goals": ["loss", "kv_cache_bytes"], "within": [f"kv_cache_bytes<={limit}"],
         "score": {"data": "demo:stories", "limit": 4}},
        trials=12,
    )  # fmt: skip
    found = [r["kv_cache_bytes"] for r in study.rows]
    assert len(set(found)) > 3 and all(texts * 4 / 8 < f <= texts * 4 for f in found)
    assert min(found) <= limit < max(found), "some trials are beyond the limit"
    assert study.front and all(r["kv_cache_bytes"] <= limit for r in study.front)


@pytest.mark.slow
def test_sensitivities_list_the_ports_of_caches() -> None:
    m = es.open("demo:stories").kv_cache(key="float", value="float")
    names = {n.id for n in m.graph if n.op == "kv_cache"}
    report = m.sensitivity(data="demo:stories", limit=4, formats=["scaled_integer(width=4)"])
    assert names <= {r["node"] for r in report.rows if r["port"] == "data_out"}
