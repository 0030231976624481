"""A built module against the original model in eval(): forward seconds in turn, one thread."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from espalier.model.sources.source import load_source
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import build
from espalier.model.trace.trace import trace
from espalier.model.trust import Origin
from tests.benchmarks.record import ratio, report

SOURCES = {
    "bert_tiny": "demo:reviews",
    "digits_cnn": "demo:digits",
    "bert_base": "config:bert?task=sequence-classification",
    "gpt2": "config:gpt2?task=causal-lm&n_layer=4",
    "vit": "config:vit?num_hidden_layers=4&task=image-classification",
    "resnet": "config:resnet?depths=[2,2,2,2]&layer_type=basic&task=image-classification",
}


def compare(spec: str, times: int) -> dict[str, Any]:
    """Medians of forwards taken in turn on the traced example."""
    loaded = load_source(spec, origin=Origin.TYPED)
    store = WeightStore(Path(tempfile.mkdtemp()))
    module = build(trace(loaded.model, loaded.example, store).graph, store)
    rounds = []
    with torch.no_grad():
        for _ in range(times):
            start = time.perf_counter()
            loaded.model(**loaded.example)
            middle = time.perf_counter()
            module(**loaded.example)
            rounds.append((time.perf_counter() - middle, middle - start))
    mine, reference = (statistics.median(r[i] for r in rounds[3:]) for i in range(2))
    return ratio(mine, reference, 1.03)


if __name__ == "__main__":
    torch.set_num_threads(1)
    report("build", {name: compare(spec, 15 if "base" in name else 60) for name, spec in SOURCES.items()})
