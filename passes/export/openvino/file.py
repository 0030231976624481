"""Writes OpenVINO's .xml and .bin by way of an ONNX file of standard operators, and compares the results."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from espalier.model.errors import ExportError
from espalier.model.files import check_target, filling, make_folder
from espalier.model.filled import INTERRUPTED
from espalier.model.graph.graph import Graph, Node
from espalier.model.leftovers import scratch
from espalier.model.store.weights import WeightStore
from espalier.passes.export.compare import Compared, compare
from espalier.passes.export.effective_weights import check_finite
from espalier.passes.export.onnx_file import check_packages, onnx_program
from espalier.passes.export.openvino.child import OpenVINO, missing
from espalier.passes.export.openvino.overflow import overflow
from espalier.passes.export.settings import OnnxOptions, Settings
from espalier.passes.export.targets import checked, without_unheld_activations
from espalier.passes.export.targets.onnx import MOST, largest_code
from espalier.passes.export.targets.openvino import WIDEST, misplaced, misread

if TYPE_CHECKING:
    from espalier.model.document.project import Project

TARGET = "openvino"
_TENSOR = re.compile(rb'<data\b[^>]*\boffset="([0-9]{1,18})"[^>]*\bsize="([0-9]{1,18})"')  # of the .bin
STANDARD = OnnxOptions(exact=True, standard=True)  # biases stay float: OpenVINO adds them to its integer products
# Floats in float32 where the processor has bfloat16; no rounding of activations beside weights of whole numbers.
PRECISE = {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}


@dataclass(slots=True)
class File:
    """What was written: the .xml and the .bin, notes, and how results of OpenVINO compare."""

    files: list[Path]
    notes: list[str] = field(default_factory=list[str])
    compared: Compared | None = None


def write_openvino(project: Project, store: WeightStore, path: Path, settings: Settings) -> File:
    """Write the files. Raises ExportError before anything is written."""
    check_packages()
    if missing():
        raise ExportError("The export needs the package openvino, which is not installed.",
                          "Install it: pip install 'espalier[openvino]'.")  # fmt: skip
    if any(w.dtype == "bfloat16" for w in project.graph.weights.values()):
        raise ExportError("The model has bfloat16 weights, of which no OpenVINO file is written.",
                          "Open it in float32 (dtype=float32).")  # fmt: skip
    path = path if path.suffix == ".xml" else path.with_name(f"{path.name}.xml")
    values = path.with_suffix(".bin")
    if values.is_file() and not _belongs(values, path):
        raise ExportError(f"{values} exists and belongs to no {path.name}.", "Choose another name, or remove it.")
    notes = checked(TARGET, project.graph, leave_float=settings.leave_float)
    graph = without_unheld_activations(TARGET, project.graph)
    check_finite(graph, store)
    made, _, found = onnx_program(
        graph, store, replace(settings, onnx=STANDARD), lambda fmt, columns: not misread(fmt, columns),
        lambda group, columns: not misplaced(group, columns),
    )  # fmt: skip
    make_folder(path.parent, ExportError)
    for file in (path, values):
        check_target(file, ExportError)
    settings.progress(2, 4, "converting it to OpenVINO")
    with filling(path.parent, ExportError, (path.name,)) as part, scratch() as work, OpenVINO() as process:
        made.save(str(work / "model.onnx"))
        process.convert(work / "model.onnx", part / path.name)
        settings.progress(3, 4, "running it in OpenVINO")
        compared = compare_openvino(graph, store, part / path.name, process)
    done = File([path, values], [*notes, *found.changes], compared)
    done.notes += compared.notes if compared else ["The model runs at no size, so the file was not compared."]
    return done


def _belongs(values: Path, path: Path) -> bool:
    """Whether a .bin is that of an .xml: as long as its last tensor ends, or of an export that was ended meanwhile."""
    if not path.is_file():
        return False
    text = path.read_bytes()
    ends = [int(at) + int(size) for at, size in _TENSOR.findall(text)]
    return text == INTERRUPTED or (b"<net" in text and max(ends, default=0) == values.stat().st_size)


def compare_openvino(graph: Graph, store: WeightStore, path: Path, process: OpenVINO) -> Compared | None:
    """Run the file by OpenVINO's default settings, and where results differ by `PRECISE`, beside the graph's module.

    Raises ExportError where OpenVINO cannot run it.
    """
    found = compare(graph, store, partial(process.run, path, threads=0), "OpenVINO")
    if found is None or (found.difference is not None and found.difference <= found.allowed):
        return found
    if found.difference is None:
        raise ExportError(" ".join(found.notes), "Choose other formats, or export it as onnx.")
    again = compare(
        graph, store, partial(process.run, path, threads=0, entries=PRECISE), "OpenVINO with full precision"
    )
    if again is not None and again.difference is not None and again.difference <= again.allowed:
        entries = ", ".join(f"{k}={v}" for k, v in PRECISE.items())
        return replace(again, notes=(*again.notes, f"By default OpenVINO rounds more on this processor: results differ "
                                     f"by up to {found.difference:.3g}; with {entries} by "
                                     f"{again.difference:.3g}."))  # fmt: skip
    told = overflow(process) if any(_can_overflow(n) for n in graph) else ""
    return replace(found, notes=(*found.notes, told)) if told else found


def _can_overflow(node: Node) -> bool:
    """Whether two products of a layer's weight codes and activation codes can exceed 16 bits."""
    weight, data = node.precision.get("weight"), node.precision.get("data_in")
    if weight is None or data is None or data.format.element_bits > WIDEST:
        return False
    codes = largest_code(weight.format)
    return 2 * codes * (2**data.format.element_bits - 1) > MOST >= codes
