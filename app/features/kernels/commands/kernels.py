"""Command `kernels`: measures kernels against references, lists them, shows source, compares results files."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.app.commands.command import Answer, Arguments, Command, Parser, UsageError
from espalier.app.commands.console import Console, facts, table
from espalier.app.commands.interrupts import ToldInterrupt

if TYPE_CHECKING:
    from espalier.kernels.bench.results import Results, Row
    from espalier.kernels.bench.spec import KernelInfo

WIDTH = 100
DETAILS = """\
Without a name all kernels run, at a few sizes each. Every version is compared with a double-precision reference in the
same run. The versions run interleaved, with cold caches. ±: half the interquartile range. ratio: speed relative to the
baseline. roof: share of the limit by measured bandwidth and matrix rate of this machine; empty above it."""


def _arguments(parser: Parser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="kernels (default: all)")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="default: cuda if available")
    parser.add_argument("--shapes", nargs="+", default=[], metavar="SHAPE", help="such as m=4096,n=1024 or 4096x1024")
    parser.add_argument("--sweep", action="store_true", help="use the sizes of the kernel's curve")
    parser.add_argument("--dtype", default="", metavar="A,B", help="float32, bfloat16, float16 (default: by device)")
    parser.add_argument("--versions", default="", metavar="A,B", help="only these versions and the baseline")
    parser.add_argument("--seconds", type=float, default=0.2, help="time for each version and shape (default 0.2)")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads; 0: torch's default")
    parser.add_argument(
        "--list", action="store_true", help="list the kernels and the devices they support here, without measuring"
    )
    parser.add_argument("--source", metavar="VERSION", help="print the source of a version, without measuring")
    parser.add_argument("--compare", nargs="+", default=[], metavar="FILE", help="compare results files")
    parser.add_argument("--answers", action="store_true", help="explanations with metrics measured here; NAMEs are "
                        "then questions: compile, softmax, attention, mxint8, tiles, memory, roofline")  # fmt: skip
    parser.add_argument("--model", metavar="SOURCE", help="with --answers memory: add this model's ledger")
    parser.add_argument("-o", "--output", metavar="FILE.json", help="write the results")


def _run(args: Arguments, console: Console) -> Answer:
    console.progress(0, 0, "loading")
    if args.answers:
        from espalier.app.features.kernels.commands.kernel_answers import measure_answers

        return measure_answers(args, console)
    if args.model:
        raise UsageError("--model applies to --answers only.", "Add --answers memory.")
    if args.list or args.source:
        return _list_or_source(args)
    if args.compare and not args.names and not args.output:
        return _compared([_load(p) for p in args.compare])
    return _measured(args, console)


def _request(args: Arguments) -> Any:
    import torch

    from espalier.kernels.bench.run import Request

    if args.threads < 0:
        raise UsageError(f"--threads cannot be {args.threads}.", "Give 1 or more, or 0 for torch's own number.")
    if not 0 <= args.seconds < float("inf"):
        raise UsageError(f"--seconds cannot be {args.seconds:g}.", "Give seconds such as 0.2; 0 runs three rounds.")
    device = args.device or ("cuda" if torch.cuda.is_available() else "cpu")
    dtypes = _split_list(args.dtype) or (("bfloat16",) if device == "cuda" else ("float32",))
    return Request(tuple(args.names), device, dtypes, tuple(args.shapes), _split_list(args.versions), args.sweep,
                   args.seconds, threads=args.threads, seed=args.seed)  # fmt: skip


def _split_list(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (w.strip() for w in text.split(","))))


def _measured(args: Arguments, console: Console) -> Answer:
    from espalier.kernels.bench import run
    from espalier.kernels.bench.results import check_writable, compared, save, to_json

    others, request, parts = [_load(p) for p in args.compare], _request(args), list[object]()
    if args.output:
        check_writable(Path(args.output))
    try:
        results = run.run(request, console.progress, parts.append)
    except KeyboardInterrupt:
        if args.output and parts:
            save(run.results_of(request, parts), Path(args.output))
            message = f"Stopped; what was measured until then is in {args.output}."
            console.note(message)
            raise ToldInterrupt(message) from None
        raise
    console.clear()
    data = to_json(results) | {"rows": [r.as_row() for r in results.rows]}
    if args.output:
        save(results, Path(args.output))
        data["output"] = args.output
    if others:
        data["compared"] = compared([*others, results])
        data["hint"] = "" if data["compared"] else _matching_arguments(results, others)
        data["busy"] = _busy([*others, results])
    return Answer(data, lambda: _lines(results, data))


def _load(path: str) -> Results:
    from espalier.kernels.bench.results import load

    return load(Path(path))


def _compared(runs: list[Results]) -> Answer:
    from espalier.kernels.bench.results import compared, to_json

    if len(runs) == 1:
        return Answer(to_json(runs[0]), lambda: _lines(runs[0], {}))
    rows = compared(runs)
    return Answer({"files": [r.label for r in runs], "compared": rows, "busy": _busy(runs)},
                  lambda: [*_comparison(rows), *_busy(runs)])  # fmt: skip


def _lines(results: Results, data: dict[str, Any]) -> Iterable[str]:
    yield from facts(_machine(results))
    yield ""
    yield from table([_row(r) for r in results.rows if r.seconds])
    yield from _untimed(results.rows)
    if "compared" in data:
        yield ""
        yield from _comparison(data["compared"], data["hint"])
        yield from data["busy"]
    if "output" in data:
        yield f"written to {data['output']}"


def _untimed(rows: Iterable[Row]) -> Iterable[str]:
    """Lines of kernels without a time, by reason; sizes are named if other sizes of the version have a time."""
    from espalier.kernels.bench.spec import shape_text

    rows, whose = list(rows), dict[str, dict[str, None]]()
    timed = {(r.kernel, r.version) for r in rows if r.seconds}
    for row in rows:
        if not row.seconds:
            at = f" {shape_text(row.shape)} {row.dtype}" if (row.kernel, row.version) in timed else ""
            whose.setdefault(row.problem, {})[f"{row.kernel} {row.version}{at}"] = None
    if whose:
        yield ""
        yield "without a time"
    for reason, names in whose.items():
        yield f"  {reason}:"
        yield from textwrap.wrap(", ".join(names), WIDTH, initial_indent="    ", subsequent_indent="    ")


def _comparison(rows: list[dict[str, Any]], hint: str = "") -> Iterable[str]:
    nothing = "No results to compare: no kernel, version, dtype and shape is in more than one file."
    return table([_compared_row(r) for r in rows]) if rows else [nothing, *([hint] if hint else [])]


def _compared_row(row: dict[str, Any]) -> dict[str, Any]:
    """Table row: milliseconds of each machine, and speeds relative to the first."""
    keys = {k: v for k, v in row.items() if not k.startswith(("seconds ", "speed "))}
    machines = [k.removeprefix("seconds ") for k in row if k.startswith("seconds ")]
    times = {f"{m} (ms)": 1e3 * s if (s := row[f"seconds {m}"]) else None for m in machines}
    speeds = {f"{m} (×)": row[f"speed {m}"] for m in machines[1:]}
    return keys | {k: v and float(f"{v:.3g}") for k, v in (times | speeds).items()}


def _busy(runs: Sequence[Results]) -> list[str]:
    """Lines of the runs that other programs disturbed."""
    from espalier.app.features.kernels.state.row_text import busy_text
    from espalier.kernels.bench.results import columns

    named = zip(columns(runs), map(busy_text, (r.rows for r in runs)), strict=True)
    return [f"{name}: {busy}" for name, busy in named if busy]


def _matching_arguments(results: Results, others: list[Results]) -> str:
    """Hint with arguments that give comparable rows; empty if the other files have none of these kernels."""
    from espalier.kernels.bench.spec import shape_text

    names = {r.kernel for r in results.rows}
    row = next((r for o in others for r in o.rows if r.seconds and r.kernel in names), None)
    if row is None:
        return ""
    return f"Comparable, for example: kernels {row.kernel} --dtype {row.dtype} --shapes {shape_text(row.shape)}"


def _machine(results: Results) -> dict[str, str]:
    from espalier.app.features.kernels.state.row_text import busy_text, rate_of

    values = {"machine": f"{results.machine['name']} ({results.machine['device']}), {results.date}"}
    limits = results.ceilings
    if limits:
        unit, factor = rate_of(limits.device)
        rates = ", ".join(f"{d} {r * factor:.3g} {unit}" for d, r in limits.matmul_tflop_s.items())
        values["ceilings"] = f"copy {limits.copy_gb_s:.4g} GB/s, matrix product {rates}"
    if busy := busy_text(results.rows):
        values["busy"] = busy
    return values


def _row(row: Row) -> dict[str, Any]:
    from espalier.app.features.kernels.state.row_text import rate_of

    cells = row.as_row()
    text = {k: cells[k] for k in ("name", "version", "dtype", "shape")}
    unit, factor = rate_of(row.device)
    figures = {"ms": row.seconds and row.seconds * 1e3, "± %": row.spread and row.spread * 100, "GB/s": row.gb_s,
               unit: row.tflop_s and row.tflop_s * factor, "ratio": row.ratio,
               "roof %": row.of_roof and row.of_roof * 100, "error": row.error}  # fmt: skip
    short = {k: v if v is None else float(f"{v:.3g}") for k, v in figures.items()}
    return {**text, **short, "": row.remark}


def _list_or_source(args: Arguments) -> Answer:
    from espalier.kernels.bench import machine
    from espalier.kernels.bench.catalogue import catalogue
    from espalier.kernels.bench.spec import DEVICES, KERNELS

    for name in args.names:
        KERNELS.get(name)
    infos = [i for i in catalogue() if not args.names or i.name in args.names]
    if not args.source:
        lacks = {d: reason for d in DEVICES if (reason := machine.no_device(d))}
        return Answer({"kernels": [_info(i) for i in infos]}, lambda: _list(infos, lacks))
    if len(args.names) != 1:
        raise UsageError("--source needs exactly one kernel.", "Name one: kernels softmax --source triton.")
    text = KERNELS.get(args.names[0]).version(args.source).source
    return Answer({"name": args.names[0], "version": args.source, "source": text}, text.splitlines)


def _info(info: KernelInfo) -> dict[str, Any]:
    versions = [{"name": v.name, "about": v.about, "devices": v.devices, "missing": dict(v.missing)}
                for v in info.versions]  # fmt: skip
    return {"name": info.name, "title": info.title, "about": info.about, "formula": info.formula, "dims": info.dims,
            "dtypes": info.dtypes, "baseline": info.baseline, "versions": versions}  # fmt: skip


def _list(infos: list[KernelInfo], lacks: dict[str, str]) -> Iterable[str]:
    """Lines of the kernels and versions; why a device is missing is printed once."""
    yield from (f"Nothing runs on {device} here: {reason}." for device, reason in lacks.items())
    for info in infos:
        yield f"{info.name}  {info.title}: {info.about}"
        yield f"    {info.formula}"
        for version in info.versions:
            reason = "; ".join(f"not on {d}: {w}" for d, w in version.missing.items() if d not in lacks)
            yield f"    {version.name}  {version.about}" + (f"  ({reason})" if reason else "")


COMMAND = Command("kernels", "measures kernels against their references", _arguments, _run, DETAILS)
