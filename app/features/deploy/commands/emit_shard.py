"""The emitting part of the command `shard`: a folder that runs the sharded model by torchrun."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from espalier.app.commands.command import Arguments, Parser
from espalier.app.commands.console import Console, size
from espalier.app.commands.opening import Target
from espalier.model.graph.graph import Graph


def add_emit_arguments(parser: Parser) -> None:
    """Add --emit."""
    text = "write a folder that runs it by torchrun, SLURM or Kubernetes, without Espalier"
    parser.add_argument("--emit", default="", metavar="DIR", help=text)


def check_emit(args: Arguments) -> None:
    """Raise ExportError for a folder that cannot be written, before anything is computed."""
    from espalier.passes.export.sharded.folder import check_folder

    check_folder(Path(args.emit).expanduser())


def emit(target: Target, graph: Graph, args: Arguments, console: Console) -> dict[str, Any]:
    """Write the folder for a sharded graph; returns what was written."""
    from espalier.passes.export.sharded.folder import emit_sharded

    console.progress(0, 0, "writing the folder")
    given = any(n.sharding for n in target.project.graph)
    facts = {"strategy": "of the project" if given and graph is target.project.graph else args.strategy,
             "device": getattr(args, "device", "") or ""}  # fmt: skip
    done = emit_sharded(replace(target.project, graph=graph), target.store, Path(args.emit), facts)
    return {"folder": args.emit, "files": list(done.files), "bytes": done.bytes, "notes": list(done.notes)}


def emit_lines(data: dict[str, Any]) -> Iterable[str]:
    """What was written, as text."""
    yield from data["files"]
    yield f"{size(data['bytes'])} in {len(data['files'])} files; {data['folder']}/launch.sh starts it"
    yield from (f"note: {n}" for n in data["notes"])
