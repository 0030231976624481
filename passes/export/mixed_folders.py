"""A folder holds a model or an adapter, and its weights in one layout: of one with more, readers choose themselves."""

from __future__ import annotations

import re
from pathlib import Path

from espalier.model.errors import ExportError

_WEIGHTS = re.compile(r"model(-\d+-of-\d+)?\.safetensors(\.index\.json)?")
ADAPTER, MODEL = "adapter_config.json", "config.json"


def check_for_model(folder: Path) -> None:
    """Raise ExportError if an adapter lies where a model is to be written."""
    if (folder / ADAPTER).exists():
        raise ExportError(f"{folder} holds an adapter ({ADAPTER}), which transformers would load onto this model.",
                          "Choose another folder, or remove the adapter's files.")  # fmt: skip


def check_for_adapter(folder: Path) -> None:
    """Raise ExportError if a model lies where an adapter is to be written."""
    if (folder / MODEL).exists():
        raise ExportError(f"{folder} holds a model ({MODEL}), onto which transformers would load this adapter.",
                          "Choose another folder.")  # fmt: skip


def check_for_own_form(folder: Path) -> None:
    """Raise ExportError if a model of transformers lies where one in our own form is to be written."""
    if (folder / MODEL).exists():
        raise ExportError(f"{folder} holds a model of transformers ({MODEL}), which would be read with these weights. "
                          "Those have no configuration of their own.", "Choose another folder.")  # fmt: skip


def check_layout(new: Path, old: Path) -> None:
    """Raise ExportError if weights in `old` would stay beside those of another layout: one file, or so many shards.

    transformers reads model.safetensors first, others the index or all files.
    """
    mine, others = ({p.name for p in folder.iterdir() if _WEIGHTS.fullmatch(p.name)} for folder in (new, old))
    if left := sorted(others - mine):
        more = f" and {len(left) - 1} more" if len(left) > 1 else ""
        raise ExportError(f"{old} holds weights in other files ({left[0]}{more}), which programs would read instead of "
                          f"{min(mine, default='these')} or with it.",
                          "Choose another folder, or remove those files.")  # fmt: skip
