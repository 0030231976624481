"""Writes a project for others: a checkpoint, a packed model, ONNX, a torch program, a script... One file per form."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from espalier.model.document.project import Project
from espalier.model.errors import ExportError, nearest
from espalier.model.packed.layout import packed_size
from espalier.model.store.weights import WeightStore
from espalier.passes.export.settings import Settings
from espalier.passes.export.training_notes import unhelped

if TYPE_CHECKING:
    from espalier.passes.base import Context
    from espalier.passes.export.checking.check import Check
    from espalier.passes.export.checking.target import CheckOptions


@dataclass(frozen=True, slots=True)
class Exported:
    """The files written, their bytes in all, what the form could not take along, and of a packed model what each
    tensor takes. `max_abs_diff`: of the file's results, where it was run. Of a form of codes: the bytes of the weights
    in float32, and of the packed file. `check`: where one was asked for."""

    files: tuple[str, ...]
    bytes: int
    notes: tuple[str, ...] = ()
    tensors: tuple[dict[str, Any], ...] = ()
    max_abs_diff: float | None = None
    float32_bytes: int | None = None
    packed_bytes: int | None = None
    check: Check | None = None


class Written(NamedTuple):
    """What a form's writer leaves."""

    files: list[Path]
    notes: list[str]
    tensors: list[dict[str, Any]]
    difference: float | None = None


Exporter = Callable[[Project, WeightStore, Path, Settings], Written]


def _checkpoint(project: Project, store: WeightStore, path: Path, _: Settings) -> Written:
    from espalier.passes.export.checkpoint import write_checkpoint

    return Written(*write_checkpoint(project, store, path), [])


def _packed(project: Project, store: WeightStore, path: Path, _: Settings) -> Written:
    from espalier.passes.export.packed import write_packed_model

    return Written(*write_packed_model(project, store, path))


def _onnx(project: Project, store: WeightStore, path: Path, settings: Settings) -> Written:
    from espalier.passes.export.compare import Compared, compare_onnx
    from espalier.passes.export.onnx_file import OnnxFile, write_onnx

    seen: list[Compared | None] = []
    half = any(w.dtype == "bfloat16" for w in project.graph.weights.values())  # onnxruntime has none on a processor

    def judge(file: Path, made: OnnxFile) -> None:
        settings.progress(3, 4, "running it in onnxruntime")
        found = compare_onnx(project.graph, store, file, equal=not (made.changes or made.left))
        if found is not None and not half and (found.difference is None or found.difference == float("inf")):
            raise ExportError(" ".join(found.notes), "Choose other formats or options of ONNX, or export it as pt2.")
        seen.append(None if made.left else found)

    runs = importlib.util.find_spec("onnxruntime") is not None
    made = write_onnx(project, store, path, settings, judge if runs else None)
    notes = [*made.left, *made.changes, *made.floats]
    if not runs:
        return Written(made.files, [*notes, "onnxruntime is not installed, so the file was not run."], [])
    found = seen[0]
    return Written(made.files, [*notes, *(found.notes if found else ())], [], found.difference if found else None)


def _program(project: Project, store: WeightStore, path: Path, settings: Settings) -> Written:
    from espalier.passes.export.program import compare_program, write_program

    files, notes = write_program(project, store, path, settings)
    settings.progress(2, 3, "running it")
    found = compare_program(project.graph, store, files[0])
    notes += found.notes if found else []
    return Written(files, notes, [], found.difference if found else None)


def _adapter(project: Project, store: WeightStore, path: Path, _: Settings) -> Written:
    from espalier.passes.export.adapter import write_adapter

    return Written(*write_adapter(project, store, path), [])


def _graphml(project: Project, _: WeightStore, path: Path, __: Settings) -> Written:
    from espalier.passes.export.graphml import write_graphml

    return Written(write_graphml(project, path), [], [])


def _recipe(project: Project, store: WeightStore, path: Path, _: Settings) -> Written:
    from espalier.passes.export.recipe import write_recipe

    return Written(write_recipe(project, path), [], [])


def _script(project: Project, store: WeightStore, path: Path, _: Settings) -> Written:
    from espalier.passes.export.script import write_script

    return Written(*write_script(project, path), [])


def _compressed(project: Project, store: WeightStore, path: Path, settings: Settings) -> Written:
    from espalier.passes.export.compressed.folder import write_folder

    made = write_folder(project, store, path, settings)
    return Written(made.files, made.notes, made.tensors, made.compared.difference if made.compared else None)


