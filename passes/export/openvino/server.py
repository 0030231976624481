"""The process that holds OpenVINO: run by its path alone. It imports nothing of Espalier."""

from __future__ import annotations

import functools
import json
import logging
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

Request = dict[str, Any]


@functools.cache
def _core() -> Any:
    """One of the process: several that end in another order than they began leave it without a stack for signals."""
    import openvino

    return openvino.Core()


@functools.cache
def _compiled(path: str, settings: str) -> tuple[Any, list[str]]:
    model = _core().compile_model(path, "CPU", json.loads(settings))
    return model, [port.get_any_name() for port in model.inputs]


def _settings(request: Request) -> str:
    timed = {"INFERENCE_NUM_THREADS": request["threads"], "PERFORMANCE_HINT": "LATENCY"} if request["threads"] else {}
    return json.dumps({**timed, **request.get("entries", {})})


def _call(path: str, request: Request) -> Callable[[], Any]:
    import numpy

    model, names = _compiled(path, _settings(request))
    with numpy.load(request["inputs"]) as found:
        given = {name: found[name] for name in names}
    return lambda: model(given)


def convert(request: Request) -> dict[str, Any]:
    """Write an ONNX file as .xml and .bin, with tensors in the types that they have."""
    import openvino

    openvino.save_model(_core().read_model(request["onnx"]), request["path"], compress_to_fp16=False)
    return {}


def quantise(request: Request) -> dict[str, Any]:
    """Write what nncf makes of a file with batches of calibration."""
    import nncf  # type: ignore[import-not-found]  # an optional baseline
    import numpy
    import openvino

    logging.getLogger("nncf").setLevel(logging.ERROR)
    model = _core().read_model(request["float"])
    names = [port.get_any_name() for port in model.inputs]
    batches: list[dict[str, Any]] = []
    for path in request["batches"]:
        with numpy.load(path) as found:
            batches.append({name: found[name] for name in names})
    kind = nncf.ModelType.TRANSFORMER if request["transformer"] else None
    made: Any = nncf.quantize(model, nncf.Dataset(batches), model_type=kind)
    openvino.save_model(made, request["path"], compress_to_fp16=False)
    return {}


def run(request: Request) -> dict[str, Any]:
    """Write the results of a file."""
    import numpy

    model, _ = _compiled(request["path"], _settings(request))
    found = _call(request["path"], request)()
    numpy.savez(request["results"], *[found[port] for port in model.outputs])
    return {}


def timed(request: Request) -> dict[str, Any]:
    """Median seconds of files, in turn."""
    calls = [_call(path, request) for path in request["paths"]]
    return {"seconds": runpy.run_path(request["timing"])["alternated"](calls, request["runs"])}


if __name__ == "__main__":
    serving = runpy.run_path(str(Path(__file__).parent.parent / "serving.py"))
    serving["serve"]({"convert": convert, "quantise": quantise, "run": run, "timed": timed})
