"""The serving part of the command `shard`: requests answered by ranks on this machine, beside one process."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from espalier.app.commands.command import Answer, Arguments, Parser
from espalier.app.commands.console import Console, table
from espalier.app.commands.opening import Target
from espalier.app.commands.option_flags import add_options, read_options
from espalier.app.features.deploy.commands.run_shard import differences, last, memory
from espalier.app.number_text import plural
from espalier.model.graph.graph import Graph
from espalier.passes.distributed.job import Source
from espalier.passes.distributed.run import RunOptions
from espalier.passes.distributed.serving.run import ServeOptions, serve_sharded


def add_serve_arguments(parser: Parser) -> None:
    """Add the load of --serve and what happens when a rank ends."""
    add_options(parser, ServeOptions, tuple(f.name for f in fields(RunOptions)))


def serve(target: Target, graph: Graph, args: Arguments, console: Console) -> Answer:
    """Answer requests by the sharded graph; exit code 1 if results differ from one process by more than rounding."""
    source = target.project.source
    options: ServeOptions = read_options(ServeOptions, args)
    console.progress(0, 0, "starting the ranks")
    report = serve_sharded(graph, options, target.context, Source(source.spec, source.inputs, source.seed))
    return Answer(report, lambda: lines(report), 0 if report["difference"]["outputs"]["within"] else 1)


def lines(report: dict[str, Any]) -> Iterable[str]:
    """The report as text."""
    load, served = report["load"], report["sharded"]
    how = f"{load['rate']:g} requests per second" if load["rate"] else f"{load['clients']} clients"
    yield (f"{report['ranks']} ranks ({report['mesh']}) over {report['backend']}, {load['loop']} loop of {how}, "
           f"at most {load['batch_size']} samples in a batch")  # fmt: skip
    yield from differences(report, "requests")
    rows = [_row(f"{report['ranks']} ranks", served), _row("one process", report["single"])]
    yield from table(rows)
    yield from _outages(report)
    yield ""
    yield from memory(report)
    yield from last(report)


def _row(name: str, found: dict[str, Any]) -> dict[str, Any]:
    latencies = {f"{k} ms": f"{v:.1f}" for k, v in found["latency_ms"].items()}
    return {"": name, "requests": found["requests"], "samples/s": f"{found['samples_per_second']:.1f}", **latencies,
            "mean batch": f"{found['mean_batch']:.2f}"}  # fmt: skip


def _outages(report: dict[str, Any]) -> Iterable[str]:
    """Each restart, and how many requests are lost."""
    if restarts := report["restarts"]:
        total = report["sharded"]["requests"] + report["lost"]
        yield f"{plural(restarts, 'restart')}; {report['lost']} of {total} requests lost"
    for found in report["outages"]:
        yield (f"restart {found['restart']}: no answer for {found['seconds']:.1f} s, "
               f"{found['waiting']} requests waited and were answered afterwards")  # fmt: skip
