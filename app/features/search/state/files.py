"""The files of a study while its document is open, and recovery after a crash of the window.

Each trial is on disk before it is shown: the worker writes the journal, the window the record beside it. A note
in the data folder holds their paths, so that the next window finds them.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import threading
from collections.abc import Callable, Container, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.app import file_claims
from espalier.app.locks import Locked, hold, take
from espalier.app.settings import data_folder
from espalier.model.borders import parse_json, read_bytes, tried
from espalier.model.document.document import Document
from espalier.model.errors import FileError
from espalier.model.files import append, write_bytes, write_text
from espalier.model.leftovers import SCRATCH, WINDOW, clear_parts, clear_scratch
from espalier.passes.jobs.kinds import Failed, JobEvent, SaveJob, Stopped
from espalier.passes.search import project_studies
from espalier.passes.search.record import ENDING, Record, load
from espalier.passes.search.trial import Trial

if TYPE_CHECKING:
    from espalier.app.session.session import Session

_NOTES: dict[tuple[Path, str], Locked] = {}  # this process' notes by record and key, locked until the record is removed
# Held while a note of a crashed window is read or moved: the thread of `rescue` locks notes while a document opens.
_READING = threading.RLock()
_TARGETS: dict[Path, Path] = {}  # working folder → file that the document is being saved to


def rescue() -> None:
    """Keep the results of crashed windows; delete their working folders and incomplete copies."""
    folder = data_folder("studies")
    for note in folder.glob("*.json"):
        with _READING, contextlib.suppress(OSError, FileError):
            if (leftover := take(note)) is None:
                continue
            path = _read(note)
            if path is not None and path.exists() and folder not in path.parents:
                home, facts = folder / note.stem, _facts(note)
                home.mkdir(mode=0o700, exist_ok=True)
                for file in (path, _journal(path)):
                    if file.exists():
                        write_bytes(home / file.name, file.read_bytes())
                write_text(note, json.dumps({**facts, "record": str(home / path.name)}), mode=0o600)
            leftover.release()
    clear_parts(data_folder("recovery"))
    file_claims.clean_up()
    for prefix in (WINDOW, SCRATCH):  # including the worker's
        clear_scratch(prefix)


class Copies:
    """Copies of journals for the project, read incrementally."""

    def __init__(self) -> None:
        self._copies: dict[Path, bytearray] = {}

    def keep(self, document: Document, name: str) -> None:
        """Store the complete lines of a study's journal in the project."""
        path = project_studies.path_for(document.store.folder, name)
        copy = self._copies.setdefault(path, bytearray())
        with contextlib.suppress(OSError), path.open("rb") as file:
            if os.fstat(file.fileno()).st_size < len(copy):
                copy.clear()
            file.seek(len(copy))
            data = file.read()
            copy += data[: data.rfind(b"\n") + 1]
        if copy:
            document.keep(project_studies.member(name), bytes(copy))

    def forget(self) -> None:
        """Discard all copies, for another document."""
        self._copies.clear()


def record_path(workdir: Path, name: str) -> Path:
    """Path of the record of a study while its document is open."""
    path = project_studies.path_for(workdir, name)
    return path.with_name(path.name.removesuffix(project_studies.ENDING) + ENDING)


def begin_record(path: Path, data: bytes, key: str, document: Document) -> bool:
    """Write a record, and a note with its path and document; returns False on errors."""
    with contextlib.suppress(OSError, FileError):  # without the note only a crash loses trials
        write_bytes(path, data)
        let_go()
        if (path, key) in _NOTES:
            return True
        note = data_folder("studies") / f"{key}-{secrets.token_hex(8)}.json"
        if lock := hold(note):
            _write(lock, path, document)
            _NOTES[path, key] = lock
            return True
    return False


def follow_saves(session: Session) -> None:
    """Note the file of the document at the start, failure and end of a save."""

    def heard(job_event: JobEvent) -> None:
        if (
            isinstance(job_event.job.job, SaveJob)
            and not job_event.job.job.copy
            and isinstance(job_event.event, Failed | Stopped)
        ):
            follow_name(session.document)

    session.writing.connect(lambda path: follow_name(session.document, path))
    session.saved.connect(lambda: follow_name(session.document))
    session.job_event.connect(heard)


