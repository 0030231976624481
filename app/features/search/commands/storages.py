"""A storage that is named is looked into before a model is opened, and who waits for it is told so."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator

from espalier.app.commands.console import Console
from espalier.model.errors import StorageError
from espalier.model.private import redacted
from espalier.passes.search.storage import damage_of, open_storage, scheme_of, study_names

PATIENCE = 2.0  # seconds until it is said that a storage does not answer


@contextlib.contextmanager
def trying(url: str, console: Console) -> Generator[None]:
    """Say that a storage is still tried, where that takes a while."""
    import optuna  # noqa: F401  # what it takes to import is no waiting for a storage

    doing = "Opening" if scheme_of(url) in ("journal", "sqlite") else "Trying to reach"
    timer = threading.Timer(PATIENCE, console.note, [f"{doing} {redacted(url)} …"])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def look_into(url: str, study: str, resume: bool, console: Console) -> None:
    """Raise StorageError where the storage cannot be reached, or has such a study that is not to go on."""
    with trying(url, console):
        storage = open_storage(url)
        from espalier.passes.search.empty_studies import remove_abandoned  # with scipy, which --help need not load

        exists = study in study_names(storage) and not remove_abandoned(storage, study)
    if damage := damage_of(storage):
        console.note(damage)
    if exists and not resume:
        raise StorageError(f"The storage has a study {study!r} already.",
                           "Resume it (--resume), or give the search another name.")  # fmt: skip
