"""Perplexity and bytes of a quantised key/value cache: int8, int4, fp8, MXFP8, NVFP4 by token, head and group.

`demo:stories`, and the Llama of `language_methods` (`--model FOLDER`: one that is trained already), left out where
../shared is absent. Weights stay float. Each cache is compared with the float one on the same windows of held-out text:
change of the mean loss in nats a token, with the 95 % interval of a paired bootstrap over windows (2 000 draws).
Bytes are those of one text of 4 096 tokens. `decoding`: seconds of 64 steps of `generate`, with a cache and without.
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from espalier.model.graph.graph import Graph
from espalier.model.opening import open_source
from espalier.model.torch.build import build
from espalier.model.trust import Origin
from espalier.passes.analysis.generate import GenerateOptions, generate
from espalier.passes.base import Context
from espalier.passes.choices.kv_cache import KVCacheOptions
from espalier.passes.running.batches import batches
from espalier.passes.running.splits import EvaluateOptions, load_split
from espalier.passes.select import Select
from espalier.passes.tasks.next_token import token_scores
from espalier.passes.transform.calibrate import CalibrateOptions, calibrate
from espalier.passes.transform.kv_cache import kv_cache
from tests.benchmarks.language_methods import REVIEWS, TESTED, WIDTH, figures, given_model, train, write_texts
from tests.benchmarks.record import report
from tests.benchmarks.sst2 import SHARED

CASES: tuple[tuple[str, str, str], ...] = (
    ("int8", "head", "head"), ("int8", "token", "token"), ("int8", "group", "group"),
    ("int4", "head", "head"), ("int4", "token", "token"), ("int4", "group", "group"), ("int4", "channel", "token"),
    ("int2", "group", "group"), ("fp8", "head", "head"), ("fp8", "tensor", "tensor"),
    ("mxfp8", "head", "head"), ("mxfp4", "head", "head"), ("nvfp4", "head", "head"), ("nvfp4", "token", "token"),
)  # fmt: skip
GROUP, CALIBRATED, STEPS = 16, 48, 64


def losses(graph: Graph, split: Any, context: Context) -> np.ndarray[Any, Any]:
    """Mean loss of each window in nats a token."""
    module, found = build(graph, context.store), list[torch.Tensor]()
    for inputs, labels in batches(split, graph, 20):
        with torch.no_grad():
            scores = token_scores(module(**inputs))
        assert scores is not None
        each = torch.nn.functional.cross_entropy(scores.float().flatten(0, 1), labels.flatten(), reduction="none")
        found.append(each.view(labels.shape).mean(-1))
    return torch.cat(found).double().numpy()


def table(base: Graph, context: Context, data: dict[str, Any]) -> dict[str, Any]:
    """Cache → perplexity, change and its interval, bytes and bits per element."""
    split = load_split(EvaluateOptions(**data, split="test", limit=TESTED), context)
    exact = losses(base, split, context)
    plain = kv_cache(base, KVCacheOptions("float", "float"), context)[1].summary
    rows: dict[str, Any] = {"float": {**figures(exact, None, 0.0), "bytes": plain["kv_cache_bytes"]}}
    for name, keys, values in CASES:
        scales: Any = keys, values
        options = KVCacheOptions(name, name, *scales, group=GROUP)
        graph, found = kv_cache(base, options, context)
        if "warning" in found.summary:
            chosen = Select("type", ("kv_cache",))
            graph, _ = calibrate(graph, CalibrateOptions(**data, limit=CALIBRATED, select=chosen), context)
        each = figures(losses(graph, split, context), exact, 0.0)
        label = f"{name}, {keys if keys == values else f'keys by {keys}, values by {values}'}"
        rows[label] = {**each, "bytes": found.summary["kv_cache_bytes"], "bits": round(found.summary["bits"], 3)}
        print(label, rows[label], file=sys.stderr, flush=True)
    return rows


def decoding(base: Graph, context: Context) -> dict[str, Any]:
    """Seconds of `generate`, and whether both texts are equal."""
    graph = kv_cache(base, KVCacheOptions(), context)[0]
    found: dict[str, Any] = {}
    texts: list[str] = []
    for cache in (True, False):
        start = time.perf_counter()
        options = GenerateOptions("Once upon a time there was a", new_tokens=STEPS, cache=cache)
        made = generate(graph, options, replace(context, base=None))[1].summary
        found["cached" if cache else "whole"] = round(time.perf_counter() - start, 2)
        texts.append(made["text"])
    return {**found, "tokens": made["tokens"], "equal": texts[0] == texts[1]}


def main() -> None:
    """The demo always, the reviews where they are."""
    torch.manual_seed(0)
    folder = Path(tempfile.mkdtemp())
    found: dict[str, Any] = {"reviews": f"skipped: {SHARED.name} is absent"}
    if REVIEWS.exists():
        write_texts(folder / "texts")
        model = given_model() or folder / "model"
        if not model.exists():
            train(model, folder / "texts")
        opened = open_source(str(model), folder / "reviews", origin=Origin.TYPED)
        context = Context(opened.store, reading=opened.project.source.reading)
        data = {"data": str(folder / "texts"), "max_length": WIDTH}
        found["reviews"] = table(opened.project.graph, context, data)
        found["reviews_decoding"] = decoding(opened.project.graph, context)
    opened = open_source("demo:stories", folder / "demo")
    context = Context(opened.store, reading=opened.project.source.reading)
    found["stories"] = table(opened.project.graph, context, {"data": "demo:stories"})
    found["stories_decoding"] = decoding(opened.project.graph, context)
    report("kv_cache", {"tested_windows": TESTED, "tokens_of_bytes": 4096, "group": GROUP, **found})


if __name__ == "__main__":
    main()
