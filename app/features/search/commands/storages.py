"""Check of a given storage before the model is opened, with a note while it does not answer."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator

from espalier.app.commands.console import Console
from espalier.model.errors import StorageError
from espalier.model.private import redacted
from espalier.passes.search.storage import damage_of, open_storage, scheme_of, study_names

PATIENCE = 2.0  # seconds until a note on a slow storage


@contextlib.contextmanager
def trying(url: str, console: Console) -> Generator[None]:
    """Context that prints a note if a storage takes long to answer."""
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
    """Raise StorageError if the storage cannot be reached, or has the study and `resume` is false."""
    with trying(url, console):
        storage = open_storage(url)
        from espalier.passes.search.empty_studies import remove_abandoned  # imports scipy, which --help does not need

        exists = study in study_names(storage) and not remove_abandoned(storage, study)
    if damage := damage_of(storage):
        console.note(damage)
    if exists and not resume:
        raise StorageError(f"The storage has a study {study!r} already.",
                           "Resume it (--resume), or give the search another name.")  # fmt: skip
