"""The measuring part of the command `shard`: the links between processes of this machine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from espalier.app.commands.command import Parser
from espalier.app.commands.console import Console, big, table
from espalier.model.leftovers import scratch
from espalier.model.store.weights import WeightStore
from espalier.passes.base import Context
from espalier.passes.sharding.planned import amount


def add_measure_arguments(parser: Parser) -> None:
    """Add --measure."""
    text = "time the links between two processes of this machine first, for --device this; needs no model"
    parser.add_argument("--measure", action="store_true", help=text)


def measure(console: Console) -> dict[str, Any]:
    """Measure this machine and store its links; returns the report."""
    from espalier.passes.analysis.shard_links import measured_machine

    console.progress(0, 0, "measuring this machine")
    with scratch() as folder:
        report = measured_machine(Context(WeightStore(folder), progress=console.progress))
    return {"rows": list(report.rows), "summary": report.summary}


def measured_lines(data: dict[str, Any]) -> Iterable[str]:
    """The figures, and the timings beside their fit."""
    found = data["summary"]
    yield (f"this machine, {found['measured']}: {big(found['flops'])}FLOP/s, copies {big(found['bandwidth'])}B/s, "
           f"memory {amount(found['memory_bytes'])}")  # fmt: skip
    yield (f"links of {found['ranks']} processes over {found['backend']}: latency {found['latency_us']:.3g} µs, "
           f"rate {big(found['rate'])}B/s")  # fmt: skip
    yield (f"timings differ from that by a factor of {found['factor']:.2f} (root of the mean square of logarithms), "
           f"the worst by {found['worst_factor']:.2f}")  # fmt: skip
    yield from table([{"collective": r["collective"].replace("_", "-"), "bytes": r["bytes"],
                       "measured ms": f"{r['milliseconds']:.3f}", "fitted ms": f"{r['fitted_ms']:.3f}"}
                      for r in data["rows"]])  # fmt: skip
