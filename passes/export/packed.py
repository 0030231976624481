"""The packed model: one file in which each weight takes the bits of its format; the score's size is its size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from espalier.model.document.project import Project
from espalier.model.opening import needs_source
from espalier.model.packed.file import write_packed
from espalier.model.packed.layout import Packed, header_share
from espalier.model.store.weights import WeightStore


def write_packed_model(
    project: Project, store: WeightStore, path: Path
) -> tuple[list[Path], list[str], list[dict[str, Any]]]:
    """Write the file; returns it, notes, and a row a stored tensor. Raises ExportError."""
    path = path if path.name.endswith(".safetensors") else path.with_name(f"{path.name}.packed.safetensors")
    parts, notes = write_packed(project.graph, store, project.source, path)
    return [path], [*notes, *_notes(project, parts)], [tensor_row(p) for p in parts]


def tensor_row(part: Packed) -> dict[str, Any]:
    """What a stored tensor takes: bytes by its bits alone, and in the file with padding and its entry in the header."""
    label = part.use.format.label if part.use.format else part.format
    return {"tensor": part.name, "format": part.format, "label": label, "layout": part.layout,
            "elements": part.elements, "bits": part.bits, "ideal_bytes": part.bits / 8, "bytes": part.size,
            "header_bytes": header_share(part)}  # fmt: skip


def _notes(project: Project, parts: list[Packed]) -> list[str]:
    random = [p.weight for p in parts if p.use.format and p.use.format.stochastic]
    notes = [f"{name} rounds at random; the file holds what it rounds to without chance." for name in random]
    if needs_source(project.graph):
        notes.append("The model runs only with its own code, which is not in the file: it opens to be looked at.")
    return notes
