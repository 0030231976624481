"""Writes a model as ONNX: weights of whole numbers as such, formats of activations as QuantizeLinear and its inverse.

The file is then run by onnxruntime, where that is installed, and compared with the model it was made from.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn

from espalier.model.document.project import Project
from espalier.model.errors import ExportError
from espalier.model.files import check_target, filling, make_folder
from espalier.model.formats.base import Format
from espalier.model.graph.graph import Graph
from espalier.model.graph.ports import weight_at
from espalier.model.store.weights import WeightStore
from espalier.model.torch.layers import Compressed, Effective
from espalier.passes.export.effective_weights import check_finite
from espalier.passes.export.float_layers import in_float_layers
from espalier.passes.export.grids import grid_of
from espalier.passes.export.program import first_line, program_of
from espalier.passes.export.settings import Settings
from espalier.passes.export.standalone import Site, baked, fixed, standalone
from espalier.passes.running.example import FREE

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from espalier.passes.export.fusing.rewriting import Rewritten

NEEDED = ("onnx", "onnxscript")
Coded = Callable[[Format, int], bool]
Narrow = Callable[[int, int], bool]
WIDER = {"int4": "int8", "uint4": "uint8"}
LEVELS = (1, 4)  # accuracy levels of MatMulNBits


@dataclass(frozen=True, slots=True)
class _Left:
    """A format that ONNX cannot say, where it is and why."""

    site: Site
    label: str
    why: str

    def __str__(self) -> str:
        return f"{self.site[0]} {self.site[1]} ({self.label}: {self.why})"


@dataclass(frozen=True, slots=True)
class OnnxFile:
    """The file, and its tensors beside it beyond 2 GB. `left`: formats that are left in float. `changes`: what an
    integer operator computes otherwise than the model. `floats`: quantised layers that compute in float, and why.
    """

    files: list[Path]
    left: tuple[str, ...]
    changes: tuple[str, ...]
    floats: tuple[str, ...]


def write_onnx(
    project: Project, store: WeightStore, path: Path, settings: Settings, judge: Callable[[Path, OnnxFile], None] | None
    = None
) -> OnnxFile:  # fmt: skip
    """Write the file; raises ExportError. `judge`: sees the whole file before it is at `path`, and may raise."""
    check_packages()
    path = path if path.suffix == ".onnx" else path.with_name(f"{path.name}.onnx")
    if settings.onnx.accuracy_level not in LEVELS:
        raise ExportError(f"Accuracy level {settings.onnx.accuracy_level} is none of those that are known here.",
                          "Give 1 or 4.")  # fmt: skip
    if settings.onnx.exact and settings.onnx.accuracy_level != 1:
        raise ExportError(f"Accuracy level {settings.onnx.accuracy_level} rounds activations, which is not exact.",
                          "Leave out one of the two options.")  # fmt: skip
    check_finite(project.graph, store)
    made, left, found = onnx_program(project.graph, store, settings)
    settings.progress(2, 4, "writing the file")
    make_folder(path.parent, ExportError)
    check_target(path, ExportError)
    with filling(path.parent, ExportError, (path.name,)) as part:  # it names the file beside it: written by its name
        made.save(str(part / path.name))
        beside = f"{path.name}.data"
        files = [path, *([path.with_name(beside)] if (part / beside).exists() else [])]
        floats = () if settings.onnx.exact else tuple(in_float_layers(project.graph, found.integers))
        done = OnnxFile(files, tuple(f"{item} is left in float." for item in left), found.changes, floats)
        if judge is not None:
            judge(part / path.name, done)
    return done


def check_packages() -> None:
    """Raise ExportError where a package that converts to ONNX is not installed."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise ExportError(f"ONNX needs the package {missing[0]}, which is not installed.",
                          "Install Espalier's ONNX packages: pip install 'espalier[onnx]'.")  # fmt: skip


def onnx_program(
    graph: Graph, store: WeightStore, settings: Settings, coded: Coded = lambda fmt, columns: True,
    narrow: Narrow = lambda group, columns: True,
) -> tuple[Any, list[_Left], Rewritten]:  # fmt: skip
    """The graph as torch's ONNXProgram, the formats left out, and what is not bit for bit; raises ExportError.

    `coded`: whether a matrix of a format, with rows of so many columns, may lie in the file in whole numbers. `narrow`:
    whether in 4 bits where its codes fit, in groups of so many (0: none) in rows of so many columns; else in 8.
    """
    from espalier.passes.export.fusing.rewriting import rewrite
    from espalier.passes.export.onnx_experts import translations
    from espalier.passes.export.onnx_nodes import OPSET
    from espalier.passes.export.onnx_powers import TRANSLATIONS

    settings.progress(0, 4, "exporting the graph")
    left: list[_Left] = []
    rough: list[str] = []
    module = standalone(
        graph,
        store,
        lambda held, site: _activation(held, site, left, rough, settings),
        lambda layer: _leaf(layer, coded, narrow),
    )
    if left and not settings.leave_float:
        text = f"ONNX has no equal of the format of {'; '.join(map(str, left[:4]))}{' …' if left[4:] else ''}."
        raise ExportError(
            text, "Choose another format there, or give --leave-float on the command line.", left[0].site[0]
        )
    program = program_of(module, graph)
    settings.progress(1, 4, "converting it to ONNX")
    made = _converted(program, graph, OPSET, TRANSLATIONS | translations())
    made.rename_axes(_names(program, graph))
    _narrow(made.model)
    found = rewrite(made.model.graph, settings.onnx)
    made.model.producer_name, made.model.graph.name = "Espalier", "model"
    for node in made.model.graph:  # what torch notes of its own way there
        node.metadata_props.clear()
    if rough:
        text = f"{len(rough)} activations take their scale as DynamicQuantizeLinear does: uint8 of the whole tensor."
        found = replace(found, changes=(text, *found.changes))
    return made, left, found


