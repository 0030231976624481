"""OpenVINO: compiled files with its default settings, the float file, and NNCF's static quantisation of that."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.model.document.project import Project
from espalier.model.store.weights import WeightStore
from espalier.passes.export.checking.peak_memory import peak_memory
from espalier.passes.export.checking.target import TARGETS, Baseline, Inputs, Runner, Target
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
    import openvino

    return f"OpenVINO {openvino.get_version().partition('-')[0]}"


def _missing() -> str:
    return "" if importlib.util.find_spec("openvino") else "openvino"


def _opened(path: Path, threads: int) -> Runner:
    import openvino
    import torch

    settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}
    model: Any = openvino.Core().compile_model(str(path), "CPU", settings)
    names = [i.get_any_name() for i in model.inputs]

    def run(inputs: Inputs) -> list[Tensor]:
        found = model({name: inputs[name].numpy() for name in names})
        return [torch.from_numpy(found[o].copy()) for o in model.outputs]

    return run


def _baselines(project: Project, store: WeightStore, folder: Path, batches: Sequence[Inputs]) -> Iterator[Baseline]:
    """The model without formats in float32, and what NNCF makes of that."""
    from espalier.passes.export.openvino.file import write_openvino

    plain = project.graph.replace(*(replace(n, precision={}) for n in project.graph))
    file = write_openvino(replace(project, graph=plain), store, folder / "float.xml", Settings()).files[0]
    yield Baseline("float", file)
    if importlib.util.find_spec("nncf") is None:
        yield Baseline("nncf.quantize", None, "nncf is not installed")
        return
    path = folder / "nncf.xml"
    try:
        _quantise(file, path, batches)
        yield Baseline("nncf.quantize", path)
    # NNCF raises whatever it meets, of models that it does not know.
    except Exception as error:  # noqa: BLE001
        reason = (str(error).strip() or type(error).__name__).splitlines()[-1]
        yield Baseline("nncf.quantize", None, reason[:200])


def _quantise(file: Path, path: Path, batches: Sequence[Inputs]) -> None:
    import nncf  # type: ignore[import-not-found]  # an optional baseline
    import openvino

    model: Any = openvino.Core().read_model(str(file))
    names = [i.get_any_name() for i in model.inputs]
    logging.getLogger("nncf").setLevel(logging.ERROR)
    data = nncf.Dataset([{name: batch[name].numpy() for name in names} for batch in batches])
    openvino.save_model(nncf.quantize(model, data), str(path), compress_to_fp16=False)


def _memory(path: Path, threads: int, inputs: Inputs) -> int | None:
    import openvino

    names = {i.get_any_name() for i in openvino.Core().read_model(str(path)).inputs}
    return peak_memory(_MEMORY, path, threads, {k: v for k, v in inputs.items() if k in names})


TARGETS.add("openvino", Target(_name, _missing, _opened, _baselines, _memory, lambda path: path.with_suffix(".bin")))
