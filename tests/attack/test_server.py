"""A storage server on an open network: strangers get nothing, floods end at a limit, no name is a path."""

from __future__ import annotations

import hashlib
import socket
import stat
import threading
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import grpc
import optuna
import pytest
from optuna.storages._grpc.auto_generated import api_pb2, api_pb2_grpc

from espalier.app.cli import main
from espalier.model.errors import StorageError
from espalier.passes.search.fleet import serve as serving
from espalier.passes.search.fleet.files import SERVICE, FolderFiles, GrpcFiles
from espalier.passes.search.fleet.serve import Quota, QuotaError, serve
from espalier.passes.search.fleet.token import KEY, TOKEN, TOKEN_FILE, served_token, token_file
from espalier.passes.search.storage import open_storage, study_names
from tests.patience import PATIENCE

WORD = "a-token-of-the-test-0123"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state of its own, and no token."""
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path / "state"))
    monkeypatch.delenv(TOKEN, raising=False)
    monkeypatch.delenv(TOKEN_FILE, raising=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the server keeps its journal and its files."""
    (tmp_path / "served").mkdir()
    return tmp_path / "served"


@pytest.fixture
def port(folder: Path) -> Generator[int]:
    """A server that asks for WORD."""
    server, found = serve(f"journal:{folder}/s.journal", "127.0.0.1", 0, lambda port: WORD)
    yield found
    server.stop(None).wait()


def url(port: int) -> str:
    return f"grpc://127.0.0.1:{port}"


def code_of(call: Any) -> str:
    try:
        answer = call()
        list(answer) if hasattr(answer, "__next__") else None
    except grpc.RpcError as error:
        assert isinstance(error, grpc.Call)
        return error.code().name
    return "OK"


@pytest.mark.parametrize("word", ["", "wrong", WORD[:-1], WORD + "x", WORD.upper()])
def test_a_stranger_gets_nothing(word: str, port: int, folder: Path) -> None:
    said = ((KEY, word),) if word else ()
    digest = hashlib.sha256(b"x").hexdigest()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        api = api_pb2_grpc.StorageServiceStub(channel)  # type: ignore[no-untyped-call]
        calls = {
            "studies": lambda: api.GetAllStudies(api_pb2.GetAllStudiesRequest(), metadata=said),
            "create": lambda: api.CreateNewStudy(
                api_pb2.CreateNewStudyRequest(directions=[0], study_name="mine"), metadata=said),
            "delete": lambda: api.DeleteStudy(api_pb2.DeleteStudyRequest(study_id=0), metadata=said),
            "has": lambda: channel.unary_unary(f"/{SERVICE}/Has")(digest.encode(), metadata=said),
            "put": lambda: channel.stream_unary(f"/{SERVICE}/Put")(iter([digest.encode(), b"x"]), metadata=said),
            "get": lambda: channel.unary_stream(f"/{SERVICE}/Get")(digest.encode(), metadata=said),
        }  # fmt: skip
        assert {name: code_of(call) for name, call in calls.items()} == dict.fromkeys(calls, "UNAUTHENTICATED")
    assert not (folder / "s.journal.files").exists() and not (folder / "s.journal").read_bytes()


def test_the_token_opens(port: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="token is missing or wrong"):
        open_storage(url(port))
    with pytest.raises(StorageError, match="token is missing or wrong"):
        GrpcFiles(url(port)).has("0" * 64)
    (tmp_path / "word").write_text(f"{WORD}\n")
    monkeypatch.setenv(TOKEN_FILE, str(tmp_path / "word"))
    optuna.create_study(storage=open_storage(url(port)), study_name="a")
    monkeypatch.delenv(TOKEN_FILE)
    monkeypatch.setenv(TOKEN, WORD)
    assert study_names(open_storage(url(port))) == ["a"]
    files, digest = GrpcFiles(url(port)), hashlib.sha256(b"data").hexdigest()
    files.put(digest, [b"da", b"ta"])
    assert files.has(digest) and b"".join(files.get(digest)) == b"data"


@pytest.mark.parametrize("name", ["../../x", "/etc/passwd", "..", "", "a" * 63, "A" * 64, "a/" * 32, "\0" * 64])
def test_no_name_is_a_path(name: str, port: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN, WORD)
    (folder.parent / "x").write_text("secret")
    before = sorted(folder.parent.rglob("*"))
    files = GrpcFiles(url(port))
    assert not files.has(name)
    with pytest.raises(StorageError):
        files.put(name, [b"evil"])
    with pytest.raises(StorageError):
        b"".join(files.get(name))
    assert sorted(folder.parent.rglob("*")) == before and (folder.parent / "x").read_text() == "secret"


