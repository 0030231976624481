"""Studies of a project: members `studies/NAME.journal` of its file, and journals in the document's working folder.

A search writes the journal; saving a project copies its complete lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, unquote

from espalier.model.errors import ProjectError
from espalier.model.files import write_bytes
from espalier.passes.search.storage import journal_url

FOLDER = "studies/"
ENDING = ".journal"
MAX_NAME = 240  # characters of a file name with its ending; its lock files have longer names


def member(name: str) -> str:
    """The zip member of a study; valid for any name."""
    return f"{FOLDER}{quote(name, safe=' ()+,;=@')}{ENDING}"


def name_of(member_or_file: str) -> str:
    """The name of the study in a member or a file."""
    return unquote(Path(member_or_file).name.removesuffix(ENDING))


def path_for(workdir: Path, name: str) -> Path:
    """The path of a study's journal in the working folder; creates the folder."""
    path = workdir / member(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def url_for(workdir: Path, name: str) -> str:
    """The storage URL of a study of the project."""
    return journal_url(path_for(workdir, name))


def unpack(extras: Mapping[str, bytes], workdir: Path) -> dict[str, Path]:
    """Write the studies of a project into its working folder; returns name → path. Existing journals stay, as newer.

    A study whose name is too long for a file stays in the project alone.
    """
    paths: dict[str, Path] = {}
    for entry, data in sorted(extras.items()):
        if entry.startswith(FOLDER) and entry.endswith(ENDING):
            name = name_of(entry)
            if len(Path(member(name)).name) > MAX_NAME:
                continue
            path = paths[name] = path_for(workdir, name)
            if not path.exists():
                write_bytes(path, data, ProjectError)
    return paths


def pack(path: Path) -> bytes:
    """The complete lines of a journal, without one that is being written."""
    data = path.read_bytes()
    return data[: data.rfind(b"\n") + 1]


def packed(workdir: Path) -> dict[str, bytes]:
    """Zip member → journal, of all studies in a working folder."""
    folder = workdir / FOLDER
    files = sorted(folder.glob(f"*{ENDING}")) if folder.is_dir() else []
    return {member(name_of(f.name)): pack(f) for f in files if not f.name.startswith(".")}
