"""The process that holds ExecuTorch: run by its path alone.

It imports nothing of Espalier, and loads tensors without pickle.
"""

from __future__ import annotations

import importlib
import os
import runpy
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Request = dict[str, Any]
DECOMPOSED, NAMES = "quantized_decomposed", "input_names"
XNNPACK = "executorch.backends.xnnpack"
OPERATORS = "torch.ao.quantization.fx._decomposed"  # registers those of quantized_decomposed


def lower(request: Request) -> dict[str, Any]:
    """Write the program of a torch.export file as .pte."""
    import torch

    _module(OPERATORS)
    _write(torch.export.load(request["program"]), request["path"], request["names"])
    return {}


def quantise(request: Request) -> dict[str, Any]:
    """As `lower`, after ExecuTorch's own quantiser with batches of calibration."""
    import torch

    own, steps = _module(f"{XNNPACK}.quantizer.xnnpack_quantizer"), _module("torchao.quantization.pt2e.quantize_pt2e")
    _module(OPERATORS)
    program: Any = torch.export.load(request["program"])
    config = own.get_symmetric_quantization_config(is_per_channel=True, is_dynamic=request["dynamic"])
    module: Any = steps.prepare_pt2e(program.module(check_guards=False), own.XNNPACKQuantizer().set_global(config))
    batches = [_tensors(path) for path in request["batches"]]
    with torch.no_grad():
        for batch in batches:
            module(**batch)
    module = steps.convert_pt2e(module)
    dim: Any = torch.export.Dim
    shapes = {name: {int(axis): dim.AUTO(max=most) for axis, most in axes.items()}
              for name, axes in request["free"].items()}  # fmt: skip
    values = batches[0]
    made = torch.export.export(module, (), values, strict=False, dynamic_shapes=shapes)
    _write(made, request["path"], list(values))
    return {}


def run(request: Request) -> dict[str, Any]:
    """Write the results of a file."""
    import numpy

    found = _method(request["path"], request["threads"])(_tensors(request["inputs"]))
    numpy.savez(request["results"], *[value.numpy() for value in found])
    return {}


def timed(request: Request) -> dict[str, Any]:
    """Median seconds of files, in turn."""
    values = _tensors(request["inputs"])
    methods = [_method(path, request["threads"]) for path in request["paths"]]
    calls = [lambda method=method: method(values) for method in methods]
    return {"seconds": runpy.run_path(request["timing"])["alternated"](calls, request["runs"])}


def _module(name: str) -> Any:
    """One that is imported when it is needed, and has no types."""
    return importlib.import_module(name)


def _write(program: Any, path: str, names: Sequence[str]) -> None:
    """The file has a second method, `input_names`, since inputs are given by position."""
    partition, named = _module(f"{XNNPACK}.partition.xnnpack_partitioner"), {NAMES: ",".join(names)}
    partitioner = [partition.XnnpackPartitioner(configs=_configs())]
    lowered = _module("executorch.exir").to_edge_transform_and_lower(
        program, partitioner=partitioner, constant_methods=named
    )
    rest = [str(n.target) for n in lowered.exported_program().graph.nodes if DECOMPOSED in str(n.target)]
    if rest:
        raise ValueError(f"XNNPACK does not take {rest[0]}")
    with open(path, "wb") as file:
        lowered.to_executorch().write_to_file(file)


def _configs() -> list[type[Any]]:
    """XNNPACK's operators, with linear layers of floats times codes, which ExecuTorch's own list leaves out."""
    every: list[type[Any]] = _module(f"{XNNPACK}.partition.config").ALL_PARTITIONER_CONFIGS
    linear: Any = _module(f"{XNNPACK}.partition.config.gemm_configs").LinearConfig
    quant_utils = _module(f"{XNNPACK}.utils.quant_utils")

    def of_floats(node: Any) -> bool:
        """A product without bias whose input is no int8 of its own: others are those of `linear`."""
        return quant_utils.is_per_channel(node.args[1]) and len(node.args) == 2 and not _rounded(node)

    def _rounded(node: Any) -> bool:
        data, users = node.args[0], list(node.users)
        if not quant_utils.is_dequant(data):
            return False
        if quant_utils.is_dynamic_qdq(data):
            return True
        while len(users) == 1 and any(name in str(users[0].target) for name in ("relu", "hardtanh")):
            users = list(users[0].users)
        return len(users) == 1 and quant_utils.is_quant(users[0])

    class WithCodes(linear):
        def check_constraints(self, node: Any, ep: Any) -> bool:
            return of_floats(node) or super().check_constraints(node, ep)

        def get_node_and_deps(self, node: Any, ep: Any) -> list[Any]:
            if not of_floats(node):
                return list(super().get_node_and_deps(node, ep))
            quant_utils.tag_as_implicit_q_dq(node.args[1])
            return [node, node.args[1], *node.args[1].all_input_nodes]

    return [*(c for c in every if c is not linear), WithCodes]


# -- the runtime

_open: dict[str, Any] = {}
_threads = 0


def _method(path: str, threads: int) -> Callable[[Mapping[str, Any]], Sequence[Any]]:
    """A file's method, which takes tensors by name."""
    global _threads  # of the runtime's one pool
    _module("torch")  # which the runtime's library needs
    try:  # without the exporter, whose import takes seconds
        held = _module("executorch.extension.pybindings._C")
    except ImportError:
        held = _module("executorch.extension.pybindings.portable_lib")
    if threads != _threads:
        held._unsafe_reset_threadpool(threads)
        _threads = threads
    if path not in _open:
        _open[path] = held._load_for_executorch(path)
    method = _open[path]
    names = method.run_method(NAMES, ())[0].split(",")
    return lambda values: method.run_method("forward", tuple(values[name] for name in names))


def _tensors(path: str) -> dict[str, Any]:
    import numpy
    import torch

    with numpy.load(path) as held:
        return {name: torch.from_numpy(held[name]) for name in held.files}


# -- the requests

DO: dict[str, Callable[[Request], dict[str, Any]]] = {
    "lower": lower, "quantise": quantise, "run": run, "timed": timed,
}  # fmt: skip

if __name__ == "__main__":
    os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = "1"
    runpy.run_path(str(Path(__file__).parents[1] / "serving.py"))["serve"](DO)
