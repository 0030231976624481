"""OpenVINO in processes of its own: compiled files with its default settings, the float file, and NNCF's static
quantisation of that.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from espalier.model.document.project import Project
from espalier.model.errors import ExportError
from espalier.model.store.weights import WeightStore
from espalier.passes.export.checking.peak_memory import peak_memory
from espalier.passes.export.checking.target import TARGETS, Baseline, Inputs, Runner, Target
from espalier.passes.export.openvino.child import OpenVINO, missing
from espalier.passes.export.openvino.file import write_openvino
from espalier.passes.export.settings import Settings

if TYPE_CHECKING:
    from torch import Tensor

_MEMORY = """
import numpy, openvino
core = openvino.Core()
before = peak()
model = core.compile_model(path, "CPU", {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"})
given = dict(numpy.load(inputs))
for _ in range(calls):
    model({i.get_any_name(): given[i.get_any_name()] for i in model.inputs})
"""


def _name() -> str:
    return f"OpenVINO {importlib.metadata.version('openvino')}"


def _opened(path: Path, threads: int) -> Runner:
    process = OpenVINO()

    def run(inputs: Inputs) -> list[Tensor]:
        return process.run(path, inputs, threads)

    return run


def _timed(paths: Sequence[Path], threads: int, inputs: Inputs, runs: int) -> list[float]:
    with OpenVINO() as process:
        return process.timed(paths, threads, inputs, runs)


def _baselines(project: Project, store: WeightStore, folder: Path, batches: Sequence[Inputs]) -> Iterator[Baseline]:
    """The model without formats in float32, and what NNCF makes of that."""
    plain = project.graph.replace(*(replace(n, precision={}) for n in project.graph))
    file = write_openvino(replace(project, graph=plain), store, folder / "float.xml", Settings()).files[0]
    yield Baseline("float", file)
    if importlib.util.find_spec("nncf") is None:
        yield Baseline("nncf.quantize", None, "nncf is not installed")
        return
    path = folder / "nncf.xml"
    try:
        with OpenVINO() as process:
            attends = any(n.op == "scaled_dot_product_attention" for n in plain)
            process.quantise(file, path, batches, transformer=attends)
        yield Baseline("nncf.quantize", path)
    except ExportError as error:  # of models that nncf does not know
        yield Baseline("nncf.quantize", None, error.message[:200])


def _memory(path: Path, threads: int, inputs: Inputs) -> int | None:
    return peak_memory(_MEMORY, path, threads, inputs)


TARGETS.add("openvino", Target(_name, missing, _opened, _baselines, _memory, lambda p: p.with_suffix(".bin"), _timed))
