"""Where trainings that have not ended keep their checkpoints, and which there are. No torch: the window asks too.

A folder is named by what decides the result (input graph, options, seed), so the same training finds it again,
in another process and another working folder.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xxhash

from espalier.model.borders import tried
from espalier.model.document.codec import encode
from espalier.model.document.graph_json import fingerprint
from espalier.model.graph.graph import Graph
from espalier.model.private import own_folder
from espalier.passes.training.options import FinetuneOptions

VERSION = 1  # raise it when a checkpoint would hold something else
DAYS = 30  # that a checkpoint is kept for a training that nobody goes on with
INDIFFERENT = ("checkpoint_every", "resume")  # options that change nothing of the result
STATE, TENSORS = "state.json", "tensors.safetensors"
COPIED = "copied"  # file of a working folder: when the newest whole copy of its document was begun, by time.monotonic
ARRIVING = 0.5  # seconds that a result may need from the worker into the document
_ended: list[Path] | None = None  # trainings whose results are not saved yet; None: nobody saves them


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A training that stopped at `step` of `steps`; `written`: seconds since 1970."""

    folder: Path
    step: int
    steps: int
    written: float


def home() -> Path:
    """`training` in the program's own state."""
    return own_folder("state") / "training"


def folder_of(graph: Graph, options: FinetuneOptions, seed: int, base: Graph | None = None) -> Path:
    """The folder of the checkpoints of one training; `base` counts where it learns from the baseline."""
    told: dict[str, Any] = encode(options)
    facts = {k: v for k, v in told.items() if k not in INDIFFERENT}
    teacher = fingerprint(base) if base is not None and options.teaches else ""
    text = json.dumps([VERSION, fingerprint(graph), facts, seed, teacher], sort_keys=True)
    return home() / xxhash.xxh3_128_hexdigest(text.encode())


def unfinished(graph: Graph, options: FinetuneOptions, seed: int, base: Graph | None = None) -> Unfinished | None:
    """What is left of the same training, where it was broken off."""
    folder = latest(folder_of(graph, options, seed, base))
    return None if folder is None else _read(folder)


def latest(home_of_one: Path) -> Path | None:
    """The newest complete checkpoint among those of one training."""
    found = [p for p in home_of_one.glob("step-*") if p.name[5:].isdigit() and (p / STATE).is_file()]
    return max(found, key=lambda p: p.name, default=None)


def _read(folder: Path) -> Unfinished | None:
    def read() -> Unfinished:
        held: dict[str, Any] = json.loads((folder / STATE).read_text())
        return Unfinished(folder, int(held["step"]), int(held["steps"]), (folder / STATE).stat().st_mtime)

    return tried(read, None)


def discard(graph: Graph, options: FinetuneOptions, seed: int, base: Graph | None = None) -> None:
    """Forget the checkpoints of a training, so that it begins anew."""
    clear(folder_of(graph, options, seed, base))


def clear(folder: Path) -> None:
    """Delete a folder of checkpoints; what cannot be deleted stays."""
    shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def until_saved() -> Generator[list[Path]]:
    """Trainings that end within it keep their checkpoints; whoever has saved their results clears what it yields."""
    global _ended
    before, _ended = _ended, (found := list[Path]())
    try:
        yield found
    finally:
        _ended = before


def end(folder: Path) -> None:
    """A training has its result: its checkpoints go, now or when that is saved."""
    if _ended is None:
        clear(folder)
    else:
        _ended.append(folder)


def note_copied(workdir: Path, begun: float) -> None:
    """A copy of the document of this working folder was begun then, and is whole; told by who wrote it."""
    with contextlib.suppress(OSError):
        (workdir / COPIED).write_text(str(begun))


def is_copied(workdir: Path, ended: float) -> bool:
    """Whether what ended then is kept elsewhere than in checkpoints, or nobody wants it: its document is closed."""
    if not workdir.exists():
        return True
    return tried(lambda: float((workdir / COPIED).read_text()), 0.0) > ended + ARRIVING


def clear_old() -> None:
    """Delete what has been left for long."""
    limit = time.time() - DAYS * 24 * 3600
    for folder in home().glob("*"):
        with contextlib.suppress(OSError):
            if max(p.stat().st_mtime for p in (folder, *folder.glob("*"))) < limit:
                clear(folder)