def _gguf(project: Project, store: WeightStore, path: Path, settings: Settings) -> Written:
    from espalier.passes.export.llama_cpp.file import write_gguf

    made = write_gguf(project, store, path, settings)
    return Written([made.path], made.notes, made.tensors, made.compared.difference if made.compared else None)


def _openvino(project: Project, store: WeightStore, path: Path, settings: Settings) -> Written:
    from espalier.passes.export.openvino.file import write_openvino

    made = write_openvino(project, store, path, settings)
    return Written(made.files, made.notes, [], made.compared.difference if made.compared else None)


def _torchao(project: Project, store: WeightStore, path: Path, settings: Settings) -> Written:
    from espalier.passes.export.torchao.folder import write_folder

    made = write_folder(project, store, path, settings)
    return Written(made.files, made.notes, made.tensors, made.compared.difference if made.compared else None)


def _executorch(project: Project, store: WeightStore, path: Path, settings: Settings) -> Written:
    from espalier.passes.export.executorch.file import write_executorch

    made = write_executorch(project, store, path, settings)
    return Written([made.path], made.notes, [], made.compared.difference if made.compared else None)


FORMS: dict[str, Exporter] = {
    "safetensors": _checkpoint,
    "packed": _packed,
    "compressed-tensors": _compressed,
    "torchao": _torchao,
    "gguf": _gguf,
    "onnx": _onnx,
    "openvino": _openvino,
    "executorch": _executorch,
    "pt2": _program,
    "adapter": _adapter,
    "script": _script,
    "recipe": _recipe,
    "graphml": _graphml,
}

GRAPHS = ("packed", "onnx", "openvino", "executorch", "pt2")  # forms that hold the traced graph

NOT_RUN = ("safetensors", "packed", "adapter", "script", "recipe", "graphml")  # whose results are not compared

CODED = (
    "compressed-tensors",
    "torchao",
    "gguf",
)  # forms of codes and scales, whose bytes are told beside those of a packed file


def _spare_the_source(path: Path, store: WeightStore) -> None:
    """Raise ExportError where the export would replace the files that the model's weights are read from."""
    sources = {place.path.resolve() for place in store.places().values()}
    if (target := path.resolve()) in sources or any(source.parent == target for source in sources):
        raise ExportError(f"{path} holds the weights that the model was opened from.", "Choose another place.")


def _limits(project: Project, form: str) -> tuple[str, ...]:
    """Notes on the sizes for which a file that holds the graph is valid; checkpoints and recipes hold no graph."""
    from espalier.model.graph.limits import limit_warnings

    return limit_warnings(project.graph) if form in GRAPHS else ()


def _non_finite(project: Project, store: WeightStore, form: str) -> tuple[str, ...]:
    """A note on weights that are not finite, of a form that holds weights."""
    if form in ("script", "recipe", "graphml"):
        return ()
    from espalier.model.trace.weight_checks import non_finite, weight_warning

    return weight_warning(non_finite(project.graph, store))


def export(
    project: Project,
    store: WeightStore,
    form: str,
    path: Path,
    settings: Settings = Settings(),  # noqa: B008  frozen
) -> Exported:
    """Write `project` in a form to `path`; raises ExportError."""
    if form not in FORMS:
        raise ExportError(f"There is no form {form!r}.", nearest(form, FORMS))
    path = Path(path).expanduser()
    _spare_the_source(path, store)
    try:
        files, notes, tensors, difference = FORMS[form](project, store, path, settings)
        notes = [*unhelped(project, store), *notes, *_limits(project, form), *_non_finite(project, store, form)]
        for file in files:  # some writers make files that only their owner may read
            if file.is_symlink():
                continue
            file.chmod(file.stat().st_mode | 0o044)
        size = sum(f.stat().st_size for f in files)
    except OSError as error:
        raise ExportError(f"{path} could not be written ({error.strerror}).", "Choose another place.") from error
    done = Exported(tuple(str(f) for f in files), size, tuple(notes), tuple(tensors), difference)
    if form not in CODED:
        return done
    elements = sum(w.elements for w in project.graph.weights.values())
    return replace(done, float32_bytes=4 * elements, packed_bytes=packed_size(project.graph))


def checked_export(
    project: Project, store: WeightStore, form: str, path: Path, settings: Settings, options: CheckOptions,
    context: Context,
) -> Exported:  # fmt: skip
    """As `export`, then the file measured in its runtime; raises ExportError before anything is written if it has none.

    Raises DataError.
    """
    from espalier.passes.export.checking.check import check, check_data, ready

    ready(form)
    loaded = check_data(project, store, options, context)
    done = export(project, store, form, path, settings)
    return replace(done, check=check(project, store, form, Path(done.files[0]), options, context, loaded))