def _converted(program: ExportedProgram, graph: Graph, opset: int, translations: Any) -> Any:
    from espalier.model.trace.capture import quiet

    try:
        with quiet():
            return torch.onnx.export(
                program, (), dynamo=True, opset_version=opset, verbose=False, external_data=False,
                output_names=list(graph.output_names) or None, custom_translation_table=translations,
            )  # fmt: skip
    # torch.onnx raises dozens of types.
    except Exception as error:
        text = f"torch.onnx cannot say the model in ONNX ({first_line(error.__cause__ or error)})."
        rounded = any(weight_at(node, port, graph) is None for node in graph for port in node.precision)
        hint = "Take the formats of activations back, or export it" if rounded else "Export it"
        raise ExportError(text, f"{hint} as pt2 or packed.") from error


# -- the modules that stand for formats


def _activation(held: Effective, site: Site, left: list[_Left], rough: list[str], settings: Settings) -> nn.Module:
    from espalier.passes.export.onnx_nodes import activation, from_data
    from espalier.passes.export.targets.onnx import activation_unsayable

    runtime = settings.onnx.dynamic == "runtime"
    if (found := from_data(held, runtime=runtime)) is not None:
        rough += [site[0]] if runtime and not found.equals(from_data(held, runtime=False)) else []
        return found
    if why := activation_unsayable(held.format, calibrated=held.scale is not None):
        left.append(_Left(site, held.format.label if held.format else "pruned", why))
        return nn.Identity()
    return activation(held)


def _leaf(layer: Compressed, coded: Coded, narrow: Narrow) -> nn.Module:
    """A layer whose weight lies in the file in whole numbers, where its format gives such."""
    from espalier.passes.export.onnx_nodes import Dequantised, StoredLayer

    if "weight" not in layer.effective:
        return baked(layer)
    held, value = cast("Effective", layer.effective["weight"]), fixed(layer, "weight")
    if held.format is None or value is None or value.dtype != torch.float32 or value.dim() < 2:
        return baked(layer)
    columns = (held.view.shape(tuple(value.shape)) if held.view else value.shape)[-1]
    if value.dim() == 2 and not coded(held.format, columns):
        return baked(layer)
    scale = None if held.scale is None else held.scale.detach().numpy()
    with torch.no_grad():
        source = held.seen(cast("torch.Tensor", layer.inner.weight).detach())
    grid = grid_of(value.numpy(), source.numpy(), held.format, held.view, scale)
    if grid is None:
        return baked(layer)
    if value.dim() == 2 and grid.dtype in WIDER and not narrow(grid.block, columns):
        grid = replace(grid, dtype=WIDER[grid.dtype])
    bias = fixed(layer, "bias") if "bias" in layer.effective else None
    return StoredLayer(layer, Dequantised(grid, tuple(value.shape), held.view), bias)


# -- the file


def _names(program: ExportedProgram, graph: Graph) -> dict[str, str]:
    """torch's names of free sizes → the graph's."""
    shapes = {n.target: n.out.shape for n in graph.placeholders if n.out is not None}
    found: dict[str, str] = {}
    for node in program.graph.nodes:
        value = node.meta.get("val")
        for own, size in zip(
            shapes.get(node.name, ()), cast("tuple[Any, ...]", getattr(value, "shape", ())), strict=False
        ):
            if isinstance(size, torch.SymInt) and isinstance(own, str) and FREE.fullmatch(own):
                found.setdefault(str(size), own)
    return found


def _narrow(model: Any) -> None:
    """Codes of 4 bits, which torch cannot hold, from the bytes that carried them."""
    import ml_dtypes
    import onnx_ir

    kinds = {"_int4": (onnx_ir.DataType.INT4, ml_dtypes.int4), "_uint4": (onnx_ir.DataType.UINT4, ml_dtypes.uint4)}
    for node in [n for n in model.graph if n.op_type == "DequantizeLinear"]:
        end = next((e for e in kinds if (node.inputs[0].name or "").endswith(f"codes{e}")), None)
        for at in (0, 2) if end else ():
            held = node.inputs[at] if at < len(node.inputs) else None
            if held is not None and held.const_value is not None and end:
                kind, carrier = kinds[end]
                array = held.const_value.numpy().astype(carrier)
                name = f"{held.name}_narrow" if at else held.name.removesuffix(end)
                fresh = onnx_ir.Value(name=f"{name}.{node.name}", const_value=onnx_ir.Tensor(array, kind))
                fresh.dtype, fresh.shape = kind, onnx_ir.Shape(array.shape)
                model.graph.register_initializer(fresh)
                node.replace_input_with(at, fresh)
    for name in [n for n, v in model.graph.initializers.items() if not v.uses() and not v.is_graph_output()]:
        del model.graph.initializers[name]
