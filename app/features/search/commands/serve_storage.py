"""`serve-storage`: serves studies over the network, so that workers on any machine share them."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterable
from typing import Any

from espalier.app.commands.command import Answer, Arguments, Command, Parser, UsageError
from espalier.app.commands.console import Console, seconds
from espalier.app.features.search.commands.storages import trying
from espalier.model.private import private_folder, redacted
from espalier.passes.search.fleet.token import TOKEN, TOKEN_FILE, environment_token, served_token, token_file
from espalier.passes.search.storage import PORT, journal_url, open_storage, study_names
from espalier.passes.training.checkpoint_folders import home

DETAILS = f"""examples
  main.py serve-storage                                    a journal of its own, on this machine alone
  main.py serve-storage --storage journal:studies.journal --host 0.0.0.0
  main.py serve-storage --storage postgresql://me:secret@db/studies --port {PORT}
Then, on any machine that reaches it:
  main.py search P.espalier SPEC.toml --storage grpc://HOST:{PORT}
  main.py worker --storage grpc://HOST:{PORT} --study NAME
Clients must know its token, which it prints: workers of this user on this machine find it by themselves, others have it
in {TOKEN}, or in a file that {TOKEN_FILE} names. It hands projects over too: 10 GB in all, 16 MiB a message. Nothing is
encrypted: leave it on 127.0.0.1, or in a network that you trust; over others use ssh -L {PORT}:127.0.0.1:{PORT} HOST.
Ctrl+C ends it; studies, projects and token stay."""

OPEN = ("Nothing is encrypted: who can listen on this network reads the token, the studies and the projects, and can "
        "then change them. Use it in a network that you trust, or 127.0.0.1 and ssh -L.")  # fmt: skip


def _arguments(parser: Parser) -> None:
    parser.add_argument("--storage", metavar="URL", help="journal:FILE, sqlite:///FILE or postgresql://… "
                        "(default: a journal in Espalier's folder)")  # fmt: skip
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen at (default 127.0.0.1)")
    parser.add_argument("--port", type=int, default=PORT, help=f"the port (default {PORT}; 0: any that is free)")


def own_storage() -> str:
    """The default journal to serve."""
    folder = home().parent / "studies"
    private_folder(folder)
    return journal_url(folder / "served.journal")


def _run(arguments: Arguments, console: Console) -> Answer:
    from espalier.passes.search.fleet.serve import is_loopback, serve

    if not 0 <= arguments.port < 65536:
        raise UsageError(
            f"--port is {arguments.port}.", "It must be a number from 1 to 65535, or 0 for any that is free."
        )
    url = arguments.storage or own_storage()
    if url.startswith("grpc:"):
        raise UsageError("A gRPC storage is served already.", "Give workers its address.")
    _hush()
    with trying(url, console):
        tokens: list[str] = []
        server, port = serve(
            url, arguments.host, arguments.port, lambda port: tokens.append(served_token(port)) or tokens[0]
        )
    address = f"grpc://{arguments.host}:{port}"
    console.note(f"Serving {redacted(url)} at {address}. Ctrl+C ends it.")
    console.note(_about_token(tokens[0], port))
    if not is_loopback(arguments.host):
        console.note(OPEN)
    start = time.monotonic()
    _wait()
    server.stop(2).wait()
    took = time.monotonic() - start
    data: dict[str, Any] = {"storage": redacted(url), "address": address, "host": arguments.host, "port": port,
                            "studies": study_names(open_storage(url)), "seconds": round(took, 3)}  # fmt: skip
    return Answer(data, lambda: _lines(data))


def _about_token(token: str, port: int) -> str:
    """A note on the token; a given token is not printed."""
    if environment_token():
        return f"Clients must know the token of {TOKEN}."
    return f"Token: {token} (workers elsewhere need it in {TOKEN}; it lies in {token_file(port)})."


def _hush() -> None:
    """Silence Optuna, which logs each study and trial of every worker."""
    import optuna

    optuna.logging.disable_default_handler()


def _wait() -> None:
    """Wait until Ctrl+C or SIGTERM."""
    end = threading.Event()
    before = {s: signal.signal(s, lambda *_: end.set()) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        while not end.wait(0.5):
            pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _lines(data: dict[str, Any]) -> Iterable[str]:
    names = ", ".join(data["studies"]) or "none"
    yield f"Served {data['storage']} for {seconds(data['seconds'])}; studies: {names}."


COMMAND = Command("serve-storage", "serves studies to workers on any machine", _arguments, _run, DETAILS)
