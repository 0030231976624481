"""Tuned launch settings, stored in a file per GPU, so that a kernel is tuned once per type of shape."""

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
_known: dict[str, Config] = {}
_quick: dict[str, Config] = {}  # of this process and card, without the file
_read: set[str] = set()


def bucket(**sizes: int) -> str:
    """Sizes by the next power of two: what is tuned together."""
    return ",".join(f"{k}={1 << max(v - 1, 0).bit_length()}" for k, v in sizes.items())


def tuned(key: str, device: str, candidates: Sequence[Config], call: Callable[[Config], Any]) -> Config:
    """The quickest of `candidates` for `key` on this card, tried once and kept; the first where Triton is interpreted.

    A candidate that the card has no room for is passed by.
    """
    if device != "cuda" or len(candidates) == 1:
        return candidates[0]
    known = _quick.get(key)
    if known is not None:
        return known
    card = f"{torch.cuda.get_device_name()}, triton {version('triton')}"
    if card not in _read:
        _read.add(card)
        _known.update({f"{card}|{k}": v for k, v in _stored(card).items()})
    full = f"{card}|{key}"
    if _known.get(full) not in candidates:
        _known[full] = _quickest(candidates, call)
        _keep(card)
    _quick[key] = _known[full]
    return _known[full]


def _quickest(candidates: Sequence[Config], call: Callable[[Config], Any]) -> Config:
    clock, best, least, last = Clock("cuda"), None, float("inf"), ""
    for config in candidates:
        try:
            clock.wall(lambda config=config: call(config))
            seconds = statistics.median(clock.pair(lambda config=config: call(config))[0] for _ in range(TRIES))
        except faults() as error:
            last = str(error)
            continue
        if seconds < least:
            best, least = config, seconds
    if best is None:
        raise RuntimeError(f"no launch setting fits this card: {last}")
    return best


def faults() -> tuple[type[Exception], ...]:
    """What Triton raises where a kernel does not fit or compile."""
    compiling = importlib.import_module("triton.compiler.errors").CompilationError
    return importlib.import_module("triton.runtime.errors").TritonError, compiling, RuntimeError


def table_path() -> Path:
    """Where the table lies."""
    return cache_folder().parent / "kernels.json"


def _stored(card: str) -> Mapping[str, Config]:
    """The table of a card; nothing where there is none or it cannot be read."""
    try:
        data = json.loads(table_path().read_text(encoding="utf-8"))
        return {str(k): {str(n): int(s) for n, s in v.items()} for k, v in data.get(card, {}).items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def _keep(card: str) -> None:
    """Write the table again, beside those of other cards; a folder that cannot be written costs only time."""
    path = table_path()
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        data = {}
    data = data if isinstance(data, dict) else {}
    held = data.get(card)  # others may have tuned since it was read
    ours = {k.partition("|")[2]: v for k, v in _known.items() if k.partition("|")[0] == card}
    data[card] = (held if isinstance(held, dict) else {}) | ours
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(data, indent=1))
    except (OSError, FileError):
        return
