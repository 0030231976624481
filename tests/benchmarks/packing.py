"""Packed export of BERT-base with all Linears in a format: seconds and processor seconds, each tensor read back and
compared, as an export does; the first run of a format, which compiles or loads compiled loops, does not count.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from espalier.model.opening import open_source
from espalier.model.packed.file import write_packed
from espalier.passes.base import Context, run_step
from espalier.passes.recipes.config import load_recipe
from tests.benchmarks.record import report

FORMATS = ("scaled_integer", "scaled_integer(width=4)", "mxint", "mxint(width=4)")
ROUNDS, TARGET = 3, 3.0


def main() -> None:
    """Print the figures as JSON."""
    rows: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        opened = open_source("config:bert", Path(folder))
        for fmt in FORMATS:
            rule = {"select": {"by": "type", "values": ["linear"]}, "formats": {"weight": fmt}}
            step = load_recipe({"steps": [{"pass": "quantize", "options": {"rules": [rule]}}]}).steps[0]
            graph = run_step(opened.project.base, step, Context(opened.store)).graph
            path, times = Path(folder) / "bert.packed.safetensors", []
            for _ in range(ROUNDS + 1):
                begin, busy = time.perf_counter(), time.process_time()
                write_packed(graph, opened.store, opened.project.source, path)
                times.append((time.perf_counter() - begin, time.process_time() - busy))
            seconds, processor = (round(min(t[i] for t in times[1:]), 2) for i in range(2))
            rows[fmt] = {"s": seconds, "processor_s": processor, "bytes": path.stat().st_size, "target_s": TARGET}
    report("packing", {"formats": rows})


if __name__ == "__main__":
    main()
