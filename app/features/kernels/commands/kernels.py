"""`kernels`: measures kernels against their references, lists them, shows their source, compares results files."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.app.commands.command import Answer, Arguments, Command, Parser, UsageError
from espalier.app.commands.console import Console, facts, table

if TYPE_CHECKING:
    from espalier.kernels.bench.results import Results, Row
    from espalier.kernels.bench.spec import KernelInfo

WIDTH = 100
DETAILS = """\
Without a name all kernels run, at a few sizes each. Every version is held to a reference in double precision in the
same run. All versions take turns, round by round; the caches are written over before each call. ±: half the distance
of the quartiles. ratio: how many times as fast as the baseline. roof: share of what the measured bandwidth and matrix
rate of this machine allow; none for what was faster than that."""


def _arguments(parser: Parser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="kernels (default: all)")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="default: cuda where there is one")
    parser.add_argument("--shapes", nargs="+", default=[], metavar="SHAPE", help="such as m=4096,n=1024 or 4096x1024")
    parser.add_argument("--sweep", action="store_true", help="the sizes of the kernel's curve instead")
    parser.add_argument("--dtype", default="", metavar="A,B", help="float32, bfloat16, float16 (default: by device)")
    parser.add_argument("--versions", default="", metavar="A,B", help="only these versions, and the baseline")
    parser.add_argument("--seconds", type=float, default=0.2, help="of rounds for each version and shape (default 0.2)")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads; 0: torch's default")
    parser.add_argument("--list", action="store_true", help="list kernels and what can run here; measures nothing")
    parser.add_argument("--source", metavar="VERSION", help="print the text of a version; measures nothing")
    parser.add_argument("--compare", nargs="+", default=[], metavar="FILE", help="compare results files")
    parser.add_argument("--answers", action="store_true", help="how it works, with figures measured here; NAMEs are "
                        "then questions: compile, softmax, attention, mxint8, tiles, memory, roofline")  # fmt: skip
    parser.add_argument("--model", metavar="SOURCE", help="with --answers memory: the lines of this model too")
    parser.add_argument("-o", "--output", metavar="FILE.json", help="keep the results")


def _run(found: Arguments, console: Console) -> Answer:
    console.progress(0, 0, "loading")
    if found.answers:
        from espalier.app.features.kernels.commands.kernel_answers import answered

        return answered(found, console)
    if found.model:
        raise UsageError("--model is of use to --answers alone.", "Add --answers memory.")
    if found.list or found.source:
        return _shown(found)
    if found.compare and not found.names and not found.output:
        return _compared([_load(p) for p in found.compare])
    return _measured(found, console)


def _request(found: Arguments) -> Any:
    import torch

    from espalier.kernels.bench.run import Request

    if found.threads < 0:
        raise UsageError(f"--threads cannot be {found.threads}.", "Give 1 or more, or 0 for torch's own number.")
    if not 0 <= found.seconds < float("inf"):
        raise UsageError(f"--seconds cannot be {found.seconds:g}.", "Give seconds such as 0.2; 0 runs three rounds.")
    device = found.device or ("cuda" if torch.cuda.is_available() else "cpu")
    dtypes = _words(found.dtype) or (("bfloat16",) if device == "cuda" else ("float32",))
    return Request(tuple(found.names), device, dtypes, tuple(found.shapes), _words(found.versions), found.sweep,
                   found.seconds, threads=found.threads, seed=found.seed)  # fmt: skip


def _words(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (w.strip() for w in text.split(","))))


def _measured(found: Arguments, console: Console) -> Answer:
    from espalier.kernels.bench import run
    from espalier.kernels.bench.results import check_place, compared, dumped, save

    others, request, heard = [_load(p) for p in found.compare], _request(found), list[object]()
    if found.output:
        check_place(Path(found.output))
    try:
        results = run.run(request, console.progress, heard.append)
    except KeyboardInterrupt:
        if found.output and heard:
            save(run.gathered(request, heard), Path(found.output))
            console.note(f"Stopped; what was measured until then is in {found.output}.")
        raise
    console.clear()
    data = dumped(results) | {"rows": [r.told() for r in results.rows]}
    if found.output:
        save(results, Path(found.output))
        data["output"] = found.output
    if others:
        data["compared"] = compared([*others, results])
        data["hint"] = "" if data["compared"] else _alike(results, others)
        data["busy"] = _busy([*others, results])
    return Answer(data, lambda: _lines(results, data))


def _load(path: str) -> Results:
    from espalier.kernels.bench.results import load

    return load(Path(path))


def _compared(runs: list[Results]) -> Answer:
    from espalier.kernels.bench.results import compared, dumped

    if len(runs) == 1:
        return Answer(dumped(runs[0]), lambda: _lines(runs[0], {}))
    rows = compared(runs)
    return Answer({"files": [r.label for r in runs], "compared": rows, "busy": _busy(runs)},
                  lambda: [*_beside(rows), *_busy(runs)])  # fmt: skip


def _lines(results: Results, data: dict[str, Any]) -> Iterable[str]:
    yield from facts(_machine(results))
    yield ""
    yield from table([_row(r) for r in results.rows if r.seconds])
    yield from _untimed(results.rows)
    if "compared" in data:
        yield ""
        yield from _beside(data["compared"], data["hint"])
        yield from data["busy"]
    if "output" in data:
        yield f"written to {data['output']}"


def _untimed(rows: Iterable[Row]) -> Iterable[str]:
    """Each reason why there is no time, once, and whose it is; sizes only where others of the version were timed."""
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
    for why, names in whose.items():
        yield f"  {why}:"
        yield from textwrap.wrap(", ".join(names), WIDTH, initial_indent="    ", subsequent_indent="    ")


def _beside(rows: list[dict[str, Any]], hint: str = "") -> Iterable[str]:
    nothing = "Nothing was measured in more than one: no kernel, version, dtype and shape alike."
    return table([_compared_row(r) for r in rows]) if rows else [nothing, *([hint] if hint else [])]


def _compared_row(row: dict[str, Any]) -> dict[str, Any]:
    """Milliseconds of each machine, and how many times as fast each after the first is."""
    told = {k: v for k, v in row.items() if not k.startswith(("seconds ", "speed "))}
    machines = [k.removeprefix("seconds ") for k in row if k.startswith("seconds ")]
    times = {f"{m} (ms)": 1e3 * s if (s := row[f"seconds {m}"]) else None for m in machines}
    speeds = {f"{m} (×)": row[f"speed {m}"] for m in machines[1:]}
    return told | {k: v and float(f"{v:.3g}") for k, v in (times | speeds).items()}


def _busy(runs: Sequence[Results]) -> list[str]:
    """Which runs were measured beside other programs, whose times then cannot be held against others."""
    from espalier.app.features.kernels.state.words import busy_words
    from espalier.kernels.bench.results import columns

    told = zip(columns(runs), map(busy_words, (r.rows for r in runs)), strict=True)
    return [f"{name}: {busy}" for name, busy in told if busy]


def _alike(results: Results, others: list[Results]) -> str:
    """What to ask for, so that something is alike; empty where the other files have none of these kernels."""
    from espalier.kernels.bench.spec import shape_text

    names = {r.kernel for r in results.rows}
    held = next((r for o in others for r in o.rows if r.seconds and r.kernel in names), None)
    if held is None:
        return ""
    return f"There is, for one: kernels {held.kernel} --dtype {held.dtype} --shapes {shape_text(held.shape)}"


def _machine(results: Results) -> dict[str, str]:
    from espalier.app.features.kernels.state.words import busy_words, rate_of

    shown = {"machine": f"{results.machine['name']} ({results.machine['device']}), {results.date}"}
    limits = results.ceilings
    if limits:
        unit, factor = rate_of(limits.device)
        rates = ", ".join(f"{d} {r * factor:.3g} {unit}" for d, r in limits.matmul_tflop_s.items())
        shown["ceilings"] = f"copy {limits.copy_gb_s:.4g} GB/s, matrix product {rates}"
    if busy := busy_words(results.rows):
        shown["busy"] = busy
    return shown


def _row(row: Row) -> dict[str, Any]:
    from espalier.app.features.kernels.state.words import rate_of

    told = row.told()
    text = {k: told[k] for k in ("name", "version", "dtype", "shape")}
    unit, factor = rate_of(row.device)
    figures = {"ms": row.seconds and row.seconds * 1e3, "± %": row.spread and row.spread * 100, "GB/s": row.gb_s,
               unit: row.tflop_s and row.tflop_s * factor, "ratio": row.ratio,
               "roof %": row.of_roof and row.of_roof * 100, "error": row.error}  # fmt: skip
    short = {k: v if v is None else float(f"{v:.3g}") for k, v in figures.items()}
    return {**text, **short, "": row.remark}


def _shown(found: Arguments) -> Answer:
    from espalier.kernels.bench import machine
    from espalier.kernels.bench.catalogue import catalogue
    from espalier.kernels.bench.spec import DEVICES, KERNELS

    for name in found.names:
        KERNELS.get(name)
    infos = [i for i in catalogue() if not found.names or i.name in found.names]
    if not found.source:
        lacks = {d: why for d in DEVICES if (why := machine.no_device(d))}
        return Answer({"kernels": [_info(i) for i in infos]}, lambda: _list(infos, lacks))
    if len(found.names) != 1:
        raise UsageError("The source of which kernel?", "Name one: kernels softmax --source triton.")
    text = KERNELS.get(found.names[0]).version(found.source).source
    return Answer({"name": found.names[0], "version": found.source, "source": text}, text.splitlines)


def _info(info: KernelInfo) -> dict[str, Any]:
    versions = [{"name": v.name, "about": v.about, "devices": v.devices, "missing": dict(v.missing)}
                for v in info.versions]  # fmt: skip
    return {"name": info.name, "title": info.title, "about": info.about, "formula": info.formula, "dims": info.dims,
            "dtypes": info.dtypes, "baseline": info.baseline, "versions": versions}  # fmt: skip


def _list(infos: list[KernelInfo], lacks: dict[str, str]) -> Iterable[str]:
    """What there is; why a device is not here is said once, not of each version."""
    yield from (f"Nothing runs on {device} here: {why}." for device, why in lacks.items())
    for info in infos:
        yield f"{info.name}  {info.title}: {info.about}"
        yield f"    {info.formula}"
        for version in info.versions:
            why = "; ".join(f"not on {d}: {w}" for d, w in version.missing.items() if d not in lacks)
            yield f"    {version.name}  {version.about}" + (f"  ({why})" if why else "")


COMMAND = Command("kernels", "measures kernels against their references", _arguments, _run, DETAILS)
