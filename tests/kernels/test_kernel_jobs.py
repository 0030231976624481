"""Jobs about kernels in the worker: the list of them, and a run that tells its rows one by one and can be stopped."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, cast

import pytest

from espalier.kernels.bench.ceilings import Ceilings
from espalier.kernels.bench.request import Request
from espalier.kernels.bench.results import Results, Row
from espalier.kernels.bench.spec import Lab
from espalier.passes.base import Cancelled
from espalier.passes.jobs.kernel import KernelsJob, LabJob
from espalier.passes.jobs.kinds import PartialResult
from espalier.passes.jobs.serving import Channel
from espalier.passes.jobs.worker import handle

SMALL = Request(("softmax",), shapes=("4x8",), versions=("torch", "naive"), seconds=0.0, ceilings=False)


class Heard:
    """A channel that keeps what is told; `stop` is asked at each progress."""

    def __init__(self, stop: Callable[[], bool] = lambda: False) -> None:
        self.parts: list[object] = []
        self.stop = stop
        self.wanted = False

    def enough(self) -> bool:
        return self.wanted

    def send(self, event: object) -> None:
        assert isinstance(event, PartialResult)
        self.parts.append(event.part)

    def progress(self, done: int, total: int, text: str) -> None:
        if self.stop():
            raise Cancelled("stopped")


def run(request: Request, heard: Heard) -> Any:
    return handle(KernelsJob(request), cast("Channel", heard))


def test_the_lab_is_listed() -> None:
    assert isinstance(found := handle(LabJob(), cast("Channel", Heard())), Lab) and found.kernels
    # Its name in a pickle would load torch into the window, whose process has none.
    assert b"torch_version" not in pickle.dumps(found)


def test_rows_come_one_by_one_after_the_machine() -> None:
    heard = Heard()
    done = run(SMALL, heard)
    first, *rest = heard.parts
    assert isinstance(first, Results) and first.machine["name"] and not first.rows
    told = [r for r in rest if isinstance(r, Row)]
    assert done == 0 and len(told) == len(rest) and {r.version for r in told} == {"torch", "naive"}
    assert all(r.correct and r.seconds for r in told)


@pytest.mark.slow
def test_ceilings_come_before_rows() -> None:
    heard = Heard()
    run(Request(("softmax",), shapes=("4x8",), versions=("torch",), seconds=0.0), heard)
    assert [type(p) for p in heard.parts] == [Results, Ceilings, Row]


def test_a_stopped_run_has_told_its_rows() -> None:
    heard = Heard()
    heard.stop = lambda: len(heard.parts) > 2  # the first size is done
    with pytest.raises(Cancelled):
        run(Request(("softmax",), shapes=("4x8", "4x16"), versions=("naive",), seconds=0.0, ceilings=False), heard)
    assert [type(p) for p in heard.parts] == [Results, Row, Row]


def test_a_run_makes_room_after_a_size_and_goes_on() -> None:
    request = Request(("softmax",), shapes=("4x8", "4x16", "4x32"), versions=("naive",), seconds=0.0, ceilings=False)
    heard = Heard()
    heard.wanted = True
    assert run(request, heard) == 1
    assert {r.shape["n"] for r in heard.parts if isinstance(r, Row)} == {8}
    heard.wanted = False
    job = KernelsJob(request, 1, Ceilings("cpu", 10.0, {"float32": 0.1}))
    assert handle(job, cast("Channel", heard)) == 0
    sizes = [r.shape["n"] for r in heard.parts if isinstance(r, Row)]
    assert sizes == [8, 8, 16, 16, 32, 32]
    assert sum(isinstance(p, Results) for p in heard.parts) == 1
    assert all(r.of_roof for r in heard.parts if isinstance(r, Row) and r.shape["n"] > 8)
