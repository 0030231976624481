"""Compares a design with the scored model and the float model on the same samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from espalier.model.errors import DataError, EmitError, GraphError
from espalier.model.graph.graph import Graph
from espalier.model.graph.ops import macs
from espalier.passes.base import Context

if TYPE_CHECKING:
    from torch import Tensor

    from espalier.verilog.design.netlist import Design
    from espalier.verilog.numbers.fixed import Codes

NDArray = np.ndarray[Any, Any]
Batch = tuple["dict[str, Tensor]", NDArray | None]  # inputs, and labels if they come from data
WORK = 2e10  # multiply-accumulates of random samples, at most
FLOAT32 = 2.0**-20  # relative error of float32 sums
DECIMALS = 9  # of accuracies


@dataclass(slots=True)
class Results:
    """The results of one model on all samples: `values` flat by sample, and `rows` of predicted classes."""

    values: list[NDArray] = field(default_factory=list)  # type: ignore[assignment]
    rows: list[NDArray] = field(default_factory=list)  # type: ignore[assignment]
    width: int = 1  # of a row; a single number has no argmax

    def take(self, result: Any, graph: Graph, frames: int) -> None:
        """Add the results of a batch."""
        first = _first(result, graph).double().numpy()
        self.width = first.shape[-1]
        self.values.append(first.reshape(frames, -1))
        self.rows.append(first.reshape(-1, first.shape[-1]).argmax(-1).reshape(frames, -1))

    def accuracy(self, labels: NDArray | None) -> float | None:
        """The share of samples whose largest result is their label's."""
        rows = np.concatenate(self.rows)
        if labels is None or labels.ndim != 1 or labels.dtype.kind == "f":  # not one class a sample
            return None
        if rows.shape[1] != 1 or len(rows) != len(labels):
            return None
        return round(float((rows[:, 0] == labels).mean()), DECIMALS)


def compare_scored(graph: Graph, design: Design, batches: list[Batch], context: Context,
                  simulated: tuple[Codes, ...] | None = None) -> dict[str, Any]:  # fmt: skip
    """The entry `scored_model` of a report: n, max_abs_diff, numbers of differing and of all outputs, equal_argmax
    (None for single numbers), accuracy {rtl, scored, float}.

    RTL results are simulated ones if these samples were simulated, otherwise those of the integer model, which equals
    simulations bit for bit. `float`: the opened model, or the graph without formats.
    """
    import torch

    from espalier.model.torch.build import build
    from espalier.verilog.emulation.integer_model import IntegerModel, structured, tensors

    base = context.base or graph.replace(*(replace(n, precision={}) for n in graph if n.precision))
    scored, plain = (build(g, context.store, context.callables) for g in (graph, base))
    exact = IntegerModel(graph, context.store, design, context.callables)
    rtl, of_scored, of_float = Results(), Results(), Results()
    labels: list[NDArray] = []
    at = 0
    for inputs, answers in batches:
        frames = len(next(iter(inputs.values())))
        part = None if simulated is None else tuple(c[at : at + frames] for c in simulated)
        with torch.no_grad():
            result = exact(**inputs) if part is None else structured(graph, tensors(design, part))
            rtl.take(result, graph, frames)
            for module, results in ((scored, of_scored), (plain, of_float)):
                results.take(_run(module, inputs, exact.host.padded(inputs), result, graph), graph, frames)
        labels += [] if answers is None else [answers]
        at += frames
        context.progress(3, 5, "comparing with the scored model")
    difference = _difference(rtl, of_scored)
    answers = np.concatenate(labels) if labels else None
    pairs = (("rtl", rtl), ("scored", of_scored), ("float", of_float))
    accuracy = {name: r.accuracy(answers) for name, r in pairs}
    return {**difference, "accuracy": accuracy, "n": at, "data": "given" if answers is not None else "random inputs",
            "rtl": "integer model" if simulated is None else "simulated",
            "float_is": "opened" if context.base is not None else "without formats"}  # fmt: skip


def _run(module: Any, inputs: Mapping[str, Tensor], padded: Mapping[str, Tensor], like: Any, graph: Graph) -> Any:
    """A model's results on the samples; on padded ones if the design pads them."""
    result = module(**inputs)
    same = _first(result, graph).shape == _first(like, graph).shape
    return result if same else module(**padded)


def _first(result: Any, graph: Graph) -> Any:
    """The logits, or the first result."""
    from espalier.passes.tasks.scores import logits_of

    try:
        return logits_of(result, graph)
    except GraphError:
        values: Any = result.values() if isinstance(result, Mapping) else result
        return result if hasattr(result, "shape") else next(iter(values))


def _difference(rtl: Results, scored: Results) -> dict[str, Any]:
    ours, theirs = np.concatenate(rtl.values), np.concatenate(scored.values)
    if ours.shape != theirs.shape:
        text = f"The design has {ours.shape[1]} results per sample, the scored model {theirs.shape[1]}."
        raise EmitError(text, "Emit it for the sizes of the data (--sizes).")
    apart = np.abs(ours - theirs)
    apart = np.where(ours == theirs, 0.0, apart)  # equal infinities are no difference
    rms = float(np.sqrt(np.mean(theirs**2)))
    alike = np.concatenate(rtl.rows) == np.concatenate(scored.rows)
    exact = apart <= np.maximum(np.abs(theirs), rms) * FLOAT32
    return {
        "max_abs_diff": float(apart.max(initial=0.0)), "rms": rms,
        "differing": int((~exact).sum()), "outputs": int(apart.size),
        "equal_argmax": float(alike.mean()) if scored.width > 1 else None,
    }  # fmt: skip


def random_batches(graph: Graph, design: Design, samples: int, seed: int) -> list[Batch]:
    """Random inputs of the design's sizes; fewer samples for large models."""
    from espalier.passes.running.example import example_inputs

    cost = sum(macs(n, {**design.symbols, "batch": 1}) for n in graph)
    count = max(1, min(samples, int(WORK // max(cost, 1))))
    sizes = {s: count for s in graph.symbols if s == "batch" or s.startswith("batch_")}
    inputs = example_inputs(graph, {**design.symbols, **sizes}, seed)
    if not inputs:
        raise DataError("The model has no inputs.", "Trace it again with example inputs.")
    return [(inputs, None)]
