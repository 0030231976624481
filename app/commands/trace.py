"""Command `trace`: captures a model as a graph and verifies it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from espalier.app.commands.command import Answer, Arguments, Command, Parser, UsageError
from espalier.app.commands.console import Console, age, count, facts, seconds
from espalier.app.commands.opening import Target, opened, save
from espalier.model.document.arrangement import MEMBER, from_bytes
from espalier.model.files import write_text
from espalier.model.opening import is_project
from espalier.model.packed.file import is_packed
from espalier.passes.analysis.graph import summarise


def _arguments(parser: Parser) -> None:
    parser.add_argument("source", metavar="SOURCE", help="the model")
    parser.add_argument("--inputs", metavar="a,b", help="the inputs to trace with (default: the model's usual inputs)")
    parser.add_argument("-o", "--output", metavar="P.espalier", help="save as a project")
    parser.add_argument("--svg", metavar="FILE", help="draw the graph")
    parser.add_argument("--verify", action="store_true", help="compare original and rebuilt model at other sizes")


def _run(args: Arguments, console: Console) -> Answer:
    if is_project(args.source) or is_packed(args.source):
        what = "project" if is_project(args.source) else "packed model"
        raise UsageError(f"A {what} is traced already.", "Name a source, or use report.")
    with opened(args.source, args, console, cached=not args.verify, warn=False) as target:
        data = _data(target)
        if args.verify:
            _verify(target, data, console)
        if args.output:
            data["output"] = save(target, target.project, args.output)
        if args.svg:
            data["svg"] = _draw(target, args.svg)
    code = 1 if any(p["severity"] == "error" for p in data["problems"]) else 0
    return Answer(data, lambda: _lines(data), code)


def _data(target: Target) -> dict[str, Any]:
    capture = target.opened.capture
    assert capture is not None
    problems = [{"node": p.node, "message": p.message, "severity": p.severity} for p in target.opened.problems]
    return {**summarise(target.project.base), "dynamic": dict(capture.dynamic), "fixed": list(capture.fixed),
            "limits": [limit.range for limit in target.project.base.limits],
            "problems": problems, "seconds": dict(capture.seconds), "captured_at": capture.cached_at,
            "max_abs_diff": None}  # fmt: skip


def _verify(target: Target, data: dict[str, Any], console: Console) -> None:
    from espalier.passes.verify import verify

    console.progress(0, 0, "verifying")
    result = verify(target.opened, target.context.seed)
    data["problems"] += [{"node": None, "message": m, "severity": "warning"} for m in result.beyond]
    data["max_abs_diff"] = result.max_abs_diff
    data["verified"] = result.sizes
    data["problems"] += [{"node": None, "message": m, "severity": "error"} for m in result.faults]


def _draw(target: Target, path: str) -> str:
    from espalier.app.canvas.svg import to_svg

    arrangement = from_bytes(target.project.extras.get(MEMBER))
    write_text(path, to_svg(target.project.base, arrangement=arrangement), UsageError)
    return path


def _lines(data: dict[str, Any]) -> Iterable[str]:
    names = ("nodes", "edges", "parameters", "depth")
    texts = {n: count(data[n]) for n in names}
    texts["kinds"] = ", ".join(f"{k} {v}" for k, v in data["kinds"].items())
    texts["ops"] = ", ".join(f"{k} {v}" for k, v in data["ops"].items())
    texts["free sizes"] = "; ".join(f"{s} = {', '.join(p)}" for s, p in data["dynamic"].items()) or "none"
    if data["limits"]:
        texts["free sizes"] += f", valid for {', '.join(data['limits'])}"
    texts["fixed sizes"] = ", ".join(data["fixed"]) or "none"
    texts["seconds"] = ", ".join(f"{k} {seconds(v)}" for k, v in data["seconds"].items())
    if data["captured_at"] is not None:
        texts["seconds"] += f" (captured {age(data['captured_at'])}; --no-cache captures again)"
    if "verified" in data:
        difference = data["max_abs_diff"]
        text = "–" if difference is None else f"{difference:.3g}"
        texts["largest difference"] = f"{text} at {len(data['verified'])} sizes"
    texts |= {k: data[k] for k in ("output", "svg") if k in data}
    yield from facts(texts)
    for problem in data["problems"]:
        yield f"{problem['severity']}: {problem['message']}"


COMMAND = Command("trace", "captures a model as a graph", _arguments, _run)
