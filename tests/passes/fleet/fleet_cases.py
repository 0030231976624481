"""What tests of fleets share: a storage server, and a PostgreSQL of their own where its programs are installed."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Generator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from espalier.passes.search.fleet.serve import serve
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


@dataclass(frozen=True, slots=True)
class Cluster:
    """A PostgreSQL of the tests' own, with an empty database."""

    programs: Path
    user: list[str]
    folder: Path
    port: int

    @property
    def url(self) -> str:
        """Its database."""
        return f"postgresql://tests@127.0.0.1:{self.port}/studies"

    def run(self, program: str, *words: str) -> None:
        """One of its programs."""
        subprocess.run([*self.user, f"{self.programs}/{program}", *words], check=True, capture_output=True,
                       cwd=self.folder, timeout=PATIENCE)  # fmt: skip

    def start(self) -> None:
        """Until it answers."""
        options = f"-p {self.port} -k {self.folder} -h 127.0.0.1 -F"
        self.run("pg_ctl", "-D", f"{self.folder}/data", "-o", options, "-l", f"{self.folder}/log", "-w", "start")

    def stop(self) -> None:
        """At once, whoever is connected."""
        self.run("pg_ctl", "-D", f"{self.folder}/data", "-m", "immediate", "stop")


@pytest.fixture(scope="module")
def cluster() -> Generator[Cluster]:
    """One that goes with the tests."""
    programs, user = _programs(), _user()
    folder = Path(tempfile.mkdtemp(prefix="espalier-pg-"))
    if user:
        shutil.chown(folder, "postgres")
    made = Cluster(programs, user, folder, 0)
    made.run("initdb", "-D", f"{folder}/data", "-U", "tests", "-A", "trust", "--no-sync")
    with socket.socket() as free:  # as late as can be: another program may take the port
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    made = replace(made, port=port)
    made.start()
    try:
        made.run("createdb", "-h", "127.0.0.1", "-p", str(port), "-U", "tests", "studies")
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def postgres(cluster: Cluster) -> str:
    """The URL of an empty database."""
    return cluster.url
