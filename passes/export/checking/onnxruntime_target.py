"""onnxruntime: sessions, the float file of the same model, and its own static and dynamic quantisation."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
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
import numpy, onnxruntime
def session(path):
    o = onnxruntime.SessionOptions()
    o.intra_op_num_threads = threads; o.log_severity_level = 4
    return onnxruntime.InferenceSession(path, o, providers=["CPUExecutionProvider"])
before = peak()
s = session(path)
given = dict(numpy.load(inputs))
for _ in range(calls):
    s.run(None, given)
"""


def _name() -> str:
    import onnxruntime

    return f"onnxruntime {onnxruntime.__version__}"


def _missing() -> str:
    return "" if importlib.util.find_spec("onnxruntime") else "onnxruntime"


def _opened(path: Path, threads: int) -> Runner:
    import numpy as np
    import onnxruntime
    import torch

    options: Any = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    session: Any = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    taken = {i.name for i in session.get_inputs()}

    def run(inputs: Inputs) -> list[Tensor]:
        given = {k: v.numpy() for k, v in inputs.items() if k in taken}
        return [torch.from_numpy(np.asarray(v)) for v in session.run(None, given)]

    return run


def _baselines(project: Project, store: WeightStore, folder: Path, batches: Sequence[Inputs]) -> Iterator[Baseline]:
    """The model without formats in float32, and what onnxruntime's quantisers make of that."""
    from espalier.passes.export.onnx_file import write_onnx

    plain = project.graph.replace(*(replace(n, precision={}) for n in project.graph))
    file = write_onnx(replace(project, graph=plain), store, folder / "float.onnx", Settings()).files[0]
    yield Baseline("float", file)
    for name, make in (("quantize_static", _static), ("quantize_dynamic", _dynamic)):
        path = folder / f"{name}.onnx"
        try:
            with _silent():
                make(file, path, batches)
            yield Baseline(name, path)
        # The quantisers raise whatever they meet, of models that they do not know.
        except Exception as error:  # noqa: BLE001
            reason = (str(error).strip() or type(error).__name__).splitlines()[-1]
            yield Baseline(name, None, reason[:200])


def _static(file: Path, path: Path, batches: Sequence[Inputs]) -> None:
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    taken = _inputs(file)

    class Batches(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._each = iter(batches)

        def get_next(self) -> Any:
            batch = next(self._each, None)
            return None if batch is None else {k: v.numpy() for k, v in batch.items() if k in taken}

    ready = path.with_name("prepared.onnx")
    quant_pre_process(str(file), str(ready), skip_symbolic_shape=True)
    quantize_static(str(ready), str(path), Batches(), per_channel=True, quant_format=QuantFormat.QDQ)


def _dynamic(file: Path, path: Path, _: Sequence[Inputs]) -> None:
    from onnxruntime.quantization import quantize_dynamic

    quantize_dynamic(str(file), str(path))


def _inputs(file: Path) -> set[str]:
    import onnx

    return {i.name for i in onnx.load(str(file), load_external_data=False).graph.input}


def _memory(path: Path, threads: int, inputs: Inputs) -> int | None:
    taken = _inputs(path)
    return peak_memory(_MEMORY, path, threads, {k: v for k, v in inputs.items() if k in taken})


@contextmanager
def _silent() -> Generator[None]:
    """Without the hints that the quantisers log."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(before)


TARGETS.add("onnx", Target(
    _name, _missing, _opened, _baselines, _memory, lambda path: path.with_name(f"{path.name}.data"),
))  # fmt: skip
