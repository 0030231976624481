"""Which rank the error of a failed run names, and why."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from espalier.model.document.recipe import Step
from espalier.model.errors import JobError
from espalier.model.opening import needs_source
from espalier.model.store.weights import WeightStore
from espalier.model.trace.trace import trace
from espalier.model.trust import NAMED, Origin, TrustError, require
from espalier.passes.base import Context, run_step
from espalier.passes.distributed.job import Settings, Source, read_settings, write_settings
from espalier.passes.distributed.launch import environment, failure_of, launch
from espalier.passes.distributed.launcher import ENDED
from espalier.passes.distributed.run import RunOptions, settings_of
from espalier.passes.distributed.serving.load import Load
from espalier.passes.recipes.config import decode_options

LOST = {"message": "RuntimeError: gloo: Connection reset by peer", "hint": "", "lost": True}
LATE = {"message": "RuntimeError: gloo: Timed out waiting 5000ms for recv", "hint": "", "lost": True}
OWN = {"message": "ValueError: too long", "hint": "", "lost": False}


@pytest.mark.parametrize(
    ("ended", "failures", "code", "message"),
    [
        ({"0": [1, 0], "1": [-9, 0]}, {0: LOST}, 1, "Rank 1 of 2 was ended by SIGKILL."),
        ({"0": [1, 0], "1": [-15, 0]}, {0: LOST}, 1, "Rank 1 of 2 was ended by SIGTERM."),
        ({"0": [1, 0], "1": [-15, 0]}, {0: OWN}, 1, "Rank 0 of 2 failed: ValueError: too long."),
        ({"0": [1, 0], "1": [1, 0]}, {0: LOST, 1: OWN}, 1, "Rank 1 of 2 failed: ValueError: too long."),
        ({"0": [1, 0], "1": [-9, 30]}, {0: LATE}, 1, "Rank 1 of 2 did not respond in time."),
        ({"0": [1, 0], "1": [1, 0]}, {0: LOST, 1: LOST}, 1, "Rank 0 of 2 lost its connection: RuntimeError: gloo"),
        ({"1": [3, 0]}, {}, 1, "A sharded run failed: rank 1 with exit code 3."),
        ({}, {}, -9, "torchrun was ended by SIGKILL."),
        ({}, {}, 1, "torchrun did not start: no address."),
    ],
)
def test_the_rank_that_others_lost_is_named(
    ended: dict[str, list[int]], failures: dict[int, dict[str, Any]], code: int, message: str, tmp_path: Path
) -> None:
    (tmp_path / ENDED).write_text(json.dumps(ended))
    (tmp_path / "launcher.log").write_text("no address\n")
    for rank, data in failures.items():
        (tmp_path / f"failure-{rank}.json").write_text(json.dumps(data))
    error = failure_of(2, tmp_path, code)
    assert error.message.startswith(message) and error.hint


def test_what_a_rank_wrote_last_is_quoted(tmp_path: Path) -> None:
    """After a signal of its own, such as that of a failed assertion in a library; not after one of the system."""
    for attempt, text in ((0, "of an earlier start\n"), (1, "a\nb\n\nterminate called\n  what():  no  device.\n")):
        log = tmp_path / f"logs/none_x/attempt_{attempt}/1/stderr.log"
        log.parent.mkdir(parents=True)
        log.write_bytes(text.encode() + b"\xff\n" * attempt)

    def message(number: int) -> str:
        (tmp_path / ENDED).write_text(json.dumps({"1": [number, 0]}))
        return failure_of(2, tmp_path, 1).message

    quoted = "its last lines: terminate called / what(): no device. / \ufffd."
    assert message(-6) == f"Rank 1 of 2 was ended by SIGABRT; {quoted}"
    assert message(-11) == f"Rank 1 of 2 was ended by SIGSEGV; {quoted}"
    assert message(3) == f"A sharded run failed: rank 1 with exit code 3; {quoted}"
    assert message(-9) == "Rank 1 of 2 was ended by SIGKILL."


def test_settings_are_read_as_they_were_written(tmp_path: Path) -> None:
    for settings in (
        Settings((2,), 1, 60.0),
        Settings((1, 2), 3, 5.0, "cuda", Source("a.py:f", ("x=1",), 7), ("p.py",), Load(8, 2.5, kill_rank=1)),
    ):
        write_settings(tmp_path, settings)
        assert read_settings(tmp_path) == settings
    (tmp_path / "settings.json").write_text("{}")
    with pytest.raises(JobError, match="no job of a sharded run"):
        read_settings(tmp_path)


def test_ranks_do_not_inherit_the_options_of_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PET_NNODES", "2")
    monkeypatch.setenv("MASTER_PORT", "1")
    assert not {"PET_NNODES", "MASTER_PORT"} & environment(1, None).keys()


def test_ranks_that_do_not_start_are_named_and_ended(tmp_path: Path) -> None:
    before = {p.pid for p in psutil.Process().children(recursive=True)}
    with pytest.raises(JobError, match=r"Rank 0, 1 of 2 did not start within 0\.3 s") as error:
        launch(2, tmp_path, environment(1, None), Context(WeightStore(tmp_path)), start=0.3)
    assert error.value.hint
    assert {p.pid for p in psutil.Process().children(recursive=True)} <= before


def test_code_that_nobody_allowed_reaches_no_rank(tmp_path: Path) -> None:
    """A project whose operators need code names a file: the parent must ask, though it has not opened it."""
    torch.manual_seed(0)
    store = WeightStore(tmp_path)
    graph = trace(
        torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()), {"input": torch.randn(2, 4)}, store
    ).graph
    options = decode_options("shard", {"mesh": "2", "strategy": "data"})
    graph = run_step(graph, Step("shard", options), Context(store)).graph
    node = next(n for n in graph if n.op == "relu")
    foreign = graph.replace(replace(node, call="call_function", target="_test.leaky_relu.default"))
    evil = tmp_path / "evil.py"
    evil.write_text("raise SystemExit('it ran')\n")
    source = Source(f"{evil}:make")
    assert needs_source(foreign) and not needs_source(graph)
    with pytest.raises(TrustError, match="names code"):
        settings_of(foreign, RunOptions(), Context(store), source)
    assert str(evil) not in environment(1, source).get(NAMED, "")
    require(evil, "the function make", Origin.TYPED)
    assert settings_of(foreign, RunOptions(), Context(store), source).source == source
    assert str(evil) in environment(1, source)[NAMED]
