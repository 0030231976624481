"""`make bench`: run benchmarks one after another, compare with their targets and last records, write one table.

python -m tests.benchmarks [NAME ...] [--keep] [--minutes 10]
python -m tests.benchmarks --records        the table of what is recorded, without running anything
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.benchmarks.record import RESULTS
from tests.benchmarks.table import figures, table

HERE = Path(__file__).parent
TABLE = RESULTS / "TABLE.md"
NEEDS_GPU = "kernels_gpu"


def names() -> list[str]:
    """Every file with a main of its own; those with targets first, in the order of targets.toml."""
    own = [f.stem for f in sorted(HERE.glob("*.py")) if f.stem != "__main__" and '"__main__"' in f.read_text()]
    first = dict.fromkeys(f.benchmark for f in figures())
    return [*first, *(n for n in own if n not in first)]


def records() -> dict[str, Any]:
    """Benchmark → its kept JSON."""
    files = {f.stem: f for f in RESULTS.glob("*.json")}
    return {name: json.loads(files[name].read_text()) for name in names() if name in files}


def run(name: str, keep: bool, minutes: float) -> dict[str, Any] | str:
    """The JSON that a benchmark prints, or one sentence on why there is none."""
    command = [sys.executable, "-m", f"tests.benchmarks.{name}", *(["--keep"] if keep else [])]
    try:
        done = subprocess.run(command, cwd=HERE.parents[1], capture_output=True, text=True, timeout=minutes * 60)
    except subprocess.TimeoutExpired:
        return f"stopped after {minutes:g} min"
    start = ("\n" + done.stdout).rfind("\n{")
    if done.returncode or start < 0:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return f"exit {done.returncode}: {last[:160]}"
    return json.loads(done.stdout[start:])


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def main() -> None:
    """Run what is asked for, and write the table after each."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="benchmarks to run (default: all)")
    parser.add_argument("--keep", action="store_true", help="also write results/NAME.json, the new record")
    parser.add_argument("--minutes", type=float, default=10.0, help="the longest that one may run (default: 10)")
    parser.add_argument("--records", action="store_true", help="run nothing: the table of what is recorded")
    given = parser.parse_args()
    unknown = set(given.names) - set(names())
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}. There are: {', '.join(names())}")
    before = records()
    now: dict[str, dict[str, Any] | str] = {}
    for name in [] if given.records else given.names or names():
        if name == NEEDS_GPU and not _has_gpu():
            print(f"== {name}: no CUDA device", flush=True)
            continue
        print(f"== {name}", flush=True)
        now[name] = run(name, given.keep, given.minutes)
        print(now[name] if isinstance(now[name], str) else table({}, {name: now[name]}, changed_only=True), flush=True)
    TABLE.write_text(table(before, now))
    print(f"{table(before, now)}\nWritten to {TABLE.relative_to(HERE.parents[1])}.")


if __name__ == "__main__":
    main()
