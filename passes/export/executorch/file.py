"""Writes a .pte in which XNNPACK multiplies whole numbers where formats are such, and compares its results."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from espalier.model.errors import ExportError
from espalier.model.files import check_target, filling, make_folder
from espalier.model.graph.graph import Graph
from espalier.model.leftovers import scratch
from espalier.model.store.weights import WeightStore
from espalier.passes.export.compare import Compared, compare
from espalier.passes.export.effective_weights import check_finite
from espalier.passes.export.executorch.child import ExecuTorch, missing
from espalier.passes.export.program import first_line, program_of, save_program
from espalier.passes.export.settings import Settings
from espalier.passes.export.standalone import standalone
from espalier.passes.export.targets import checked, without_unheld_activations

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from espalier.model.document.project import Project
    from espalier.passes.export.executorch.rewriting import Products

TARGET = "executorch"
MOST = 8  # layers that are named
ROUNDING = ("ExecuTorch multiplies by 1/scale and rounds biases to the product's scale, so that a value halfway "
            "between two codes can become the other one.")  # fmt: skip


@dataclass(slots=True)
class File:
    """What was written: the .pte, notes, and how results of ExecuTorch compare."""

    path: Path
    notes: list[str] = field(default_factory=list[str])
    compared: Compared | None = None


def write_executorch(
    project: Project, store: WeightStore, path: Path, settings: Settings, process: ExecuTorch | None = None
) -> File:
    """Write the file. Raises ExportError before anything is written. `process`: that runs already, and stays open."""
    if package := missing():
        raise ExportError(f"The export needs the package {package}, which is not installed.",
                          "Install it: pip install 'espalier[executorch]'.")  # fmt: skip
    if any(w.dtype == "bfloat16" for w in project.graph.weights.values()):
        raise ExportError("The model has bfloat16 weights, of which no ExecuTorch file is written.",
                          "Open it in float32 (dtype=float32).")  # fmt: skip
    path = path if path.suffix == ".pte" else path.with_name(f"{path.name}.pte")
    notes = checked(TARGET, project.graph, leave_float=settings.leave_float)
    graph = without_unheld_activations(TARGET, project.graph)
    check_finite(graph, store)
    settings.progress(0, 4, "exporting the graph")
    program, products = executorch_program(graph, store, settings)
    make_folder(path.parent, ExportError)
    check_target(path, ExportError)
    with filling(path.parent, ExportError) as part, scratch() as work, _running(process) as runtime:
        settings.progress(1, 4, "converting it to ExecuTorch")
        save(program, work / "model.pt2")
        runtime.lower(work / "model.pt2", part / path.name, [n.target for n in graph.placeholders if n.out])
        settings.progress(3, 4, "running it in ExecuTorch")
        compared = compare(graph, store, partial(runtime.run, part / path.name), "ExecuTorch")
        if compared is not None and compared.difference is None:
            raise ExportError(compared.notes[0], "Choose other formats, or export it as onnx.")
    done = File(path, [*notes, *_notes(graph, products)], compared)
    done.notes += compared.notes if compared else ["The model runs at no size, so the file was not compared."]
    if compared is not None and compared.notes and (products.static or products.dynamic):
        done.notes.append(ROUNDING)
    return done


def _running(process: ExecuTorch | None) -> AbstractContextManager[ExecuTorch]:
    return ExecuTorch() if process is None else nullcontext(process)


def executorch_program(graph: Graph, store: WeightStore, settings: Settings) -> tuple[ExportedProgram, Products]:
    """The graph as a torch.export program that XNNPACK reads, and what computes its layers; raises ExportError."""
    from espalier.model.trace.capture import quiet
    from espalier.passes.export.executorch.nodes import activation, leaf
    from espalier.passes.export.executorch.rewriting import rewrite

    sizes = largest(graph, settings)
    module = standalone(graph, store, lambda held, site: activation(held), leaf)
    first = program_of(module, graph, sizes)
    try:
        with quiet():
            flat = first.run_decompositions({}).module(check_guards=False)
    # torch.export raises dozens of types.
    except Exception as error:
        text = f"torch.export cannot take the model as it is ({first_line(error)})."
        raise ExportError(text, "Take back the step after which it happens, or export it as packed.") from error
    products = rewrite(flat)
    return program_of(flat, graph, sizes), products


def save(program: ExportedProgram, path: Path) -> None:
    """Write a program for the process that converts it; raises OSError."""
    with path.open("wb") as file:
        save_program(program, file)


def largest(graph: Graph, settings: Settings) -> dict[str, int]:
    """The upper bounds of free sizes, for which ExecuTorch plans memory."""
    return {name: max(settings.executorch.largest, 2 * size) for name, size in graph.symbols.items()}


def _notes(graph: Graph, products: Products) -> Iterator[str]:
    nodes = {n.target: n for n in graph if n.call == "call_module"}
    kinds = (("integers", products.static + products.dynamic), ("floats with stored codes", products.codes),
             ("floats", products.floats))  # fmt: skip
    told = [f"{kind} in {len(paths)}" for kind, paths in kinds if paths]
    if told:
        yield f"Layers with stored weights, by what XNNPACK multiplies: {', '.join(told)}."
    floats = [nodes[p] for p in products.floats if p in nodes]
    for node in floats[:MOST]:
        yield f"{node.id} computes in float, with weights in float32: {_reason('data_in' in node.precision)}."
    if len(floats) > MOST:
        yield f"{len(floats) - MOST} more layers compute in float."


def _reason(rounded: bool) -> str:
    if not rounded:
        return (
            "convolutions take codes with inputs in 8 bits alone; scaled_integer(width=8, granularity=tensor) is such"
        )
    return "its result is not rounded to 8 bits; a format of its data_out, or of the input of what follows, does that"
