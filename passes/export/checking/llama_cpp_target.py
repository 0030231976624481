"""llama.cpp: files in processes of their own, the float file, and what llama.cpp's own quantisers make of that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from espalier.model.document.project import Project
from espalier.model.errors import ExportError
from espalier.model.store.weights import WeightStore
from espalier.passes.export.checking.peak_memory import peak_memory
from espalier.passes.export.checking.target import TARGETS, Baseline, Inputs, Runner, Target
from espalier.passes.export.llama_cpp.child import SERVER, LlamaCpp, runtime
from espalier.passes.export.llama_cpp.server import binding
from espalier.passes.export.settings import Settings

if TYPE_CHECKING:
    from torch import Tensor

# Types that this program writes → (name, number in llama_ftype) of what llama-quantize makes with as many bits.
QUANTISED = {
    "Q8_0": (("Q8_0", 7),),
    "Q5_0": (("Q5_0", 8), ("Q5_K_M", 17)),
    "Q4_0": (("Q4_0", 2), ("Q4_K_M", 15)),
    "MXFP4": (("Q4_0", 2), ("Q4_K_M", 15)),
}
_MEMORY = f"""
import importlib, os, runpy, numpy
server = runpy.run_path({str(SERVER)!r})
rows = server["rows_of"](inputs)
importlib.import_module(server["binding"]())
before = peak()
model = server["opened"](path, threads, len(rows[0]), os.path.dirname(inputs))
for _ in range(calls):
    for row in rows:
        model.read(row)
"""


def _missing() -> str:
    return "" if binding() else "xllamacpp"


def _opened(path: Path, threads: int) -> Runner:
    process = LlamaCpp()

    def run(inputs: Inputs) -> list[Tensor]:
        return process.run(path, inputs, threads)

    return run


def _timed(paths: Sequence[Path], threads: int, inputs: Inputs, runs: int) -> list[float]:
    with LlamaCpp() as process:
        return process.timed(paths, threads, inputs, runs)


def _baselines(project: Project, store: WeightStore, folder: Path, batches: Sequence[Inputs]) -> Iterator[Baseline]:
    """The model without formats, and what llama.cpp's quantisers make of that for the widest type of the file."""
    from espalier.passes.export.llama_cpp.file import write_gguf
    from espalier.passes.export.targets.gguf import weight_type

    plain = replace(project, graph=project.graph.replace(*(replace(n, precision={}) for n in project.graph)))
    file = write_gguf(plain, store, folder / "float.gguf", Settings()).path
    yield Baseline("float", file)
    kinds = [kind for n in project.graph if isinstance(kind := weight_type(n, project.graph), str)]
    for name, number in QUANTISED[max(kinds, key=kinds.count)] if kinds else ():
        title, path = f"llama-quantize {name}", folder / f"{name}.gguf"
        if binding() != "llama_cpp":
            yield Baseline(title, None, "xllamacpp has no quantiser, llama-cpp-python has one")
            continue
        try:
            with LlamaCpp() as process:
                process.quantise(file, path, number)
            yield Baseline(title, path)
        except ExportError as error:
            yield Baseline(title, None, error.message[:200])


def _memory(path: Path, threads: int, inputs: Inputs) -> int | None:
    return peak_memory(_MEMORY, path, threads, inputs)


def _unpadded(inputs: Inputs) -> Inputs:
    return {name: value.new_ones(value.shape) if name == "attention_mask" else value for name, value in inputs.items()}


def _log_probabilities(scores: Tensor) -> Tensor:
    return scores.float().log_softmax(-1)


TARGETS.add("gguf", Target(
    runtime, _missing, _opened, _baselines, _memory, lambda path: path, _timed, _log_probabilities, _unpadded,
))  # fmt: skip
