"""Storages of studies: URLs, errors in words, journals that survive a kill, studies in projects."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import optuna
import pytest

from espalier.model.errors import StorageError
from espalier.model.private import redacted
from espalier.passes.search import project_studies
from espalier.passes.search.fleet.serve import serve
from espalier.passes.search.journal_file import Journal, JournalFile
from espalier.passes.search.outage import OUTAGE
from espalier.passes.search.storage import (
    journal_url,
    load_study,
    open_storage,
    open_study,
    path_of,
    scheme_of,
    study_names,
)
from tests.passes.fleet.fleet_cases import cluster, postgres, server
from tests.patience import until

FORMATS = ["integer(width=8, frac_width=4)", "mxint(width=4)", "float"]
__all__ = ["cluster", "postgres", "server"]


def filled(path: Path, trials: int = 3) -> optuna.Study:
    """A journal with a study of a few trials."""
    study = open_study(open_storage(str(path)), "a", ("maximize",), "print")
    for i in range(trials):
        trial = study.ask()
        trial.suggest_categorical("bert.layer.0.weight", FORMATS)
        study.tell(trial, float(i))
    return study


@pytest.mark.parametrize(
    ("url", "scheme", "path"),
    [
        ("journal:///a/b.jsonl", "journal", "/a/b.jsonl"),
        ("journal:////a/b.jsonl", "journal", "/a/b.jsonl"),
        ("journal:b.jsonl", "journal", "b.jsonl"),
        ("journal:///a/with%20space", "journal", "/a/with space"),
        ("studies/x.journal", "journal", "studies/x.journal"),
        ("sqlite:///b.db", "sqlite", "b.db"),
        ("sqlite:////a/b.db", "sqlite", "/a/b.db"),
        ("postgres://me@db/x", "postgresql", None),
        ("postgresql+psycopg2://me@db/x", "postgresql", None),
        ("grpc://host:1", "grpc", None),
    ],
)
def test_urls(url: str, scheme: str, path: str | None) -> None:
    assert scheme_of(url) == scheme
    assert path_of(url) == (Path(path) if path else None)


def test_passwords_are_not_shown() -> None:
    assert redacted("postgresql://me:secret@db:5432/x") == "postgresql://me:…@db:5432/x"
    with pytest.raises(StorageError) as caught:
        open_storage("postgresql://me:secret@127.0.0.1:1/x")
    assert "secret" not in str(caught.value) and "cannot be reached" in caught.value.message


def foreign(tmp_path: Path) -> dict[str, bytes]:
    """Files that are something else, by name."""
    database = sqlite3.connect(tmp_path / "cats.db")
    database.execute("create table cats(a int)")
    database.commit()
    database.close()
    for name, text in {"hello.journal": "hello\n", "one.jsonl": '{"a": 1}', "sweep.jsonl": '{"sweep": 1}\n',
                       "words.db": "hello there, database"}.items():  # fmt: skip
        (tmp_path / name).write_text(text)
    return {p.name: p.read_bytes() for p in tmp_path.iterdir()}


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("hello.journal", "not a journal"),
        ("one.jsonl", "not a journal"),
        ("sweep.jsonl", "not a journal"),
        ("cats.db", "cats"),
        ("words.db", "not an SQLite database"),
        ("journal:cats.db", "SQLite database, not a journal"),
        ("no/such/folder.journal", "no folder"),
        ("journal:.", "is a folder"),
        ("mysql://x/y", "names no storage"),
        ("nonsense", "names no storage"),
        ("postgresql://me@db", "names no database"),
        ("grpc://host:word", "no valid port"),
        ("grpc://", "no address"),
    ],
)
def test_what_is_no_storage_is_told_and_left_alone(
    url: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = foreign(tmp_path)
    with pytest.raises(StorageError, match=words) as caught:
        open_storage(url)
    assert caught.value.hint
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_a_missing_driver_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for url, package in (("postgresql://me@db/x", "psycopg2-binary"), ("grpc://host:1", "grpcio")):
        with pytest.raises(StorageError, match=package):
            open_storage(url)


@pytest.mark.parametrize("kind", ["journal", "db"])
def test_a_name_that_is_taken(kind: str, tmp_path: Path) -> None:
    storage = open_storage(str(tmp_path / f"a.{kind}"))
    open_study(storage, "a", ("maximize",), "one").add_trial(optuna.create_trial(value=1.0))
    assert len(open_study(storage, "a", ("maximize",), "one").trials) == 1
    for directions, fingerprint in ((("maximize",), "two"), (("minimize",), "one"), (("maximize", "minimize"), "one")):
        with pytest.raises(StorageError, match="varies something else"):
            open_study(storage, "a", directions, fingerprint)  # type: ignore[arg-type]
    with pytest.raises(StorageError, match="no study 'b'"):
        load_study(storage, "b")
    assert study_names(storage) == ["a"]


def test_a_study_of_another_program_is_left_alone(tmp_path: Path) -> None:
    storage = open_storage(str(tmp_path / "a.journal"))
    optuna.create_study(storage=storage, study_name="theirs").add_trial(optuna.create_trial(value=1.0))
    with pytest.raises(StorageError, match="not from Espalier"):
        open_study(storage, "theirs", ("minimize",), "x")
    assert load_study(storage, "theirs").user_attrs == {}


# -- journals


def test_a_torn_line_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "a.journal"
    filled(path)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"op_code":4,"worker_id":"x","stu')
    assert len(load_study(Journal(path), "a").trials) == 3
    study = filled(path, 1)
    assert [t.value for t in study.trials] == [0.0, 1.0, 2.0, 0.0]
    assert path.read_bytes().startswith(whole)
    theirs = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(path)))
    assert [t.params for t in load_study(theirs, "a").trials] == [t.params for t in study.trials]


@pytest.mark.parametrize("damage", [b'{"op_code":8,"trial_id":0,"us', b"\x00\x00\x00\x00"])
def test_a_line_that_ran_into_a_torn_one_is_found(damage: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.journal"
    filled(path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:-1], damage, lines[-1]]))
    assert [t.value for t in load_study(Journal(path), "a").trials] == [0.0, 1.0, 2.0]


def test_a_broken_line_in_the_middle_loses_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.journal"
    filled(path)
    lines = path.read_bytes().splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if b"set_trial" in line or b'"values":[1.0]' in line)
    path.write_bytes(b"".join([*lines[:at], b"rubbish\n", *lines[at:]]))
    study = filled(path, 1)
    assert [t.value for t in study.trials] == [0.0, 1.0, 2.0, 0.0]
    assert [t.value for t in load_study(Journal(path), "a").trials] == [0.0, 1.0, 2.0, 0.0]


def test_two_hands_on_one_journal_see_each_other(tmp_path: Path) -> None:
    path = tmp_path / "a.journal"
    ours, again = filled(path), load_study(Journal(path), "a")
    theirs = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(path)))
    load_study(theirs, "a").tell(load_study(theirs, "a").ask(), 7.0)
    again.tell(again.ask(), 8.0)
    assert [t.value for t in ours.trials] == [0.0, 1.0, 2.0, 7.0, 8.0]


def test_another_distribution_under_one_name_is_refused(tmp_path: Path) -> None:
    study = filled(tmp_path / "a.journal")
    with pytest.raises(ValueError, match=r"different distribution|not support"):
        study.ask().suggest_int("bert.layer.0.weight", 0, 3)


@pytest.mark.slow
def test_what_a_killed_process_locked_is_free_again(tmp_path: Path) -> None:
    path = tmp_path / "a.journal"
    filled(path)
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom espalier.passes.search.journal_file import JournalFile\n"
        "file = JournalFile(Path(sys.argv[1]))\nwith file._locked():\n    print('held', flush=True)\n    time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True,
                              env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3] / "roots")})  # fmt: skip
    with holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        holder.send_signal(signal.SIGKILL)
    JournalFile(path).append_logs([{"op_code": 2, "worker_id": "w", "study_id": 0, "user_attr": {"a": 1}}])
    assert load_study(Journal(path), "a").user_attrs["a"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("first", [True, False])
def test_ctrl_c_within_a_lock_is_no_error(first: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before or after the lock is removed; it is free again."""
    study, real = filled(tmp_path / "a.journal"), os.unlink

    def interrupted(*words: str) -> None:
        monkeypatch.setattr(os, "unlink", real)
        if not first:
            real(*words)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "unlink", interrupted)
    with pytest.raises(KeyboardInterrupt):
        study.set_user_attr("a", 1)
    study.set_user_attr("a", 2)
    assert not list(tmp_path.glob("*.lock*")) and study.user_attrs["a"] == 2


