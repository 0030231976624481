"""The working folder of a job: which segments are done, with what a later run needs to go on from there."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from espalier.model.document.graph_json import graph_from_json, graph_to_json
from espalier.model.errors import JobError, ProjectError
from espalier.model.files import make_folder, write_text
from espalier.model.graph.graph import Graph
from espalier.passes.base import Row
from espalier.passes.streaming.states import States

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None

NAME, SHARDS = "progress.json", "shards"
LAYOUT = 1
_SUBJECTS = {"source": "another model, or its files were changed", "recipe": "other steps or options",
             "data": "other data", "program": "another version of Espalier or its libraries"}  # fmt: skip


@dataclass(slots=True)
class Record:
    """`identity`: of the model, recipe, data and program. `done`: number of finished segments. By stage: `states` that
    the last one left, and `rows`. `results`: scores, once all segments are done. `non_finite`: as of
    `weight_checks`.
    """

    folder: Path
    identity: dict[str, str]
    done: int = 0
    states: list[list[States]] = field(default_factory=list[list[States]])
    rows: list[list[Row]] = field(default_factory=list[list[Row]])
    written: list[Row] = field(default_factory=list[Row])
    results: dict[str, Any] = field(default_factory=dict[str, Any])
    non_finite: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def shards(self) -> Path:
        """The folder that becomes the output."""
        return self.folder / SHARDS

    def save(self) -> None:
        """Write the record; raises ProjectError."""
        data = {"layout": LAYOUT, "identity": self.identity, "done": self.done, "rows": self.rows,
                "states": [[s.to_json() for s in stage] for stage in self.states], "written": self.written,
                "results": self.results, "non_finite": self.non_finite}  # fmt: skip
        write_text(self.folder / NAME, json.dumps(data) + "\n", ProjectError)

    def keep_graph(self, index: int, part: Graph) -> None:
        """Write a segment's graph; raises ProjectError."""
        write_text(self._graph_file(index), json.dumps(graph_to_json(part)), ProjectError)

    def graph(self, index: int) -> Graph:
        """The graph of a finished segment; raises ProjectError."""
        return graph_from_json(_read(self._graph_file(index), self.folder))

    def _graph_file(self, index: int) -> Path:
        return self.folder / f"segment-{index}.json"

    def clear_states(self) -> None:
        """Delete the states that no segment needs any more."""
        kept = {s.path.name for stage in self.states for s in stage}
        for file in self.folder.glob("states-*.bin"):
            if file.name not in kept:
                file.unlink(missing_ok=True)

    def remove(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


def open_record(folder: Path, identity: Mapping[str, str]) -> Record:
    """The record of a working folder, new where there is none.

    Raises ProjectError for a folder of another job, with other files or with a damaged record.
    """
    make_folder(folder, ProjectError)
    make_folder(folder / SHARDS, ProjectError)
    if not (folder / NAME).exists():
        strangers = [p.name for p in folder.iterdir() if p.name not in (SHARDS, "lock") and not p.name.startswith(".")]
        if any(not n.startswith(("states-", "segment-")) for n in strangers):
            raise ProjectError(f"{folder} holds other files ({strangers[0]}).", "Choose another working folder.")
        return Record(folder, dict(identity))
    data = _read(folder / NAME, folder)
    try:
        _check_identity(folder, dict(data["identity"]), identity, int(data["layout"]))
        states = [[States.from_json(s, folder) for s in stage] for stage in data["states"]]
        counts = {str(k): int(v) for k, v in dict(data.get("non_finite", {})).items()}
        return Record(folder, dict(identity), int(data["done"]), states, data["rows"], data["written"], data["results"],
                      counts)  # fmt: skip
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(folder) from error


def _check_identity(folder: Path, before: Mapping[str, str], now: Mapping[str, str], layout: int) -> None:
    changed = [k for k in _SUBJECTS if before.get(k) != now.get(k)] if layout == LAYOUT else ["program"]
    if changed:
        reasons = " and ".join(_SUBJECTS[k] for k in changed)
        raise ProjectError(f"{folder} holds an unfinished job with {reasons}.",
                           "Repeat its own command to finish it, or delete the folder to begin anew.")  # fmt: skip


def _read(path: Path, folder: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _damaged(folder) from error


def _damaged(folder: Path) -> ProjectError:
    return ProjectError(f"The record of the unfinished job in {folder} is damaged.",
                        "Delete the folder and run the command again.")  # fmt: skip


@contextlib.contextmanager
def alone_in(folder: Path) -> Generator[None]:
    """Lock a working folder; raises JobError while another process works in it."""
    make_folder(folder, ProjectError)
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT)
    try:
        if fcntl is not None:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise JobError(
                    f"Another process works in {folder}.", "Wait for its end, or choose another folder."
                ) from error
            except OSError:  # a file system without locks
                pass
        yield
    finally:
        os.close(handle)