def test_a_flood_of_files_ends_at_the_limit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "FILES", 3_000_000)
    monkeypatch.setenv(TOKEN, WORD)
    server, port = serve(f"journal:{folder}/s.journal", "127.0.0.1", 0, lambda port: WORD)
    try:
        files, took = GrpcFiles(url(port)), 0
        for number in range(6):
            data = bytes([number]) * 1_000_000
            try:
                files.put(hashlib.sha256(data).hexdigest(), [data])
                took += 1
            except StorageError as error:
                assert "accepts no more files" in error.message
        assert took == 3
        with pytest.raises(StorageError, match="accepts no more"):  # without an end
            files.put("0" * 64, iter(lambda: b"x" * 100_000, b""))
        held = FolderFiles(folder / "s.journal.files")
        assert held.size() <= 3_000_000 and not list((folder / "s.journal.files").glob("*.part"))
    finally:
        server.stop(None).wait()


def test_altered_files_cost_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "FILES", 1_500_000)
    monkeypatch.setenv(TOKEN, WORD)
    server, port = serve(f"journal:{folder}/s.journal", "127.0.0.1", 0, lambda port: WORD)
    try:
        files = GrpcFiles(url(port))
        for _ in range(4):
            with pytest.raises(StorageError):
                files.put("0" * 64, [b"x" * 1_000_000])
        data = b"y" * 1_000_000
        files.put(hashlib.sha256(data).hexdigest(), [data])
    finally:
        server.stop(None).wait()


def test_one_file_that_two_put_at_once_counts_once(folder: Path) -> None:
    quota, files, both = Quota(3_000_000, 0), FolderFiles(folder / "files"), threading.Barrier(2, timeout=PATIENCE)
    data, other = b"y" * 1_000_000, b"z" * 2_000_000

    def slowly() -> Iterator[bytes]:
        both.wait()  # neither is there yet
        yield data

    def put() -> None:
        quota.put(files, hashlib.sha256(data).hexdigest(), slowly())

    beside = threading.Thread(target=put)
    beside.start()
    put()
    beside.join()
    quota.put(files, hashlib.sha256(other).hexdigest(), iter([other]))
    with pytest.raises(QuotaError):
        quota.put(files, hashlib.sha256(b"x").hexdigest(), iter([b"x"]))


def test_a_message_has_a_limit(port: int) -> None:
    said = ((KEY, WORD),)

    def large() -> Iterator[bytes]:
        yield b"0" * 64
        yield b"x" * (17 << 20)

    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        put = channel.stream_unary(f"/{SERVICE}/Put")
        assert code_of(lambda: put(large(), metadata=said, timeout=PATIENCE)) == "RESOURCE_EXHAUSTED"
        assert code_of(lambda: channel.unary_unary(f"/{SERVICE}/Has")(b"x" * (17 << 20), metadata=said)) != "OK"


def test_why_a_port_cannot_be_had_is_what_the_system_says(folder: Path) -> None:
    url = f"journal://{folder}/s.journal"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(StorageError, match=rf"Port {port} of 127.0.0.1 cannot be used \(Address already in use\)"):
            serve(url, "127.0.0.1", port, lambda bound: "")
    with pytest.raises(StorageError, match=r"192\.0\.2\.1 is no address of this machine"):
        serve(url, "192.0.2.1", 0, lambda bound: "")


def test_the_token_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    word = served_token(4444)
    path = token_file(4444)
    assert len(word) >= 32 and served_token(4444) == word and word in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert served_token(4445) != word
    path.chmod(0o644)  # others may have read it
    assert served_token(4444) != word
    monkeypatch.setenv(TOKEN, "short")
    with pytest.raises(StorageError, match="is invalid"):
        served_token(4444)


def test_the_command_asks_for_its_token(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of this user on this machine a client needs none; another has none."""
    seen: dict[str, Any] = {}

    def look() -> None:
        address = capsys.readouterr().err.partition("grpc://127.0.0.1:")[2]
        port = int(address.partition(".")[0].split()[0])
        seen["word"] = token_file(port).read_text().strip()
        seen["names"] = study_names(open_storage(url(port)))
        monkeypatch.setenv("ESPALIER_STATE", str(folder / "other"))
        with pytest.raises(StorageError, match="token"):
            open_storage(url(port))

    monkeypatch.setattr("espalier.app.features.search.commands.serve_storage._wait", look)
    assert main(["serve-storage", "--storage", f"journal:{folder}/s.journal", "--port", "0"]) == 0
    assert seen["names"] == [] and seen["word"] not in (folder / "s.journal").read_text()
