"""How a model was trained last: after a crash the panel finds the options of the training that was broken off."""

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

KEPT = 50  # models


def _file(spec: str) -> Path:
    return data_folder("trained") / f"{hashlib.sha256(spec.encode()).hexdigest()[:32]}.json"


def remember(spec: str, options: FinetuneOptions) -> None:
    """Keep the options of a training that begins; a folder that cannot be written is passed over."""
    with contextlib.suppress(OSError, FileError):
        write_private(_file(spec), json.dumps(encode(options)))
        kept = sorted(data_folder("trained").glob("*.json"), key=lambda p: p.stat().st_mtime, reverse=True)
        for old in kept[KEPT:]:
            old.unlink(missing_ok=True)


def recall(spec: str) -> FinetuneOptions | None:
    """The options of the last training of a model; None where there was none, or by another version."""
    return tried(lambda: decode(FinetuneOptions, read_json(_file(spec))), None)
