"""All rows of kernels on a CUDA GPU, at the sizes that fill it; --help tells what is to be run when there is one."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from espalier.kernels.bench import machine
from espalier.kernels.bench.request import Request
from espalier.kernels.bench.results import Results, Row, check_writable, load, save
from espalier.kernels.bench.run import Case, cases_of, results_of, run, run_part
from espalier.kernels.bench.spec import KERNELS

LATER = """\
to run when there is a GPU:
  python -m tests.benchmarks.kernels_gpu --check            odd shapes, every dtype, against references: minutes
  python -m tests.benchmarks.kernels_gpu -o FILE.json       all rows, bfloat16; ends after --minutes (8): exit code 3
  the same again                                            goes on where FILE.json ends, until the exit code is 0
  main.py kernels --compare tests/benchmarks/results/kernels-nvidia-h200.json FILE.json
Set ESPALIER_CACHE to a folder that is kept, or launch settings are tried anew in each call. Rows below their targets in
kernels-nvidia-h200.json: mxint8_linear m=16 0.93x (1.4 wanted), m=256 0.56x (0.8); mxint4_linear m=1 0.79x;
fake_quant_nvfp4 50 % of a copy (80 %), scaled_integer, binary_scaled, binary_residual, ternary 1-6 %;
linear_gelu 0.86x.
These first:
  python -m tests.benchmarks.kernels_gpu mxint8_linear mxint4_linear linear_gelu -o products.json"""
UNFINISHED = 3
FAULT = "CUDA error"
ODD = {
    "softmax": ("777x1000", "3x70001", "5x1"), "attention": ("2x3x200x64x1x0", "1x2x77x128x0x1", "1x2x130x80x1x1"),
    "linear_gelu": ("33x100x77",), "mxint8_linear": ("1x333x1000", "3x64x45", "17x129x256", "200x130x96"),
    "mxint4_linear": ("1x333x1000", "3x64x45", "17x129x256", "200x130x96"), "mxint8_matmul": ("33x70x100", "130x40x64"),
    "layer_norm": ("33x1000", "5x777"), "layer_norm_backward": ("33x1000", "500x777"),
}  # fmt: skip


def checked(device: str, names: Sequence[str]) -> int:
    """Rows at odd shapes, none of them timed for long; tells those that failed. 1 where a result was wrong."""
    rows: list[Row] = []
    for name in names or tuple(KERNELS):
        shapes = ODD.get(name, ("33x100",))
        wish = Request((name,), device, ("float32", "bfloat16", "float16"), shapes, seconds=0.0, rounds=1)
        rows += run(replace(wish, ceilings=False)).rows
    rows = [r for r in rows if device == "cpu" or r.version != "numba"]
    for row in rows:
        if row.problem:
            print(row.kernel, row.version, row.dtype, row.shape, row.problem)
    print(f"{sum(r.correct is True for r in rows)} of {len(rows)} rows are right")
    return int(any(r.correct is False for r in rows))


def measured(request: Request, path: Path, minutes: float) -> int:
    """Measure what `path` lacks, written after each size; 0 when all is there."""
    check_writable(path)
    asks, done = cases_of(request), _before(request, path)
    heard: list[object] = [*([done.ceilings] if done and done.ceilings else []), *(done.rows if done else ())]
    had = {(r.kernel, r.dtype, tuple(r.shape.items())) for r in done.rows} if done else set()
    first = next((i for i, a in enumerate(asks) if (a.kernel.name, a.dtype, tuple(a.shape.items())) not in had), None)
    if first is None:
        print(f"{path} has all {len(asks)} sizes")
        return 0
    until, at, before = time.monotonic() + 60 * minutes, first, len(heard)

    def enough() -> bool:
        save(results_of(request, heard), path)
        return time.monotonic() > until or broken(heard[before:])

    def progress(now: int, total: int, text: str) -> None:
        """Nothing is told within a size."""
        nonlocal at
        at = now

    try:
        left = run_part(request, progress, heard.append, first, done.ceilings if done else None, enough)
    except RuntimeError as error:
        if FAULT not in str(error):
            raise
        heard += lost(asks[at], request.device, heard, str(error).splitlines()[0])
        left = (at + 1) % len(asks)
    save(results_of(request, heard), path)
    print(f"{left or len(asks)} of {len(asks)} sizes are in {path}" + ("; run the same again" if left else ""))
    return UNFINISHED if left else 0


def broken(heard: Sequence[object]) -> bool:
    """Whether a kernel has ended this process's use of the GPU: from then on all fail, and only a new process helps."""
    return any(isinstance(one, Row) and FAULT in one.problem and "out of memory" not in one.problem for one in heard)


def lost(ask: Case, device: str, heard: Sequence[object], why: str) -> list[Row]:
    """Rows for the versions of a size that ended before they told anything, so that it is not run for ever."""
    told = {(r.kernel, r.version, r.dtype, tuple(r.shape.items())) for r in heard if isinstance(r, Row)}
    keys = [(ask.kernel.name, v.name, ask.dtype, tuple(ask.shape.items())) for v in ask.kernel.versions]
    return [Row(k[0], k[1], device, k[2], ask.shape, problem=why) for k in keys if k not in told]


def _before(request: Request, path: Path) -> Results | None:
    """What an earlier call measured; a file of another request or card is not gone on with."""
    if not path.exists():
        return None
    done = load(path)
    here = machine.name(request.device)
    wish = {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(request).items()}
    if done.settings != wish or done.machine.get("name") != here:
        sys.exit(f"{path} is of other settings or of another machine. Give another file.")
    return done


def main(words: Sequence[str] | None = None) -> int:
    """Measure all, or only check."""
    parser = argparse.ArgumentParser("kernels_gpu", epilog=LATER, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="kernels (default: all)")
    parser.add_argument("-o", "--output", metavar="FILE.json", type=Path, help="where rows are kept; gone on with")
    parser.add_argument("--check", action="store_true", help="only hold odd shapes to their references")
    parser.add_argument("--minutes", type=float, default=8, help="after which to end, once a size is measured")
    parser.add_argument("--dtype", default="bfloat16", help="float32, bfloat16 or float16")
    parser.add_argument("--shapes", nargs="+", default=[], help="such as 4096x1024; none: those of each kernel")
    parser.add_argument("--seconds", type=float, default=0.2, help="of rounds for each version and size")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="cpu: to try this script")
    found = parser.parse_args(words)
    if why := machine.no_device(found.device):
        parser.error(f"kernels cannot run on {found.device}: {why}")
    if found.check:
        return checked(found.device, found.names)
    if found.output is None:
        parser.error("where to? Give -o FILE.json, or --check")
    wish = Request(tuple(found.names), found.device, (found.dtype,), tuple(found.shapes), seconds=found.seconds)
    return measured(wish, found.output, found.minutes)


if __name__ == "__main__":
    sys.exit(main())
