"""Hands a project on: as a checkpoint, as a packed model, as a recipe, as a script. One file per form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from model.errors import ExportError, nearest
from model.project import Project
from model.weights import WeightStore


@dataclass(frozen=True, slots=True)
class Exported:
    """The files written, their bytes in all, what the form could not take along, and of a packed model what each
    tensor takes."""

    files: tuple[str, ...]
    bytes: int
    notes: tuple[str, ...] = ()
    tensors: tuple[dict[str, Any], ...] = ()


class Written(NamedTuple):
    """What a form's writer leaves."""

    files: list[Path]
    notes: list[str]
    tensors: list[dict[str, Any]]


Exporter = Callable[[Project, WeightStore, Path], Written]


def _checkpoint(project: Project, store: WeightStore, path: Path) -> Written:
    from passes.export.checkpoint import write_checkpoint

    return Written(*write_checkpoint(project, store, path), [])


def _packed(project: Project, store: WeightStore, path: Path) -> Written:
    from passes.export.packed import write_packed_model

    return Written(*write_packed_model(project, store, path))


def _adapter(project: Project, store: WeightStore, path: Path) -> Written:
    from passes.export.adapter import write_adapter

    return Written(*write_adapter(project, store, path), [])


def _recipe(project: Project, store: WeightStore, path: Path) -> Written:
    from passes.export.recipe import write_recipe

    return Written(write_recipe(project, path), [], [])


def _script(project: Project, store: WeightStore, path: Path) -> Written:
    from passes.export.script import write_script

    return Written(write_script(project, path), [], [])


FORMS: dict[str, Exporter] = {"safetensors": _checkpoint, "packed": _packed, "adapter": _adapter, "recipe": _recipe, "script": _script}


def export(project: Project, store: WeightStore, form: str, path: Path) -> Exported:
    """Write `project` in a form to `path`; raises ExportError."""
    if form not in FORMS:
        raise ExportError(f"There is no form {form!r}.", nearest(form, FORMS))
    path = Path(path).expanduser()
    try:
        files, notes, tensors = FORMS[form](project, store, path)
    except OSError as error:
        raise ExportError(f"{path} cannot be written ({error.strerror}).", "Choose another place.") from error
    for file in files:  # some writers make files that only their owner may read
        file.chmod(file.stat().st_mode | 0o044)
    size = sum(f.stat().st_size for f in files)
    return Exported(tuple(str(f) for f in files), size, tuple(notes), tuple(tensors))
