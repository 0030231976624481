"""Runs over processes as an analysis: rows, figures beside predictions, and what is refused."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace

import pytest

from espalier.model.document.recipe import Step
from espalier.model.errors import OptionsError, PassError
from espalier.model.opening import needs_source
from espalier.passes.analysis.shard_run import ShardRunOptions
from espalier.passes.base import Context, run_step
from espalier.passes.choices.shard import ShardOptions
from espalier.passes.distributed import run as run_module
from tests.model.zoo import case


def context() -> Context:
    held = case("mlp")
    return Context(held.store, callables=held.traced.callables)


def shard_run(options: ShardRunOptions, sharded: str = "") -> object:
    graph = case("mlp").graph
    if sharded:
        graph = run_step(graph, Step("shard", ShardOptions(sharded, strategy="data", batch_size=4)), context()).graph
    return run_step(graph, Step("shard_run", options), context()).report


def test_without_placements_there_is_nothing_to_run() -> None:
    with pytest.raises(PassError, match="not sharded") as caught:
        shard_run(ShardRunOptions())
    assert "1x2" in caught.value.hint


def test_more_processes_than_allowed_are_refused_before_any_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "launch", None)
    with pytest.raises(PassError, match="would start 16 processes on this machine; at most 8 may be") as caught:
        shard_run(ShardRunOptions(mesh="4x4", strategy="replicated"))
    assert "at most 8 devices" in caught.value.hint and "max_ranks" in caught.value.hint
    with pytest.raises(PassError, match="would start 2 processes on this machine; at most 1 may be"):
        shard_run(ShardRunOptions(max_ranks=1), sharded="2")


def test_processes_without_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "free", lambda: 500 << 20)
    with pytest.raises(PassError, match=r"2 processes with this model need about .* MiB; 500 MiB are free"):
        shard_run(ShardRunOptions(mesh="2", strategy="replicated"))


def test_the_mesh_of_the_options_is_checked() -> None:
    with pytest.raises(OptionsError, match="no mesh"):
        shard_run(ShardRunOptions(mesh="two"))


def test_models_that_register_operators_hand_their_source_to_ranks() -> None:
    graph = case("bert").graph
    assert not needs_source(graph)
    node = next(n for n in graph if n.call == "call_function")
    assert needs_source(graph.replace(replace(node, target="mine.double.default")))


@pytest.mark.slow
def test_a_run_is_measured_beside_what_was_predicted() -> None:
    report = shard_run(ShardRunOptions(mesh="2", strategy="fsdp", batch_size=4, timeout=60))
    summary, rows = report.summary, report.rows  # type: ignore[attr-defined]
    assert summary["ranks"] == 2 and all(d["within"] for d in summary["difference"].values())
    for row in rows:  # as torch counts them
        assert row["bytes"] == row["planned_bytes"] and row["backward"] == row["planned_backward"]
        assert row["calls"] or row["whole"] or row["backward"]
    assert sum(r["bytes"] for r in rows if r["collective"] == "all_gather") > 0
    assert sum(r["backward"] for r in rows if r["collective"] == "reduce_scatter") > 0
    predicted, sharded, single = summary["predicted"], summary["sharded"], summary["single"]
    for key in ("forward_seconds", "step_seconds"):
        assert 0 < predicted[key] < 60 and 0 < sharded[key] < 60 and 0 < single[key] < 60
    assert predicted["weight_bytes"] == pytest.approx(summary["memory"][0]["stored_bytes"], rel=0.01)
    assert "measured here" in predicted["source"] and not {"planned", "collectives"} & summary.keys()


@pytest.mark.slow
def test_ports_in_use_hinder_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of torch's own defaults and of the environment; and two runs at once have ports of their own."""
    with ExitStack() as taken:
        for port in (29400, 29500):
            listening = taken.enter_context(socket.socket())
            with suppress(OSError):  # in use already, all the better
                listening.bind(("127.0.0.1", port))
                listening.listen()
        monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
        monkeypatch.setenv("MASTER_PORT", "29500")
        options = ShardRunOptions(mesh="2", strategy="data", batch_size=4, timeout=60)
        with ThreadPoolExecutor(2) as pool:
            reports = list(pool.map(shard_run, [options, options]))
    assert all(r.summary["ranks"] == 2 and r.summary["difference"]["outputs"]["within"] for r in reports)  # type: ignore[attr-defined]