def test_lines_are_read_once(tmp_path: Path) -> None:
    path = tmp_path / "a.journal"
    study = filled(path, 1)
    line = path.read_text().splitlines()[-2]
    assert json.loads(line)["op_code"] == 5
    reader = Journal(path)
    before = reader._backend._offset  # type: ignore[attr-defined]
    study.set_user_attr("later", True)
    assert load_study(reader, "a").user_attrs["later"] is True
    assert reader._backend._offset > before == path.stat().st_size - len(path.read_text().splitlines()[-1]) - 1  # type: ignore[attr-defined]


def test_a_reading_that_was_broken_off_goes_on_there(tmp_path: Path) -> None:
    path = tmp_path / "a.journal"
    filled(path)
    file = JournalFile(path)
    whole = list(file.read_logs(0))
    file = JournalFile(path)
    begun = iter(file.read_logs(0))
    assert [next(begun), next(begun)] == whole[:2]  # then what reads it raises, as for a study that is there twice
    assert list(file.read_logs(2)) == whole[2:]
    assert list(file.read_logs(len(whole))) == [] and list(file.read_logs(1)) == whole[1:]


# -- in projects


def test_studies_travel_in_projects(tmp_path: Path) -> None:
    first, second = tmp_path / "one", tmp_path / "two"
    name = "bits / widths: é"
    study = open_study(open_storage(project_studies.url_for(first, name)), name, ("maximize",), "x")
    study.add_trial(optuna.create_trial(value=1.0))
    with project_studies.path_for(first, name).open("ab") as file:
        file.write(b'{"op_code":4,')
    extras = project_studies.packed(first)
    assert (
        list(extras) == [project_studies.member(name)] and project_studies.name_of(project_studies.member(name)) == name
    )
    found = project_studies.unpack(extras, second)
    assert found == {name: project_studies.path_for(second, name)}
    assert load_study(open_storage(journal_url(found[name])), name).trials[0].value == 1.0
    load_study(open_storage(journal_url(found[name])), name).add_trial(optuna.create_trial(value=2.0))
    project_studies.unpack(extras, second)
    assert len(load_study(open_storage(journal_url(found[name])), name).trials) == 2


