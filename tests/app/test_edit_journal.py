"""The journal of unsaved edits, as a file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from espalier.app.locks import take
from espalier.app.session import edit_journal
from espalier.app.session.edit_journal import EditJournal, Subject, read
from espalier.model.document.arrangement import UNARRANGED, Arrangement, Frame, Pin
from espalier.model.document.recipe import Recipe


def test_a_version_is_noted_before_the_edits_that_it_belongs_to(tmp_path: Path) -> None:
    """A save may end between the beginning of a journal and its first edit, or after its end."""
    journal, subject = EditJournal(tmp_path), Subject("a", "a.espalier", "demo:small", "a.espalier", "1 2 3 4")
    journal.begin(subject)
    journal.note_version("1 5 3 4")
    journal.edit("Prune", Recipe(), ())
    journal.begin(subject)
    journal.edit("Prune", Recipe(), ())
    held = read(journal.path)
    assert held and held.versions == ("1 5 3 4",) and not held.damaged and held.subject == subject
    journal.delete()
    journal.note_version("1 6 3 4")
    assert not list(tmp_path.iterdir())


def test_a_long_journal_is_whole_until_another_has_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A death between its end and the first line of the next must leave one of the two."""
    monkeypatch.setattr(edit_journal, "MAX_BYTES", 100)
    journal, subject = EditJournal(tmp_path), Subject("a", "a.espalier", "demo:small", "a.espalier")
    journal.begin(subject)
    for number in range(3):
        journal.edit(f"Edit {number}", Recipe(), ())

    def kept() -> tuple[int, str]:
        held = read(journal.path)
        return (held.count, held.label) if held else (0, "")

    journal.begin(subject)
    assert journal.long and kept() == (3, "Edit 2")
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", full)
        journal.edit("Edit 3", Recipe(), ())
    assert journal.failed and kept() == (3, "Edit 2") and list(tmp_path.iterdir()) == [journal.path]
    journal.begin(subject)
    journal.edit("Edit 4", Recipe(), ())
    assert not journal.failed and kept() == (1, "Edit 4") and list(tmp_path.iterdir()) == [journal.path]
    assert take(journal.path) is None, "it is held as the one before was"
    journal.edit("Edit 5", Recipe(), ())
    assert kept() == (2, "Edit 5")
    journal.delete()
    assert not list(tmp_path.iterdir())


def full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_pins_and_frames_are_written_where_they_changed(tmp_path: Path) -> None:
    arranged = Arrangement((Pin("node", "fc1", 1.0, 2.0),), (Frame("a", ("fc1",)),))
    journal, subject = EditJournal(tmp_path), Subject("a", "a.espalier", "demo:small", "a.espalier")
    journal.begin(subject)
    for label, arrangement in (("Prune", UNARRANGED), ("Move fc1", arranged), ("Quantise", arranged)):
        journal.edit(label, Recipe(), (), arrangement)
    held = read(journal.path)
    assert held and (held.label, held.count, held.arrangement) == ("Quantise", 3, arranged)
    lines = [json.loads(line) for line in journal.path.read_bytes().splitlines()]
    assert ["arrangement" in line for line in lines] == [False, True, True, False]
    journal.begin(subject)
    journal.edit("Unpin all", Recipe(), (), UNARRANGED)
    held = read(journal.path)
    assert held and held.arrangement == UNARRANGED
    journal.delete()
