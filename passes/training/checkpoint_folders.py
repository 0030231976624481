"""Folders of training checkpoints, and the interrupted trainings in them. No torch, for the window.

A folder's name is a hash of all that decides the result (input graph, options, seed), so the same training resumes
in any process and working folder.
"""

from __future__ import annotations

import contextlib
import json
import math
import shutil
import time
from collections.abc import Generator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import xxhash

from espalier.model.borders import tried
from espalier.model.document.codec import encode
from espalier.model.document.graph_json import fingerprint
from espalier.model.graph.graph import Graph
from espalier.model.private import own_folder
from espalier.passes.training.options import FinetuneOptions

VERSION = 1  # increment when the content of a checkpoint changes
DAYS = 30  # after which an unused checkpoint is deleted
INDIFFERENT = ("checkpoint_every", "resume", "distributed")  # options that do not change the result
STATE, TENSORS, SHARDS = "state.json", "tensors.safetensors", "shards"
FINISHED = "finished-"  # a file of the document's working folder: a training's folder, and when it had ended
ARRIVING = 0.5  # maximum seconds of a result's transfer from the worker to the document
_ended: list[Path] | None = None  # finished trainings whose results are not saved yet; None outside `until_saved`


@dataclass(frozen=True, slots=True)
class InterruptedRun:
    """An interrupted training at `step` of `steps`; `written`: seconds since 1970."""

    folder: Path
    step: int
    steps: int
    written: float


def home() -> Path:
    """`training` in the program's own state."""
    return own_folder("state") / "training"


def folder_of(graph: Graph, options: FinetuneOptions, seed: int, base: Graph | None = None) -> Path:
    """Checkpoint folder of a training; `base` matters if it distils from the baseline, shardings do not."""
    encoded: dict[str, Any] = encode(options)
    facts = {k: v for k, v in encoded.items() if k not in INDIFFERENT and (k != "task" or v)}
    teacher = fingerprint(base) if base is not None and options.teaches else ""
    text = json.dumps([VERSION, fingerprint(_whole(graph)), facts, seed, teacher], sort_keys=True)
    return home() / xxhash.xxh3_128_hexdigest(text.encode())


def _whole(graph: Graph) -> Graph:
    """The graph without shardings: a training resumes on any mesh."""
    return graph.replace(*(replace(n, sharding=None) for n in graph if n.sharding))


def interrupted_run(
    graph: Graph, options: FinetuneOptions, seed: int, base: Graph | None = None
) -> InterruptedRun | None:
    """The interrupted run of a training, or None."""
    folder = latest(folder_of(graph, options, seed, base))
    return None if folder is None else _read(folder)


def latest(folder: Path) -> Path | None:
    """The newest complete checkpoint in a training's folder."""
    complete = [p for p in folder.glob("step-*") if p.name[5:].isdigit() and (p / STATE).is_file()]
    return max(complete, key=lambda p: p.name, default=None)


def _read(folder: Path) -> InterruptedRun | None:
    def read() -> InterruptedRun:
        state: dict[str, Any] = json.loads((folder / STATE).read_text())
        return InterruptedRun(folder, int(state["step"]), int(state["steps"]), (folder / STATE).stat().st_mtime)

    return tried(read, None)


def discard(graph: Graph, options: FinetuneOptions, seed: int, base: Graph | None = None) -> None:
    """Delete the checkpoints of a training."""
    clear(folder_of(graph, options, seed, base))


def clear(folder: Path) -> None:
    """Delete a folder of checkpoints, ignoring errors."""
    shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def until_saved() -> Generator[list[Path]]:
    """Keep the checkpoints of trainings that finish within the context; yields their folders, to be cleared once the
    results are saved."""
    global _ended
    before, _ended = _ended, (folders := list[Path]())
    try:
        yield folders
    finally:
        _ended = before


def end(folder: Path) -> None:
    """Clear the folder of a finished training, or add it to `until_saved`."""
    if _ended is None:
        clear(folder)
    else:
        _ended.append(folder)


def note_finished(workdir: Path, folder: Path, ended: float) -> None:
    """Record in the document's working folder that a training has ended, at `ended` by time.monotonic.

    The process that trained may end before the result is saved; without a document nobody wants the checkpoints.
    """
    try:
        (workdir / f"{FINISHED}{folder.name}").write_text(str(ended))
    except OSError:
        if not workdir.exists():
            clear(folder)


def clear_finished(workdir: Path, copied: float) -> None:
    """Delete the checkpoints of finished trainings whose results are in a copy of the document.

    `copied`: start of a complete copy by time.monotonic; math.inf: the document is closed.
    """
    with contextlib.suppress(OSError):  # the folder may be deleted meanwhile
        for note in list(workdir.glob(f"{FINISHED}*")):
            if copied > _ended_at(note) + ARRIVING:
                folder = home() / note.name.removeprefix(FINISHED)
                if not _goes_on(folder, note):
                    clear(folder)
                note.unlink(missing_ok=True)


def _ended_at(note: Path) -> float:
    return tried(lambda: float(note.read_text()), math.inf)


def _goes_on(folder: Path, note: Path) -> bool:
    """Whether the same training runs again since it was noted."""
    last = latest(folder)
    run = None if last is None else _read(last)
    return run is not None and run.written > tried(lambda: note.stat().st_mtime, math.inf)


def clear_old() -> None:
    """Delete folders unused for DAYS."""
    limit = time.time() - DAYS * 24 * 3600
    for folder in home().glob("*"):
        with contextlib.suppress(OSError):
            if max(p.stat().st_mtime for p in (folder, *folder.glob("*"))) < limit:
                clear(folder)
