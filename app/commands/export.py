"""`export`: hand the result on."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from app.commands.command import Answer, Arguments, Command, Parser
from app.commands.console import Console, size
from app.commands.opening import opened
from passes.export import FORMS, export


def _arguments(parser: Parser) -> None:
    parser.add_argument("target", metavar="PROJECT|SOURCE", help="the project")
    text = "safetensors: a folder with the weights as they compute; recipe: TOML or JSON; script: Python"
    parser.add_argument("--as", dest="form", required=True, choices=tuple(FORMS), help=text)
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the file or folder to write")


def _run(found: Arguments, console: Console) -> Answer:
    with opened(found.target, found, console) as target:
        done = export(target.project, target.store, found.form, Path(found.output))
    data: dict[str, Any] = {"files": list(done.files), "bytes": done.bytes, "notes": list(done.notes)}
    return Answer(data, lambda: _lines(data))


def _lines(data: dict[str, Any]) -> Iterable[str]:
    yield from data["files"]
    yield f"{size(data['bytes'])} in {len(data['files'])} {'file' if len(data['files']) == 1 else 'files'}"
    yield from (f"note: {n}" for n in data["notes"])


COMMAND = Command("export", "hands a project on as a checkpoint, a recipe or a script", _arguments, _run)
