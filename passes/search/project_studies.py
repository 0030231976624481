"""Studies of a project: members `studies/NAME.journal` of its file, and journals in the document's working folder.

A search writes the journal; what is saved is a copy of its whole lines.
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
MOST_NAME = 240  # characters, with the ending; beside it lie locks of longer names


def member(name: str) -> str:
    """The member of a study; any name makes a valid one."""
    return f"{FOLDER}{quote(name, safe=' ()+,;=@')}{ENDING}"


def name_of(member_or_file: str) -> str:
    """The study in a member or a file."""
    return unquote(Path(member_or_file).name.removesuffix(ENDING))


def path_for(workdir: Path, name: str) -> Path:
    """Where the journal of a study lies while its document is open."""
    path = workdir / member(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def url_for(workdir: Path, name: str) -> str:
    """The storage of a study that is kept in its project."""
    return journal_url(path_for(workdir, name))


def unpack(extras: Mapping[str, bytes], workdir: Path) -> dict[str, Path]:
    """Write the studies of a project into its working folder; those that lie there already have gone on since.

    One whose name is too long for a file stays in the project alone.
    """
    found: dict[str, Path] = {}
    for held, data in sorted(extras.items()):
        if held.startswith(FOLDER) and held.endswith(ENDING):
            name = name_of(held)
            if len(Path(member(name)).name) > MOST_NAME:
                continue
            path = found[name] = path_for(workdir, name)
            if not path.exists():
                write_bytes(path, data, ProjectError)
    return found


def pack(path: Path) -> bytes:
    """A journal as it is now, without a line that is being written."""
    data = path.read_bytes()
    return data[: data.rfind(b"\n") + 1]


def packed(workdir: Path) -> dict[str, bytes]:
    """All studies in a working folder, by member."""
    folder = workdir / FOLDER
    files = sorted(folder.glob(f"*{ENDING}")) if folder.is_dir() else []
    return {member(name_of(f.name)): pack(f) for f in files if not f.name.startswith(".")}
