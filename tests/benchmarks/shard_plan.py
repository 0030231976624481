"""Plans of models over meshes: planning time, and the predicted step against each baseline.

All times of steps are predictions for the preset h100. The time to open a model stands apart. `--quick` leaves the
largest model out.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from espalier.model.errors import OptionsError
from espalier.model.graph.graph import Graph
from espalier.model.opening import open_any
from espalier.passes.sharding.mesh import parse_mesh
from espalier.passes.sharding.options import ShardPlanOptions
from espalier.passes.sharding.plan import Plan, make_plan
from espalier.passes.sharding.presets import device
from tests.benchmarks.record import report

SOURCES = {
    "bert-base": "config:bert?weights=none",
    "gpt2": "config:gpt2?task=causal-lm",
    "llama-70b": "config:llama?hidden_size=8192&intermediate_size=28672&num_hidden_layers=80&num_attention_heads=64"
    "&num_key_value_heads=8&vocab_size=32000&task=causal-lm&weights=none",
}  # fmt: skip
CASES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("bert-base", "2x2", {"sizes": "seq=128"}),
    ("bert-base", "2x2", {"sizes": "seq=128", "training": True}),
    ("bert-base", "2x4", {"sizes": "seq=512", "training": True}),
    ("bert-base", "4", {"sizes": "seq=128", "training": True}),
    ("bert-base", "2x2", {"sizes": "seq=128", "memory": "300MiB"}),
    ("gpt2", "2x2", {"sizes": "seq=512", "training": True}),
    ("gpt2", "1x4", {"sizes": "seq=512", "batch_size": 1}),
    ("llama-70b", "2x8", {"sizes": "seq=512", "dtype": "bfloat16", "batch_size": 64}),
    ("llama-70b", "8x8", {"sizes": "seq=512", "dtype": "bfloat16", "batch_size": 64}),
    ("llama-70b", "8x8", {"sizes": "seq=512", "dtype": "bfloat16", "batch_size": 64, "training": True}),
    ("llama-70b", "8x8", {"sizes": "seq=512", "dtype": "bfloat16", "batch_size": 64, "training": True, "stages": 8}),
)


def measured(graph: Graph, mesh: str, options: dict[str, Any]) -> dict[str, Any]:
    """One plan with its baselines."""
    shape, given = parse_mesh(mesh), ShardPlanOptions(mesh=mesh, **options)
    memory = 300 * 2.0**20 if options.get("memory") else None
    start = time.perf_counter()
    try:
        plan = make_plan(graph, shape, device("h100", shape, memory), given)
    except OptionsError as error:
        return {"error": error.message}
    spent = time.perf_counter() - start
    others = {n: {"ratio": round(p.seconds / plan.seconds, 3), "fits": p.fits} if isinstance(p, Plan) else p
              for n, p in plan.baselines.items()}  # fmt: skip
    gap = None if plan.stages else round(max(0.0, 1 - plan.bound / plan.seconds), 6)
    return {
        "planning_seconds": round(plan.planning, 2), "with_baselines": round(spent, 2), "decisions": plan.units,
        "step_ms": round(plan.seconds * 1e3, 4), "communication_ms": round(plan.communication * 1e3, 4),
        "bubble_ms": round(plan.bubble * 1e3, 4), "memory_gib": round(plan.memory / 2**30, 3),
        "moved_bytes": plan.bytes, "gap": gap, "baselines": others,
    }  # fmt: skip


def _dearer(baselines: dict[str, Any]) -> bool:
    """Whether one that fits takes less time than the plan."""
    return any(isinstance(b, dict) and b["fits"] and b["ratio"] < 1 - 1e-6 for b in baselines.values())


def main() -> None:
    """All cases; one line of progress each on stderr."""
    quick, rows, opening = "--quick" in sys.argv, list[dict[str, Any]](), dict[str, float]()
    for name, source in SOURCES.items():
        if quick and name == "llama-70b":
            continue
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            graph = open_any(source, Path(folder), cached=False).project.graph
            opening[name] = round(time.perf_counter() - start, 1)
            for model, mesh, options in CASES:
                if model == name:
                    rows.append({"model": name, "mesh": mesh, "options": options, **measured(graph, mesh, options)})
                    print(rows[-1], file=sys.stderr)
    dearer = [r for r in rows if not r["options"].get("stages") and _dearer(r.get("baselines", {}))]
    longest = {f"{m}_{mesh}".replace("-", "_"): max(r["planning_seconds"] for r in rows if (r["model"], r["mesh"]) == (
        m, mesh) and "planning_seconds" in r) for m, mesh in (("bert-base", "2x2"), ("llama-70b", "8x8"))
        if not (quick and m == "llama-70b")}  # fmt: skip
    report("shard_plan", {"opening_seconds": opening, "longest": longest, "dearer": len(dearer), "rows": rows})


if __name__ == "__main__":
    main()
