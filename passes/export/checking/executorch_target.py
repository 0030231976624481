"""ExecuTorch: programs in processes of their own, the float file, and what XNNPACKQuantizer makes of that."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from espalier.model.document.project import Project
from espalier.model.errors import ExportError
from espalier.model.store.weights import WeightStore
from espalier.passes.export.checking.peak_memory import peak_memory
from espalier.passes.export.checking.target import TARGETS, Baseline, Inputs, Runner, Target
from espalier.passes.export.executorch.child import ExecuTorch, missing
from espalier.passes.export.settings import ExecuTorchOptions, Settings

if TYPE_CHECKING:
    from torch import Tensor

QUANTISERS = {"XNNPACKQuantizer": False, "XNNPACKQuantizer dynamic": True}
_MEMORY = """
import numpy, torch
try:
    from executorch.extension.pybindings import _C as runtime
except ImportError:
    from executorch.extension.pybindings import portable_lib as runtime
runtime._unsafe_reset_threadpool(threads)
given = {k: torch.from_numpy(v) for k, v in numpy.load(inputs).items()}
before = peak()
method = runtime._load_for_executorch(path)
names = method.run_method("input_names", ())[0].split(",")
for _ in range(calls):
    method.run_method("forward", tuple(given[name] for name in names))
"""


def _name() -> str:
    return f"ExecuTorch {importlib.metadata.version('executorch')}"


def _opened(path: Path, threads: int) -> Runner:
    process = ExecuTorch()

    def run(inputs: Inputs) -> list[Tensor]:
        return process.run(path, inputs, threads)

    return run


def _timed(paths: Sequence[Path], threads: int, inputs: Inputs, runs: int) -> list[float]:
    with ExecuTorch() as process:
        return process.timed(paths, threads, inputs, runs)


def _baselines(project: Project, store: WeightStore, folder: Path, batches: Sequence[Inputs]) -> Iterator[Baseline]:
    """The model without formats in float32, and what XNNPACKQuantizer makes of that."""
    from espalier.passes.export.executorch.file import executorch_program, largest, save, write_executorch

    plain = project.graph.replace(*(replace(n, precision={}) for n in project.graph))
    size = max((n for batch in batches for v in batch.values() for n in v.shape), default=1)
    settings = Settings(executorch=ExecuTorchOptions(max(ExecuTorchOptions().largest, 2 * size)))
    save(executorch_program(plain, store, settings)[0], folder / "float.pt2")
    most = largest(plain, settings)
    free = {n.target: {i: most[s] for i, s in enumerate(n.out.shape) if isinstance(s, str) and s in most}
            for n in plain.placeholders if n.out}  # fmt: skip
    with ExecuTorch() as process:
        whole = replace(project, graph=plain)
        yield Baseline("float", write_executorch(whole, store, folder / "float.pte", settings, process).path)
        for name, dynamic in QUANTISERS.items():
            path = folder / f"{name}.pte"
            try:
                process.quantise(folder / "float.pt2", path, batches, free, dynamic=dynamic)
                process.run(path, batches[0])
                yield Baseline(name, path)
            except ExportError as error:  # of models that the quantiser does not know
                yield Baseline(name, None, error.message[:200])


def _memory(path: Path, threads: int, inputs: Inputs) -> int | None:
    return peak_memory(_MEMORY, path, threads, inputs)


TARGETS.add("executorch", Target(_name, missing, _opened, _baselines, _memory, lambda path: path, _timed))