# -- servers


def test_a_storage_over_grpc(server: str) -> None:
    study = open_study(open_storage(server), "over", ("maximize",), "x")
    trial = study.ask()
    assert trial.suggest_categorical("a", FORMATS) in FORMATS
    study.tell(trial, 1.0)
    assert load_study(open_storage(server), "over").trials[0].value == 1.0
    with pytest.raises(StorageError, match="varies something else"):
        open_study(open_storage(server), "over", ("maximize",), "y")


@pytest.mark.slow
def test_nobody_at_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("espalier.passes.search.storage.TIMEOUT", 1)
    with pytest.raises(StorageError, match="no answer"):
        open_storage("grpc://127.0.0.1:1")


@pytest.mark.slow
def test_postgresql(postgres: str) -> None:
    study = open_study(open_storage(postgres), "a", ("maximize",), "x")
    trial = study.ask()
    trial.suggest_categorical("a", FORMATS)
    study.tell(trial, 1.0)
    assert load_study(open_storage(postgres), "a").trials[0].params == trial.params
    with pytest.raises(StorageError, match="varies something else"):
        open_study(open_storage(postgres), "a", ("maximize",), "y")
    with pytest.raises(StorageError, match="cannot be reached"):
        open_storage(postgres.rpartition("/")[0] + "/nosuch")


@pytest.mark.slow
def test_a_server_that_is_started_again_was_only_away(tmp_path: Path) -> None:
    found, port = serve(f"journal:{tmp_path}/served.journal", "127.0.0.1", 0)
    study = open_study(open_storage(f"grpc://127.0.0.1:{port}"), "a", ("maximize",), "x")
    trial = study.ask()
    found.stop(None).wait()
    again: list[object] = []

    def restart() -> None:
        time.sleep(4)  # longer than a call takes that is answered
        again.append(serve(f"journal:{tmp_path}/served.journal", "127.0.0.1", port)[0])

    told: list[str] = []
    thread = threading.Thread(target=restart)
    thread.start()
    with OUTAGE.reporting(told.append):
        study.tell(trial, 1.0)  # waits
        until(lambda: len(told) > 1)
    thread.join()
    assert (
        f"127.0.0.1:{port} does not respond since" in told[0] and "responds again after" in told[1] and len(told) == 2
    )
    assert again and study.trials[0].value == 1.0
    again[0].stop(None).wait()  # type: ignore[attr-defined]


def test_tables_that_another_process_creates_at_the_same_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL reports the race as a broken unique index of its own catalogue."""
    from sqlalchemy.exc import IntegrityError

    failures = 1
    text = 'duplicate key value violates unique constraint "pg_type_typname_nsp_index"'

    class Racing(optuna.storages.RDBStorage):
        def __init__(self, *given: object, **options: object) -> None:
            nonlocal failures
            failures -= 1
            if failures >= 0:
                raise IntegrityError("CREATE TABLE studies", {}, Exception(text))
            super().__init__(*given, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(optuna.storages, "RDBStorage", Racing)
    assert study_names(open_storage(f"sqlite:///{tmp_path}/a.db")) == [] and failures == -1
    failures = 2
    with pytest.raises(StorageError, match="pg_type_typname"):
        open_storage(f"sqlite:///{tmp_path}/b.db")