def follow_name(document: Document | None, target: Path | None = None) -> None:
    """Note the document's file, by which studies that started after a save are recovered.

    `target`: the file being saved to, since the window may crash before it learns that the save is complete.
    """
    if document:
        _TARGETS.pop(document.store.folder, None)
        if target:
            _TARGETS[document.store.folder] = target
    for (path, _), note in _NOTES.items():
        if document and document.store.folder in path.parents:
            with contextlib.suppress(OSError):
                _write(note, path, document)


def _write(note: Locked, path: Path, document: Document) -> None:
    """Append a line; after a crash the last complete line is valid."""
    facts = {"record": str(path), "of": _named(document)}
    if target := _TARGETS.get(document.store.folder):
        facts["soon"] = [str(target), document.project.source.spec]
    os.write(note.handle, f"{json.dumps(facts)}\n".encode())


def _facts(note: Path) -> dict[str, Any]:
    """The content of the last complete line of a note; raises ValueError without one."""
    for line in reversed(read_bytes(note).splitlines()):
        with contextlib.suppress(ValueError):
            return parse_json(line)
    raise ValueError(f"{note.name} says nothing.")


def let_go() -> None:
    """Remove the notes of deleted records."""
    for paths in [paths for paths in _NOTES if not paths[0].exists()]:
        lock = _NOTES.pop(paths)
        lock.path.unlink(missing_ok=True)
        lock.release()


def add_line(path: Path, line: str) -> None:
    """Append a trial to a record."""
    with contextlib.suppress(FileError):
        append(path, f"{line}\n".encode())


def recovered(key: str, workdir: Path, name: str, known_count: int) -> tuple[tuple[Trial, ...], Callable[[], None]]:
    """The trials of a study from a crashed window, if more of them have ended than `known_count`.

    Its journal replaces that of the project, so that the search continues from there. The returned function removes
    the note once the trials are stored elsewhere.
    """
    found: tuple[Trial, ...] = ()
    done = list[Locked]()
    with _READING:
        for note in data_folder("studies").glob("*.json"):
            if (leftover := take(note)) is None:
                continue  # in use by another window
            path = _read(note)
            if path is None or not path.exists():
                _forget(note)  # closed regularly
            elif key and note.name.startswith(f"{key}-"):
                trials = _trials(path)
                journal = _journal(path)
                if ended(trials) > max(known_count, ended(found)) and journal.exists():
                    found = trials
                    write_bytes(project_studies.path_for(workdir, name), journal.read_bytes())
                done.append(leftover)
                continue
            leftover.release()
    return found, lambda: _forget_all(done)


def ended(trials: Iterable[Trial]) -> int:
    """Number of trials with a result; trials that were running at a save may have ended since."""
    return sum(t.state != "running" for t in trials)


def _forget_all(notes: Iterable[Locked]) -> None:
    for note in notes:
        _forget(note.path)
        note.release()


def unsaved(document: Document, known_keys: Container[str]) -> dict[str, Record]:
    """Studies of a document by name that a crashed window started and did not save, without their trials.

    `known_keys`: keys of the document's studies.
    """
    records: dict[str, Record] = {}
    with _READING:
        for note in data_folder("studies").glob("*.json"):
            key = note.name.partition("-")[0]
            if key in known_keys or (leftover := take(note)) is None:
                continue
            path = _read(note)
            facts = tried(lambda n=note: _facts(n), {})
            if path and path.exists() and _named(document) in (facts.get("of"), facts.get("soon")):
                record = tried(lambda p=path: load(p.read_bytes()), None)
                if record and any(t.state != "running" for t in record.trials) and _journal(path).exists():
                    records[record.spec.study] = replace(record, trials=())
            leftover.release()
    return records


def _named(document: Document) -> list[str]:
    """The identity of a document."""
    return [str(document.path or ""), document.project.source.spec]


def _journal(record: Path) -> Path:
    """The study's journal beside its record."""
    return record.with_name(record.name.removesuffix(ENDING) + project_studies.ENDING)


def _forget(note: Path) -> None:
    shutil.rmtree(note.with_suffix(""), ignore_errors=True)
    note.unlink(missing_ok=True)


def _read(note: Path) -> Path | None:
    return tried(lambda: Path(_facts(note)["record"]), None)


def _trials(path: Path) -> tuple[Trial, ...]:
    return tried(lambda: load(path.read_bytes()).trials, ())
