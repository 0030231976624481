"""Stores the options of each model's last training, to resume it after a crash."""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path

from espalier.app.settings import data_folder
from espalier.model.borders import read_json, tried
from espalier.model.document.codec import decode, encode
from espalier.model.errors import FileError
from espalier.model.files import write_private
from espalier.passes.training.options import FinetuneOptions

MODELS = 50  # stored


def _file(spec: str) -> Path:
    return data_folder("trained") / f"{hashlib.sha256(spec.encode()).hexdigest()[:32]}.json"


def remember(spec: str, options: FinetuneOptions) -> None:
    """Store the options of a starting training; write errors are ignored."""
    with contextlib.suppress(OSError, FileError):
        write_private(_file(spec), json.dumps(encode(options)))
        files = sorted(data_folder("trained").glob("*.json"), key=lambda p: p.stat().st_mtime, reverse=True)
        for old in files[MODELS:]:
            old.unlink(missing_ok=True)


def recall(spec: str) -> FinetuneOptions | None:
    """Options of a model's last training; None if missing or unreadable."""
    return tried(lambda: decode(FinetuneOptions, read_json(_file(spec))), None)
