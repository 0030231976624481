"""A folder holds a model or an adapter: of one with both, transformers loads the adapter onto the model."""

from __future__ import annotations

from pathlib import Path

from espalier.model.errors import ExportError

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
