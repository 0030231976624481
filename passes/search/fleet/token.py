"""The token of a storage server: created at its first start in a file that only its user may read, and given to
workers by an environment variable or a file.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path

from espalier.model.errors import StorageError
from espalier.model.files import write_private
from espalier.model.private import private_folder
from espalier.passes.training.checkpoint_folders import home

TOKEN, TOKEN_FILE = "ESPALIER_TOKEN", "ESPALIER_TOKEN_FILE"
KEY = "espalier-token"  # in the metadata of each call
MIN_LENGTH, MAX_LENGTH = 16, 512  # characters
LOOPBACK = ("localhost", "127.0.0.1", "[::1]", "::1")
HOW = f"Set {TOKEN} to the token that serve-storage printed, or {TOKEN_FILE} to a file with it."


def token_file(port: int) -> Path:
    """The file with the token of the server at a port of this machine."""
    return home().parent / "studies" / f"served-{port}.token"


def environment_token() -> str:
    """The token from the environment, or from the file that it names; raises StorageError for an invalid one."""
    path = os.environ.get(TOKEN_FILE, "")
    token = os.environ.get(TOKEN, "")
    if path and not token:
        token = _read(Path(path))
        if not token:
            raise StorageError(f"The file {path!r} of {TOKEN_FILE} contains no token.", HOW)
    valid = token.isascii() and token.isprintable() and " " not in token
    if token and not (valid and MIN_LENGTH <= len(token) <= MAX_LENGTH):
        raise StorageError(f"The token of {TOKEN} is invalid.",
                           f"Use {MIN_LENGTH} to {MAX_LENGTH} ASCII letters, digits and signs.")  # fmt: skip
    return token


def _read(path: Path) -> str:
    with contextlib.suppress(OSError, UnicodeDecodeError), path.expanduser().open(encoding="utf-8") as file:
        return file.read(MAX_LENGTH + 2).strip()
    return ""


def served_token(port: int) -> str:
    """The token of the server at `port` of this machine, created if missing; raises OSError, StorageError."""
    if token := environment_token():
        return token
    path = token_file(port)
    private_folder(path.parent)
    token = _read(path) if path.exists() and not stat.S_IMODE(path.stat().st_mode) & 0o077 else ""
    if len(token) < MIN_LENGTH:
        token = secrets.token_urlsafe(24)
        write_private(path, token + "\n")
    return token


def client_token(host: str, port: int) -> str:
    """The token for the server at this address: from the environment or, on this machine, from the server's file."""
    return environment_token() or (_read(token_file(port)) if host in LOOPBACK else "")


def metadata(host: str, port: int) -> tuple[tuple[str, str], ...]:
    """The token as gRPC metadata."""
    token = client_token(host, port)
    return ((KEY, token),) if token else ()


def refused(url: str) -> StorageError:
    """The error of a client without the token."""
    return StorageError(f"{url} refuses this client: its token is missing or wrong.", HOW)
