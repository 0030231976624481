"""Tuned launch settings, stored in a file per GPU, so that a kernel is tuned once per bucket of shapes."""

from __future__ import annotations

import importlib
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from espalier.kernels.bench.timing import Clock
from espalier.model.data.cache import cache_folder
from espalier.model.errors import FileError
from espalier.model.files import write_text

Config = dict[str, int]
TRIES = 7
_tuned: dict[str, Config] = {}
_quick: dict[str, Config] = {}  # cache of this process and GPU
_read: set[str] = set()


def bucket(**sizes: int) -> str:
    """The bucket of sizes that share settings: the next powers of two."""
    return ",".join(f"{k}={1 << max(v - 1, 0).bit_length()}" for k, v in sizes.items())


def tuned(key: str, device: str, candidates: Sequence[Config], call: Callable[[Config], Any]) -> Config:
    """The fastest of `candidates` for `key` on this GPU, measured once and stored; the first if Triton is interpreted.

    Candidates that exceed the GPU's resources are skipped.
    """
    if device != "cuda" or len(candidates) == 1:
        return candidates[0]
    config = _quick.get(key)
    if config is not None:
        return config
    card = f"{torch.cuda.get_device_name()}, triton {version('triton')}"
    if card not in _read:
        _read.add(card)
        _tuned.update({f"{card}|{k}": v for k, v in _stored(card).items()})
    full = f"{card}|{key}"
    if _tuned.get(full) not in candidates:
        _tuned[full] = _quickest(candidates, call)
        _store(card)
    _quick[key] = _tuned[full]
    return _tuned[full]


def _quickest(candidates: Sequence[Config], call: Callable[[Config], Any]) -> Config:
    clock, best, shortest, last = Clock("cuda"), None, float("inf"), ""
    for config in candidates:
        try:
            clock.wall(lambda config=config: call(config))
            seconds = statistics.median(clock.pair(lambda config=config: call(config))[0] for _ in range(TRIES))
        except triton_errors() as error:
            last = str(error)
            continue
        if seconds < shortest:
            best, shortest = config, seconds
    if best is None:
        raise RuntimeError(f"no launch setting fits this card: {last}")
    return best


def triton_errors() -> tuple[type[Exception], ...]:
    """Exceptions of Triton for a kernel that exceeds resources or does not compile."""
    compiling = importlib.import_module("triton.compiler.errors").CompilationError
    return importlib.import_module("triton.runtime.errors").TritonError, compiling, RuntimeError


def table_path() -> Path:
    """Path of the table of settings."""
    return cache_folder().parent / "kernels.json"


def _stored(card: str) -> Mapping[str, Config]:
    """The stored settings of a GPU; empty without a readable table."""
    try:
        data = json.loads(table_path().read_text(encoding="utf-8"))
        return {str(k): {str(n): int(s) for n, s in v.items()} for k, v in data.get(card, {}).items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def _store(card: str) -> None:
    """Write the table, keeping the entries of other GPUs; errors of the file system are ignored."""
    path = table_path()
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        data = {}
    data = data if isinstance(data, dict) else {}
    stored = data.get(card)  # another process may have written since it was read
    own_entries = {k.partition("|")[2]: v for k, v in _tuned.items() if k.partition("|")[0] == card}
    data[card] = (stored if isinstance(stored, dict) else {}) | own_entries
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(data, indent=1))
    except (OSError, FileError):
        return
