"""A storage that goes away is told once, and so is its return; nobody waits in silence."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import optuna
import pytest
import sqlalchemy

from espalier.passes.search import outage
from espalier.passes.search.fleet import heartbeat
from espalier.passes.search.fleet.heartbeat import beating, id_of
from espalier.passes.search.outage import Outage
from espalier.passes.search.storage import open_storage
from tests.patience import until


def test_each_is_told_once() -> None:
    told: list[str] = []
    held = Outage()
    held.begin("s", "nobody hears it yet")
    with held.reporting(told.append):
        held.end("s")
        assert not told, "it was there when the telling began"
        held.begin("s", "refused.")
        held.begin("s", "again")
        assert len(told) == 1 and told[0].startswith("s does not respond since ") and "refused. Trying" in told[0]
        held.end("s")
        held.end("s")
    assert len(told) == 2 and told[1] == "s responds again after 0 s."


def test_a_call_that_hangs_is_told_while_it_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage, "SLOW", 0.05)
    told: list[str] = []
    held = Outage()
    with held.reporting(told.append):
        held.retry("s", str, lambda: until(lambda: bool(told)))
        assert len(told) == 2 and "it does not answer" in told[0] and "responds again" in told[1]

        def hangs_and_fails() -> None:
            until(lambda: len(told) == 3)
            raise ValueError("x")

        with pytest.raises(ValueError, match="x"):
            held.retry("s", lambda error: "", hangs_and_fails)
        assert len(told) == 3, "a call that fails is no answer"


def test_a_beat_that_fails_tells_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    study = optuna.create_study()
    trial, told, storage = study.ask(), [], heartbeat.storage_of(study)
    with outage.OUTAGE.reporting(told.append), beating(study, id_of(trial), interval=0.02):

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

    with held.reporting(told.append):
        assert held.retry("s", why, call) == 7
        assert len(told) == 2 and "refused" in told[0] and "responds again" in told[1]
        with pytest.raises(ZeroDivisionError):
            held.retry("s", why, lambda: 1 // 0)
        held.limit = 0.0
        left.append(ConnectionError("refused"))
        with pytest.raises(ConnectionError):
            held.retry("s", why, call)


def test_calls_of_a_storage_are_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage, "FIRST_PAUSE", 0.001)
    storage = open_storage(f"sqlite:///{tmp_path}/a.db")
    engine, locked = storage._backend.engine, sqlite3.OperationalError("database is locked")  # type: ignore[attr-defined]
    faults = [locked, locked]

    def execute(*_: object) -> None:
        if faults:
            raise sqlalchemy.exc.OperationalError("SELECT", {}, faults.pop())

    sqlalchemy.event.listen(engine, "before_cursor_execute", execute)
    told: list[str] = []
    with outage.OUTAGE.reporting(told.append):
        assert optuna.create_study(storage=storage, study_name="a").trials == []
        assert not faults and len(told) == 2 and "locked" in told[0] and "responds again" in told[1]
        faults.append(sqlite3.OperationalError("disk I/O error"))
        with pytest.raises((sqlalchemy.exc.OperationalError, optuna.exceptions.StorageInternalError)):
            storage.get_all_studies()
    assert len(told) == 2
