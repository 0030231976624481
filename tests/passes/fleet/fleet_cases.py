"""What tests of fleets share: a storage server, and a PostgreSQL of their own where its programs are installed."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from passes.search.fleet.serve import serve
from tests.patience import PATIENCE


@pytest.fixture
def server(tmp_path: Path) -> Generator[str]:
    """The address of a storage over gRPC, with a journal behind it."""
    found, port = serve(f"journal:{tmp_path}/served.journal", "127.0.0.1", 0)
    yield f"grpc://127.0.0.1:{port}"
    found.stop(None).wait()


def _programs() -> Path:
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    held = shutil.which("initdb")
    if not folders and not held:
        pytest.skip("PostgreSQL is not installed (apt-get install postgresql)")
    return folders[0] if folders else Path(held or "").parent


def _user() -> list[str]:
    """PostgreSQL refuses to run as root: then as its own user."""
    if os.getuid() != 0:
        return []
    try:
        pwd.getpwnam("postgres")
    except KeyError:
        pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]


@pytest.fixture(scope="module")
def postgres() -> Generator[str]:
    """The URL of an empty database in a cluster that goes with the tests."""
    programs, user = _programs(), _user()
    folder = Path(tempfile.mkdtemp(prefix="espalier-pg-"))
    if user:
        shutil.chown(folder, "postgres")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def run(*words: str) -> None:
        subprocess.run([*user, *words], check=True, capture_output=True, cwd=folder, timeout=PATIENCE)

    run(f"{programs}/initdb", "-D", f"{folder}/data", "-U", "tests", "-A", "trust", "--no-sync")
    options = f"-p {port} -k {folder} -h 127.0.0.1 -F"
    run(f"{programs}/pg_ctl", "-D", f"{folder}/data", "-o", options, "-l", f"{folder}/log", "-w", "start")
    try:
        run(f"{programs}/createdb", "-h", "127.0.0.1", "-p", str(port), "-U", "tests", "studies")
        yield f"postgresql://tests@127.0.0.1:{port}/studies"
    finally:
        run(f"{programs}/pg_ctl", "-D", f"{folder}/data", "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)
