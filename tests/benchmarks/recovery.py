"""What GPTQ, SmoothQuant, bias correction and clipping win back over rounding to nearest: a demo, and SST-2 sentences.

Accuracy, loss and the squared distance of the logits from the float model's, on samples that no method has seen.
SST-2 (a BERT-tiny, trained as in sst2.py, or so already: `--model FOLDER`) is left out where ../shared is absent.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.graph.graph import Graph
from espalier.model.opening import open_source
from espalier.model.sources.reading import Reading
from espalier.model.torch.build import build
from espalier.model.trust import Origin
from espalier.passes.base import Context
from espalier.passes.choices.gptq import GptqOptions
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.running.batches import batches
from espalier.passes.running.splits import EvaluateOptions, load_split
from espalier.passes.select import Select
from espalier.passes.tasks.scores import logits_of
from espalier.passes.transform.bias_correction import BiasCorrectionOptions, bias_correction
from espalier.passes.transform.gptq import gptq
from espalier.passes.transform.mse_clip import MseClipOptions, mse_clip
from espalier.passes.transform.quantize import quantize
from espalier.passes.transform.smoothquant import SmoothquantOptions, smoothquant
from tests.benchmarks.record import report
from tests.benchmarks.sst2 import LENGTH, SHARED, train

Method = Callable[[Graph], Graph]
LINEAR = Select("type", ("linear",))


def methods(data: dict[str, Any], context: Context) -> dict[str, Method]:
    """Name → what it does to a rounded graph."""

    def clip(graph: Graph) -> Graph:
        return mse_clip(graph, MseClipOptions(**data, select=LINEAR), context)[0]

    def correct(graph: Graph) -> Graph:
        return bias_correction(graph, BiasCorrectionOptions(**data), context)[0]

    def solve(graph: Graph) -> Graph:
        return gptq(graph, GptqOptions(**data, select=LINEAR), context)[0]

    def smooth(graph: Graph) -> Graph:
        return smoothquant(graph, SmoothquantOptions(**data, insert=True), context)[0]

    return {"rounded": lambda g: g, "mse_clip": clip, "bias_correction": correct, "smoothquant": smooth, "gptq": solve,
            "smoothquant, gptq": lambda g: solve(smooth(g))}  # fmt: skip


def formats() -> dict[str, dict[str, Any]]:
    """Weights alone in 4 and 3 bits a row, and 4-bit activations of one scale with them."""
    return {
        "w4": {"weight": ScaledInteger(4)},
        "w3": {"weight": ScaledInteger(3)},
        "w4a4": {"weight": ScaledInteger(4), "data_in": ScaledInteger(4, "tensor")},
    }


def table(base: Graph, context: Context, data: dict[str, Any], checked: EvaluateOptions) -> dict[str, Any]:
    """Format → method → figures."""
    split = load_split(checked, context)
    labels = torch.from_numpy(split.labels)

    def logits(graph: Graph) -> torch.Tensor:
        module = build(graph, context.store)
        with torch.no_grad():
            return torch.cat([logits_of(module(**x), graph) for x, _ in batches(split, graph, 64)])

    exact = logits(base)

    def figures(graph: Graph, seconds: float) -> dict[str, float]:
        found = logits(graph)
        return {
            "accuracy": round(float((found.argmax(-1) == labels).float().mean()), 4),
            "loss": round(float(torch.nn.functional.cross_entropy(found, labels)), 4),
            "logit_mse": float(f"{float((found - exact).square().mean()):.3g}"),
            "seconds": round(seconds, 2),
        }

    rows: dict[str, Any] = {"float": figures(base, 0.0)}
    for name, chosen in formats().items():
        rounded = quantize(base, QuantizeOptions((Rule(LINEAR, chosen),)), context)[0]
        rows[name] = {}
        for method, apply in methods(data, context).items():
            start = time.perf_counter()
            graph = apply(rounded)
            rows[name][method] = figures(graph, time.perf_counter() - start)
    return rows


def _given() -> Path | None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path)
    return parser.parse_known_args()[0].model


def main() -> None:
    """The demo always, SST-2 where its sentences are."""
    torch.manual_seed(0)
    folder = Path(tempfile.mkdtemp())
    opened = open_source("demo:reviews", folder / "demo")
    context = Context(opened.store, reading=opened.project.source.reading)
    checked = EvaluateOptions(data="demo:reviews", split="test")
    found: dict[str, Any] = {"reviews": table(opened.project.graph, context, {"data": "demo:reviews"}, checked)}
    if SHARED.exists():
        given = _given()
        model = given or folder / "bert-tiny-sst2"
        if given is None:
            train(model)
        opened = open_source(str(model), folder / "sst2", origin=Origin.TYPED)
        context = Context(opened.store, reading=Reading(str(model)))
        data: dict[str, Any] = {"data": str(SHARED / "data" / "SST2"), "max_length": LENGTH}
        checked = replace(EvaluateOptions(**data), split="validation")
        found["sst2"] = table(opened.project.graph, context, data, checked)
    else:
        found["sst2"] = f"skipped: {SHARED.name} is absent"
    report("recovery", {"calibration_samples": 128, **found})


if __name__ == "__main__":
    main()
