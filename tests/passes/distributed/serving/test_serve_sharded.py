"""Sharded models under load by two ranks: answers equal one process, also after a rank was killed; nothing is left."""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import psutil
import pytest

from espalier.app.cli import main
from espalier.model.document.recipe import Raw, Step
from espalier.model.errors import JobError
from espalier.model.opening import open_any
from espalier.model.trust import Origin
from espalier.passes.base import Context, run_step
from espalier.passes.distributed.serving.run import ServeOptions, serve_sharded

pytestmark = pytest.mark.slow
MODELS = Path(__file__).parents[1] / "models.py"
STEPS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("quantize", {"rules": [{"select": {"by": "type", "values": ["linear"]},
                             "formats": {"weight": "mxint(width=8, block=4)"}}]}),
    ("lora", {"rank": 4, "alpha": 8}),
    ("shard", {"mesh": "1x2", "strategy": "megatron"}),
)  # fmt: skip
Processes = dict[int, psutil.Process]


@pytest.fixture
def processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Processes]:
    """The processes that a test starts: none is left after it, and no file of theirs."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seen: Processes = {}
    before = {p.pid for p in psutil.Process().children(recursive=True)}  # of other tests, such as multiprocessing's own
    yield seen
    for pid in before:
        seen.pop(pid, None)
    _gone, alive = psutil.wait_procs(list(seen.values()), timeout=5)
    assert len(seen) >= 3 and not alive  # the launcher and the ranks
    assert not list(tmp_path.glob("espalier-scratch-*"))


def _served(folder: Path, processes: Processes, **options: Any) -> dict[str, Any]:
    """The report of a decoder with formats and adapters."""

    def watch(done: int, total: int, text: str) -> None:
        processes.update({p.pid: p for p in psutil.Process(os.getpid()).children(recursive=True)})

    opened = open_any(f"{MODELS}:writer", folder / "opened", cached=False, origin=Origin.TYPED)
    context = Context(opened.store, 0, watch, opened.callables, base=opened.project.base)
    graph = opened.project.graph
    for kind, given in STEPS:
        graph = run_step(graph, Step(kind, Raw(given), 0), context).graph
    return serve_sharded(graph, ServeOptions(batch_size=4, timeout=60, **options), context)


def test_answers_of_ranks_equal_those_of_one_process(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["shard", f"{MODELS}:writer", "--mesh", "1x2", "--serve", "--strategy", "megatron", "--batch-size", "4",
             "--requests", "30", "--request-rate", "60", "--json"]  # fmt: skip
    assert main(words) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["difference"]["outputs"]["within"] and report["compared"]["outputs"] == 30
    for found in (report["sharded"], report["single"]):
        assert found["requests"] == 30 and found["samples_per_second"] == pytest.approx(30 / found["seconds"])
        latency = found["latency_ms"]
        assert 0 < latency["p50"] <= latency["p95"] <= latency["p99"] <= latency["max"]
        assert 1 <= found["mean_batch"] <= 4
    assert report["lost"] == report["restarts"] == 0
    assert [m["stored_bytes"] < 0.8 * report["single"]["stored_bytes"] for m in report["memory"]] == [True, True]


def test_ranks_are_restarted_and_no_request_is_lost(tmp_path: Path, processes: Processes) -> None:
    report = _served(tmp_path, processes, request_rate=30.0, seconds=1.5, max_restarts=1, kill_rank=0, after=0.5)
    assert report["restarts"] == 1 and report["lost"] == 0
    (outage,) = report["outages"]
    assert outage["seconds"] > 1 and outage["waiting"] > 0
    assert report["sharded"]["latency_ms"]["max"] >= 1000
    assert report["compared"]["outputs"] == report["sharded"]["requests"] == report["single"]["requests"] > 20
    assert report["difference"]["outputs"]["within"]


def test_without_a_restart_a_killed_rank_ends_the_command(tmp_path: Path, processes: Processes) -> None:
    before = time.monotonic()
    with pytest.raises(JobError) as error:
        _served(tmp_path, processes, seconds=300.0, kill_rank=1, after=0.3)
    assert re.fullmatch(r"Rank 1 of 2 was ended by SIGKILL; \d+ requests were answered\.", error.value.message)
    assert "--max-restarts" in error.value.hint
    assert time.monotonic() - before < 200
