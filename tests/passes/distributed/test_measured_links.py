"""Timing of collectives between two ranks, and the analysis that stores the links."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from espalier.model.document.recipe import Step
from espalier.model.errors import JobError, PassError
from espalier.model.store.weights import WeightStore
from espalier.passes.base import Context, NoOptions, run_step
from espalier.passes.distributed import measured_links
from espalier.passes.distributed.link_times import KINDS, SIZES
from espalier.passes.distributed.measured_links import measure_links, together
from espalier.passes.sharding.links import stored_links
from tests.model.zoo import case


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of its own."""
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


def ranks() -> list[psutil.Process]:
    """The rank processes that this process has started."""
    found: list[psutil.Process] = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if child.cmdline()[-2:-1] == ["espalier.passes.jobs.rank"]:
                found.append(child)
    return found


def test_the_slowest_rank_counts_and_of_batches_the_median() -> None:
    def said(*seconds: float) -> dict[str, Any]:
        return {"times": [{"kind": "all_reduce", "bytes": 1024, "seconds": list(seconds)}]}

    (found,) = together([said(1.0, 5.0, 2.0), said(3.0, 4.0, 1.0)])
    assert (found.kind, found.bytes, found.seconds, found.ranks) == ("all_reduce", 1024, 3.0, 2)


def test_processes_without_memory_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(measured_links, "free", lambda: 100 << 20)
    with pytest.raises(PassError, match=r"2 processes need about .* MiB; 100 MiB are free"):
        measure_links(Context(WeightStore(tmp_path)))


@pytest.mark.slow
def test_this_machine_is_measured_and_stored(folder: Path) -> None:
    graph, begin = case("mlp").graph, time.monotonic()
    before = {p.pid for p in psutil.Process().children(recursive=True)}
    after = run_step(graph, Step("shard_links", NoOptions()), Context(case("mlp").store))
    report, took = after.report, time.monotonic() - begin
    assert after.graph is graph and took < 60
    stored, why = stored_links(report.summary["backend"])
    assert stored is not None and not why and abs(stored.time - time.time()) < 60
    assert report.summary["latency_us"] == pytest.approx(stored.latency * 1e6)
    assert 1e6 < stored.rate < 1e13 and stored.latency < 1 and stored.factor >= 1
    assert [(r["collective"], r["bytes"]) for r in report.rows[:4]] == [(k, s) for s in SIZES[:2] for k in KINDS]
    assert all(r["milliseconds"] > 0 and r["fitted_ms"] > 0 for r in report.rows)
    json.dumps([report.rows, report.summary], allow_nan=False)
    assert "links measured on" in report.summary["source"]
    assert {p.pid for p in psutil.Process().children(recursive=True)} <= before


@pytest.mark.slow
def test_a_killed_rank_ends_the_measurement_and_nothing_is_stored(folder: Path, tmp_path: Path) -> None:
    def kill(done: int, total: int, text: str) -> None:
        for rank in ranks()[-1:]:
            rank.kill()

    with pytest.raises(JobError, match=r"Rank [01] of 2 was ended by SIGKILL"):
        measure_links(Context(WeightStore(tmp_path), progress=kill))
    assert not ranks() and not folder.exists()


@pytest.mark.slow
def test_a_cancelled_measurement_leaves_no_rank(folder: Path, tmp_path: Path) -> None:
    def cancel(done: int, total: int, text: str) -> None:
        if len(ranks()) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure_links(Context(WeightStore(tmp_path), progress=cancel))
    assert not ranks() and not folder.exists()
