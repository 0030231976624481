"""No password in a file, a message or among the arguments of a process; files of the program's own are the user's."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from espalier.app.cli import main
from espalier.app.commands.crash import crash_folder, write_crash_report
from espalier.model.errors import EspalierError, FileError
from espalier.model.files import write_private
from espalier.model.private import private_folder, redacted

SECRET = "hunter2"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder that is not there yet."""
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path / "far" / "state"))
    return tmp_path / "far" / "state"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("text", [
    "postgresql://me:hunter2@db/studies", "['worker', 'postgresql+psycopg2://me:hunter2@db:5432/x?sslmode=no']",
    "postgresql://me:hun/ter2@hunter2@db/x", "postgresql://:hunter2@db", "grpc://me:hunter2@h:1 and a@b",
    "host=db password=hunter2 dbname=x", "PGPASSWORD='hunter2'", "ESPALIER_TOKEN=hunter2",
    "?user=me&password=hunter2&x=1",
    "HTTPS://me:hunter2@[::1]/x",
])  # fmt: skip
def test_passwords_are_hidden(text: str) -> None:
    assert "hunter2" not in redacted(text) and "ter2" not in redacted(text) and "…" in redacted(text)
    assert "hunter2" not in str(EspalierError(text, text)) + repr(
        EspalierError(text).args
    ) and "hunter2" not in redacted(text)


@pytest.mark.parametrize("text", ["grpc://host:13000", "a@b.c", "https://example.org/a?b=c", "token=3 of 5", "x: y"])
def test_what_is_no_secret_stays(text: str) -> None:
    assert redacted(text) == text


def test_long_texts_cost_little() -> None:
    import time

    start = time.thread_time()
    redacted("a://" * 20_000 + "b:" * 20_000 + "@=")
    redacted("password=" * 20_000)
    assert time.thread_time() - start < 2


def test_a_crash_report_is_private(state: Path) -> None:
    url = f"postgresql://me:{SECRET}@db/studies"
    try:
        raise RuntimeError(f"cannot connect to {url}") from ValueError(f"password={SECRET}")
    except RuntimeError as error:
        path = write_crash_report(error, ["worker", "--storage", url])
    assert path and path.parent == crash_folder() == state / "crashes"
    assert SECRET not in path.read_text() and "RuntimeError" in path.read_text() and "me:…@db" in path.read_text()
    assert mode(path) == 0o600 and mode(path.parent) == 0o700 and mode(state) == 0o700


def test_the_window_writes_its_reports_alike(state: Path) -> None:
    from espalier.app.errors import crash_report

    path = crash_report(RuntimeError(f"postgresql://me:{SECRET}@db"))
    assert SECRET not in path.read_text() and mode(path) == 0o600 and mode(path.parent) == 0o700
    assert path.parent == state / "crashes"


def test_folders_that_are_there_are_closed(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    assert mode(private_folder(tmp_path / "open")) == 0o700
    target = tmp_path / "open" / "old.txt"
    target.write_text("x")
    target.chmod(0o644)
    write_private(target, "y")
    assert mode(target) == 0o600 and target.read_text() == "y"
    (tmp_path / "open" / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileError):
        write_private(tmp_path / "open" / "link", "z")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("words", [
    ["worker", "--storage"], ["search", "demo:digits-mlp", "{spec}", "--storage"], ["serve-storage", "--storage"],
])  # fmt: skip
@pytest.mark.parametrize("rest", ["127.0.0.1:1/studies", "127.0.0.1:1", "127.0.0.1:x/studies"])
def test_no_command_tells_the_password(
    words: list[str], rest: str, state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = tmp_path / "s.toml"
    spec.write_text('goals = ["accuracy"]\n[[space]]\nper = "all"\nvalues = "integer(width=2|4)"\n')
    main([*(w.format(spec=spec) for w in words), f"postgresql://me:{SECRET}@{rest}"])
    told = capsys.readouterr()
    assert SECRET not in told.out + told.err and told.err.strip()
    for file in state.rglob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes()


def test_recent_files_hold_none(tmp_path: Path) -> None:
    from PySide6.QtCore import QSettings

    from espalier.app.settings import Settings

    settings = Settings(QSettings(str(tmp_path / "s.ini"), QSettings.Format.IniFormat))
    settings.add_recent(f"https://me:{SECRET}@host/model")
    settings.sync()
    assert SECRET not in (tmp_path / "s.ini").read_text() and settings.recent
