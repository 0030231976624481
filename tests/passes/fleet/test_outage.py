"""A storage that goes away is told once, and so is its return; nobody waits in silence."""

from __future__ import annotations

import time

import optuna
import pytest

from espalier.passes.search import outage
from espalier.passes.search.fleet import heartbeat
from espalier.passes.search.fleet.heartbeat import beating, id_of
from espalier.passes.search.fleet.local_workers import Crew, together
from espalier.passes.search.outage import Outage
from espalier.passes.search.trial import Trial
from tests.patience import until


def test_each_is_told_once() -> None:
    told: list[str] = []
    held = Outage()
    held.away("s", "nobody hears it yet")
    with held.told(told.append):
        held.back("s")
        assert not told, "it was there when the telling began"
        held.away("s", "refused.")
        held.away("s", "again")
        assert len(told) == 1 and told[0].startswith("s does not respond since ") and "refused. Trying" in told[0]
        held.back("s")
        held.back("s")
    assert len(told) == 2 and told[1] == "s responds again after 0 s."


def test_a_call_that_hangs_is_told_while_it_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage, "SLOW", 0.05)
    monkeypatch.setattr(outage, "LOOK", 0.01)
    told: list[str] = []
    held = Outage()
    with held.told(told.append):
        with held.calling("s"):
            until(lambda: bool(told))
            assert "it does not answer" in told[0]
        assert "responds again" in told[1]
        with pytest.raises(ValueError, match="x"), held.calling("s"):
            until(lambda: len(told) == 3)
            raise ValueError("x")
        assert len(told) == 3, "a call that fails is no answer"


def test_a_beat_that_fails_tells_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    study = optuna.create_study()
    trial, told, storage = study.ask(), [], heartbeat.storage_of(study)
    with outage.OUTAGE.told(told.append), beating(study, id_of(trial), interval=0.02):

        def broken(*_: object) -> None:
            raise optuna.exceptions.StorageInternalError("connection refused")

        monkeypatch.setattr(storage, "set_trial_user_attr", broken)
        until(lambda: len(told) == 1)
        assert "connection refused" in told[0]
        monkeypatch.undo()
        until(lambda: len(told) == 2)


def test_a_call_is_made_again_while_its_storage_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage, "FIRST_PAUSE", 0.001)
    held, told, left = Outage(), list[str](), [ConnectionError("refused"), ConnectionError("refused")]

    def call() -> int:
        if left:
            raise left.pop()
        return 7

    def why(error: Exception) -> str:
        return str(error) if isinstance(error, ConnectionError) else ""

    with held.told(told.append):
        assert held.patiently("s", call, why) == 7
        assert len(told) == 2 and "refused" in told[0] and "responds again" in told[1]
        with pytest.raises(ZeroDivisionError):
            held.patiently("s", lambda: 1 // 0, why)
        held.limit = 0.0
        left.append(ConnectionError("refused"))
        with pytest.raises(ConnectionError):
            held.patiently("s", call, why)


class Search:
    """A running search whose storage breaks off once; another worker's trial ended meanwhile."""

    def __init__(self, breaks: bool) -> None:
        self.breaks, self.study, self.plan = breaks, optuna.create_study(), self
        self.told = {0: Trial(0, "complete"), 1: Trial(1, "running" if breaks else "pruned")}
        self.context = type("Context", (), {"enough": staticmethod(lambda: False)})

    def trials(self):  # type: ignore[no-untyped-def]
        """One trial, or an outage."""
        if self.breaks:
            raise optuna.exceptions.StorageInternalError("gone")
        yield from ()
        return "all trials have run"


def test_a_search_goes_on_when_its_storage_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    from espalier.passes.search import study
    from espalier.passes.search.fleet import local_workers as crew

    told: list[str] = []
    monkeypatch.setattr(crew, "replace", lambda plan, **_: plan)
    monkeypatch.setattr(study, "begin", lambda _: Search(breaks=False))
    monkeypatch.setattr(time, "sleep", lambda _: None)
    trials = together(Search(breaks=True), Crew(0, "journal:x.journal", "s", told.append))  # type: ignore[arg-type]
    assert next(trials) == Trial(1, "pruned")
    with pytest.raises(StopIteration) as end:
        next(trials)
    assert end.value.value == "all trials have run"
    assert len(told) == 2 and "gone" in told[0] and "responds again" in told[1]
