"""What windows that ended before they saved have left, and edits of one that lives."""

from __future__ import annotations

import json
from pathlib import Path

from espalier.app.session.edit_journal import ENDING
from espalier.app.session.session import Session
from espalier.model.document.project import recipe_to_json
from espalier.model.document.recipe import Recipe
from espalier.passes.base import NoOptions
from espalier.passes.jobs.kinds import OpenResult
from tests.gui.conftest import FakeRunner, small_project


def open_small(session: Session, runner: FakeRunner) -> None:
    session.open("demo:small")
    runner.finish(OpenResult(small_project(), {}, (), {}))


def edit(session: Session) -> None:
    session.run_pass("remove_dropout", NoOptions())


EMPTY = Recipe()


NOTE = {"title": "a.espalier", "path": "", "source": "", "opened": "a.espalier", "version": ""}


def left_behind(folder: Path, number: int = 1, recipe: Recipe = EMPTY, **subject: str) -> Path:
    """A copy and a journal of a window that is gone; returns the copy."""
    file = folder / f"{number}.espalier"
    file.write_bytes(b"")
    begin = {"begin": {**NOTE, "path": str(folder / "a.espalier"), **subject}}
    line = {"edit": "Remove dropout", "when": 1e9 + number, "waiting": [], "recipe": recipe_to_json(recipe)}
    file.with_suffix(ENDING).write_text(f"{json.dumps(begin)}\n{json.dumps(line)}\n")
    return file
