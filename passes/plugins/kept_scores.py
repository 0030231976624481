"""Measured scores on disk by content: the same graph and weights on the same samples are not measured twice.

The key holds samples as the model takes them and what computes: code, packages, processor, threads. An entry is JSON
alone; one that cannot be read, or is not a score, is measured again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from dataclasses import asdict
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.model.cache.captures import own_code
from espalier.model.cache.entries import Entries, enabled
from espalier.model.document.graph_json import fingerprint
from espalier.model.document.recipe import Step
from espalier.model.graph.graph import Graph
from espalier.model.opening import needs_source
from espalier.passes.base import Context, fill_limits, run_step
from espalier.passes.figure import main_figure
from espalier.passes.plugins.plugins import has_plugins
from espalier.passes.running.splits import EvaluateOptions, load_task, measured_split

if TYPE_CHECKING:
    from espalier.model.data.base import Split

CODE = ("passes", "kernels", "verilog")
LAYOUT = 1  # raise it when an entry says something else
LIMIT = 64 << 20  # bytes of all entries
FROM_CACHE = "from_cache"  # of a score: when it was measured, in seconds since 1970


def scores() -> Entries:
    """The cache of scores."""
    return Entries("scores", LIMIT)


def kept_score(graph: Graph, options: EvaluateOptions, context: Context) -> dict[str, Any]:
    """What `evaluate` finds, from the cache where it was measured before; then `from_cache` says when."""
    step = Step("evaluate", options, context.seed)
    own = needs_source(graph) or graph.runs == "module" or has_plugins()  # code that is no part of the key
    if own or not enabled():
        return dict(run_step(graph, step, context).report.summary)
    key = _key(graph, options, context)
    if found := _read(key):
        return found
    summary = dict(run_step(graph, step, context).report.summary)
    scores().write(key, {"when": time.time(), "score": summary})
    return summary


def _read(key: str) -> dict[str, Any] | None:
    entry = scores().read(key)
    try:
        found, when = dict(entry["score"]), float(entry["when"])
    except (TypeError, LookupError, ValueError):
        return None
    return {**found, FROM_CACHE: when} if main_figure(found) else None


def _key(graph: Graph, options: EvaluateOptions, context: Context) -> str:
    import numpy as np
    import torch
    from torch.backends.cpu import get_cpu_capability

    from espalier.kernels.bench.machine import name

    fill_limits(context, graph)
    data = load_task(options, context.reading, whole=options.split in ("", "all"))
    samples = _samples(measured_split(data, options.split, options.limit))
    read = [asdict(options), asdict(context.reading), data.name, data.classes, data.empty, data.notes, samples]
    versions = [own_code(), _other_code(), *_packages(), torch.__version__, np.__version__, torch.get_num_threads()]
    facts = [LAYOUT, fingerprint(graph), context.seed, read, versions, name("cpu"), get_cpu_capability()]
    return hashlib.blake2b(json.dumps(facts, default=str).encode(), digest_size=20).hexdigest()


def _samples(split: Split) -> str:
    """A hash of the arrays."""
    digest = hashlib.blake2b(digest_size=20)
    fields = ((name, getattr(split, name)) for name in ("labels", "lengths", "text_bytes"))
    for name, array in (*sorted(split.inputs.items()), *fields):
        if array is not None:
            digest.update(f"{name} {array.dtype} {array.shape}\n".encode() + array.tobytes())
    return digest.hexdigest()


@cache
def _other_code() -> str:
    """A hash of what measures, of the fast versions of formats and of hardware's arithmetic: all may give another."""
    digest, root = hashlib.blake2b(digest_size=16), Path(__file__).resolve().parents[2]
    for path in sorted(p for folder in CODE for p in (root / folder).rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _packages() -> list[str]:
    """Versions of the packages that models and kernels are made of, where they are installed."""
    found: list[str] = []
    for package in ("transformers", "numba", "triton"):
        with contextlib.suppress(PackageNotFoundError):
            found.append(f"{package} {version(package)}")
    return found
