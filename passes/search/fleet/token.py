"""The word that a storage server asks its clients for: made at its first start, kept in a file that its user alone may
read, and handed to workers in the environment or as a file.
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
LEAST, MOST = 16, 512  # characters
LOOPBACK = ("localhost", "127.0.0.1", "[::1]", "::1")
HOW = f"Set {TOKEN} to what serve-storage printed, or {TOKEN_FILE} to a file that holds it."


def token_file(port: int) -> Path:
    """Where the token of the server at a port of this machine lies."""
    return home().parent / "studies" / f"served-{port}.token"


def given_token() -> str:
    """The token of the environment, or of the file that it names; raises StorageError where it cannot be one."""
    path = os.environ.get(TOKEN_FILE, "")
    token = os.environ.get(TOKEN, "")
    if path and not token:
        token = _read(Path(path))
        if not token:
            raise StorageError(f"The file {path!r} of {TOKEN_FILE} holds no token.", HOW)
    if token and not (LEAST <= len(token) <= MOST and token.isascii() and token.isprintable() and " " not in token):
        raise StorageError(f"The token of {TOKEN} cannot be used.",
                           f"Use {LEAST} to {MOST} ASCII letters, digits and signs.")  # fmt: skip
    return token


def _read(path: Path) -> str:
    with contextlib.suppress(OSError, UnicodeDecodeError), path.expanduser().open(encoding="utf-8") as file:
        return file.read(MOST + 2).strip()
    return ""


def served_token(port: int) -> str:
    """The token of the server at `port` of this machine, made where there is none; raises OSError, StorageError."""
    if token := given_token():
        return token
    path = token_file(port)
    private_folder(path.parent)
    held = _read(path) if path.exists() and not stat.S_IMODE(path.stat().st_mode) & 0o077 else ""
    if len(held) < LEAST:
        held = secrets.token_urlsafe(24)
        write_private(path, held + "\n")
    return held


def client_token(host: str, port: int) -> str:
    """What a client of the server at this address says; of this machine's own it finds it by itself."""
    return given_token() or (_read(token_file(port)) if host in LOOPBACK else "")


def metadata(host: str, port: int) -> tuple[tuple[str, str], ...]:
    """The same as gRPC takes it."""
    token = client_token(host, port)
    return ((KEY, token),) if token else ()


def refused(url: str) -> StorageError:
    """The error of a client without the token."""
    return StorageError(f"{url} refuses this client: its token is missing or wrong.", HOW)
