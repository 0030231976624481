"""Runs the mutants of some kinds or all, each kind in a process of its own, and prints what came of them.

`python -m tests.attack.mutants [KIND …] [--count N] [--first N] [--at N] [-o FILE]`. A process that does not come back
within a minute is ended, counted as over time, and goes on with the next mutant.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.attack.mutants.kinds import KINDS, Kind, known, prepared
from tests.attack.mutants.trial import OUTCOMES, SECONDS, Found, limit_memory, tried

COUNT = 5000
PATIENCE = 3 * SECONDS
SHOWN = 12  # failures of a kind that are told, each place once


def main() -> int:
    """Run, print the table, write the JSON; 1 where anything failed."""
    found = _arguments()
    if found.at is not None:
        return _one(known(found.kinds)[0], found.at)
    rows: dict[str, Any] = {}
    for kind in known(found.kinds):
        rows[kind.name] = run(kind, range(found.first, found.first + found.count))
        print(_line(kind.name, rows[kind.name]), flush=True)
        for text, (count, number) in [*rows[kind.name]["failures"].items()][:SHOWN]:
            print(f"    {count:4} × {text}   (--at {number})", flush=True)
    if found.output:
        Path(found.output).parent.mkdir(parents=True, exist_ok=True)
        Path(found.output).write_text(json.dumps(rows, indent=1) + "\n")
    return int(any(row["failures"] for row in rows.values()))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.attack.mutants")
    parser.add_argument("kinds", nargs="*", choices=[*KINDS, []], metavar="KIND")
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--at", type=int)
    parser.add_argument("-o", "--output")
    return parser.parse_args()


def _line(name: str, row: dict[str, Any]) -> str:
    counts = "  ".join(f"{o} {row[o]:5}" for o in OUTCOMES)
    return (f"{name:15} {row['count']:5}  {counts}  longest {row['longest']:.1f} s, {row['largest']:.0f} MB; "
            f"{row['seconds']:.0f} s")  # fmt: skip


def run(kind: Kind, numbers: range) -> dict[str, Any]:
    """Counts of outcomes, and each failure's place with how often and an example."""
    begin, held = time.monotonic(), Counter[str]()
    failures: dict[str, tuple[int, int]] = {}
    longest = largest = 0.0
    for number, found in _all(kind, numbers):
        held[found.outcome] += 1
        longest, largest = max(longest, found.seconds), max(largest, found.megabytes)
        if found.outcome not in ("clear", "read"):
            text = f"{found.outcome}: {found.why}"
            count, first = failures.get(text, (0, number))
            failures[text] = count + 1, first
    failures = dict(sorted(failures.items(), key=lambda f: -f[1][0]))
    return {"count": len(numbers), **{o: held[o] for o in OUTCOMES}, "longest": longest, "largest": largest,
            "seconds": time.monotonic() - begin, "failures": failures}  # fmt: skip


def _all(kind: Kind, numbers: range) -> Any:
    """(number, what came of it) of each; a process that hangs or dies is followed by another."""
    context = multiprocessing.get_context("spawn")
    at = numbers.start
    with tempfile.TemporaryDirectory(prefix="espalier-mutants-") as folder:
        while at < numbers.stop:
            ours, theirs = context.Pipe()
            work = context.Process(target=_work, args=(kind.name, at, numbers.stop, folder, theirs))
            work.start()
            theirs.close()
            for number, found in _heard(ours, at, numbers.stop):
                at = number + 1
                yield number, found
            work.kill()
            work.join()


def _heard(ours: Connection, at: int, stop: int) -> Any:
    patience = 10 * PATIENCE  # for the sound files
    while at < stop:
        try:
            if not ours.poll(patience):
                yield at, Found("over time", "the process did not come back", patience)
                return
            found = ours.recv()
        except EOFError:
            yield at, Found("exit 1", "the process died")
            return
        yield at, found
        at, patience = at + 1, PATIENCE


def _environment(folder: Path) -> None:
    """Nothing of the user's own is read or written."""
    for name in ("ESPALIER_STATE", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        os.environ[name] = str(folder / name.lower())
    os.environ.update(ESPALIER_PLUGINS="", HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false",
                      TRANSFORMERS_VERBOSITY="error", TQDM_DISABLE="1")  # fmt: skip


def _work(name: str, first: int, stop: int, folder: str, theirs: Connection) -> None:
    kind, home = KINDS[name], Path(folder)
    _environment(home)
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    seeds = _seeds(kind, home / "sound")
    limit_memory()
    for number in range(first, stop):
        theirs.send(tried(kind, seeds, number, home / "mutant"))


def _seeds(kind: Kind, folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.exists() else prepared(kind, folder)


def _one(kind: Kind, number: int) -> int:
    """One mutant, left where it lies, with its whole traceback."""
    from random import Random

    home = Path(tempfile.mkdtemp(prefix="espalier-mutant-"))
    _environment(home)
    seeds, rng = prepared(kind, home / "sound"), Random(f"{kind.name} {number}")
    (home / "mutant").mkdir()
    path = kind.mutant(seeds, home / "mutant", rng)
    print(path, flush=True)
    kind.act(path, rng)
    return 0
