"""Perplexity and bytes of a quantised key/value cache: int8, int4, fp8, MXFP8, NVFP4 by token, head and group.

`demo:stories`, and the Llama of `language_methods` (`--model FOLDER`: one that is trained already), left out where
../shared is absent. Weights stay float. Each cache is compared with the float one on the same windows of held-out text:
change of the mean loss in nats a token, with the 95 % interval of a paired bootstrap over windows (2 000 draws).
Bytes are those of one text of 4 096 tokens. `decoding`: seconds of 64 steps of `generate`, with a cache and without.
`step`: median seconds of a step after 512 tokens, of a random Llama of 8 layers with a cache in int8.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from espalier.model.graph.graph import Graph
from espalier.model.opening import open_source
from espalier.model.torch.build import build
from espalier.passes.analysis.generate import GenerateOptions, generate
from espalier.passes.base import Context
from espalier.passes.choices.kv_cache import KVCacheOptions
from espalier.passes.running.cached_decoding import CachedDecoder
from espalier.passes.running.splits import EvaluateOptions, load_split
from espalier.passes.select import Select
from espalier.passes.transform.calibrate import CalibrateOptions, calibrate
from espalier.passes.transform.kv_cache import kv_cache
from tests.benchmarks.language_methods import TESTED, figures, losses, tables
from tests.benchmarks.record import report

CASES: tuple[tuple[str, str, str], ...] = (
    ("int8", "head", "head"), ("int8", "token", "token"), ("int8", "group", "group"),
    ("int4", "head", "head"), ("int4", "token", "token"), ("int4", "group", "group"), ("int4", "channel", "token"),
    ("int2", "group", "group"), ("fp8", "head", "head"), ("fp8", "tensor", "tensor"),
    ("mxfp8", "head", "head"), ("mxfp4", "head", "head"), ("nvfp4", "head", "head"), ("nvfp4", "token", "token"),
)  # fmt: skip
GROUP, CALIBRATED, STEPS, LENGTH = 16, 48, 64, 512
LARGER = ("config:llama?vocab_size=1000&hidden_size=256&intermediate_size=688&num_hidden_layers=8"
          "&num_attention_heads=8&num_key_value_heads=2&task=causal-lm")  # fmt: skip


def table(base: Graph, context: Context, data: dict[str, Any]) -> dict[str, Any]:
    """Cache → perplexity, change and its interval, bytes and bits per element."""
    split = load_split(EvaluateOptions(**data, split="test", limit=TESTED), context)
    exact = losses(base, split, context)
    plain = kv_cache(base, KVCacheOptions("float", "float"), context)[1].summary
    rows: dict[str, Any] = {"float": {**figures(exact, None), "bytes": plain["kv_cache_bytes"]}}
    for name, keys, values in CASES:
        scales: Any = keys, values
        options = KVCacheOptions(name, name, *scales, group=GROUP)
        graph, found = kv_cache(base, options, context)
        if "to_calibrate" in found.summary:
            chosen = Select("type", ("kv_cache",))
            graph, _ = calibrate(graph, CalibrateOptions(**data, limit=CALIBRATED, select=chosen), context)
        each = figures(losses(graph, split, context), exact)
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


def step(folder: Path) -> dict[str, Any]:
    """Median seconds of a step of a larger model, with the cache and with the whole text."""
    opened = open_source(LARGER, folder / "larger")
    context = Context(opened.store)
    graph, _ = kv_cache(opened.project.graph, KVCacheOptions(), context)
    text = torch.randint(0, 1000, (LENGTH + STEPS,), generator=torch.Generator().manual_seed(0)).tolist()
    decoder, module = CachedDecoder(graph, context, len(text)), build(graph, context.store)
    decoder.scores(text[:LENGTH])
    found: dict[str, list[float]] = {"cached": [], "whole": []}
    for count in range(LENGTH + 1, LENGTH + 9):
        start = time.perf_counter()
        decoder.scores(text[:count])
        middle = time.perf_counter()
        ids = torch.tensor([text[:count]])
        with torch.no_grad():
            module(input_ids=ids, attention_mask=torch.ones_like(ids))
        found["cached"].append(middle - start)
        found["whole"].append(time.perf_counter() - middle)
    return {"tokens": LENGTH} | {name: round(statistics.median(each), 4) for name, each in found.items()}


def main() -> None:
    """The demo always, the reviews where they are."""
    folder = Path(tempfile.mkdtemp())
    found = tables(folder, ("", table), ("_decoding", lambda graph, context, _: decoding(graph, context)))
    found["step"] = step(folder)
    report("kv_cache", {"tested_windows": TESTED, "tokens_of_bytes": 4096, "group": GROUP, **found})


if __name__ == "__main__":
    main()
