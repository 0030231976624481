"""kill -9 of the real window at random moments, each time gone on with by the next window as a user would.

    python -m tests.attack.window_kills [--kills 200] [--seed 0]

Held after every kill: the project's file holds a state that was saved; the newest that is left, in the journal or else
in the file, is at most `--lag` older; each trial that was told as finished is found again; no child lives 5 s
later; and the next window takes away what the dead one left, at the latest when its document is saved.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.attack.kills import Run, Tally, fork, orphans

LAG = 1.0  # seconds of edits that a kill may cost
LIVES = 12  # windows one after another in one folder
PATIENCE = 120.0  # seconds that a window has to open
LIFE = 5.0  # seconds at most between the opening and the kill


@dataclass
class Place:
    """A folder with what its windows left, one after another, and what must be there."""

    folder: Path
    recipe: str = ""  # where it stands: what must be found
    held: str = ""  # what the file held when the last window was killed, or else the demo
    file: list[str] = field(default_factory=list[str])  # what the project's file may hold, the last that was told first
    trials: dict[str, set[int]] = field(default_factory=dict[str, set[int]])
    lag: float = LAG
    dead: set[str] = field(default_factory=set[str])  # what dead windows left, and must not outlive the next start
    lags: list[float] = field(default_factory=list[float])
    opened: int = 0
    saved: int = 0
    recovered: int = 0

    def told(self) -> list[dict[str, Any]]:
        """The lines of the window that runs, or ran last."""
        path = self.folder / "told"
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        return [json.loads(line) for line in lines]

    def start(self, seed: int) -> Run:
        """A window."""
        from tests.attack.driven_window import drive

        (self.folder / "told").unlink(missing_ok=True)
        return fork(lambda: drive(self.folder, seed), self.folder)

    def after(self, killed: float) -> list[str]:
        """What is wrong, by what the window had told before it was killed then."""
        lines = self.told()
        problems = [*self._heard(lines), *self._file()]
        allowed, begun = self._states(lines, killed)
        try:
            found = self._found()
        except Exception as error:  # noqa: BLE001  # whatever it is, what was left cannot be read
            return [*problems, f"left over, but unreadable: {type(error).__name__}: {error}"]
        if found in allowed:
            newer = allowed[len(allowed) - 1 - allowed[::-1].index(found) + 1 :]
            self.lags.append(killed - begun[len(allowed) - len(newer)] if newer else 0.0)
        else:
            ages = [round(killed - at, 2) for at in begun]
            problems.append(f"lost: {found} is left, not one of {list(zip(allowed, ages, strict=True))[-6:]}")
        self.recipe = found
        return problems

    def _heard(self, lines: list[dict[str, Any]]) -> Iterator[str]:
        """Take in what it told; what was wrong already then."""
        for line in lines:
            yield from self._saw(line["what"], line)
            self._counted(line["what"], line)

    def _saw(self, what: str, line: dict[str, Any]) -> Iterator[str]:
        if what in ("opened", "settled") and line["recipe"] != self.recipe:
            yield f"{what} with {line['recipe']} instead of {self.recipe}"
        if what == "opened":
            for name, known in self.trials.items():
                if lost := known - set(line["studies"].get(name, [])):
                    yield f"{len(lost)} of {len(known)} trials lost ({name})"
        if what in ("discarded", "clean") and line["left"]:
            yield f"{what}, but left: {line['left']}"
        if what == "tidied":
            yield from (f"not tidied: {Path(p).name}" for p in sorted(self.dead & set(line["there"])))
        if what in ("save failed", "problem", "refused"):
            yield f"{what}: {line['text']}"

    def _counted(self, what: str, line: dict[str, Any]) -> None:
        match what:
            case "opened":
                self.opened += 1
                self.trials = {name: set(found) for name, found in line["studies"].items()}
            case "recovering":
                self.recovered += 1
            case "trial":
                self.trials.setdefault(line["study"], set()).add(line["number"])
            case "discarding":
                self.recipe, self.trials = self.held, {}
            case "tidied":
                self.dead.clear()
            case "saving":
                self.file.append(line["recipe"])
            case "saved":
                self.saved += 1
                self.file = self.file[self.file.index(line["recipe"]) :]
            case _:
                pass

    def _in_file(self) -> str:
        """The recipe of the project's file, or of the demo where there is none."""
        from espalier.model.document.project import load_project
        from espalier.model.document.recipe import Recipe
        from espalier.model.store.weights import WeightStore
        from tests.attack.driven_window import PROJECT, mark

        path = self.folder / PROJECT
        if not path.exists():
            return mark(Recipe())
        with zipfile.ZipFile(path) as archive:
            assert archive.testzip() is None
        with tempfile.TemporaryDirectory() as work:
            return mark(load_project(path, WeightStore(Path(work))).recipe)

    def _file(self) -> list[str]:
        try:
            self.held = self._in_file()
        except Exception as error:  # noqa: BLE001  # whatever it is, the file cannot be read
            return [f"unreadable: {type(error).__name__}: {error}"]
        if self.file and self.held not in self.file:
            return [f"the file holds {self.held}, which nobody saved"]
        return []

    def _states(self, lines: list[dict[str, Any]], killed: float) -> tuple[list[str], list[float]]:
        """The states of which one must be left, and when each began: the last older than the lag, and all newer."""
        states = [(self.recipe, 0.0), *((n["recipe"], n["at"]) for n in lines if n["what"] in ("state", "journalled"))]
        first = max(i for i, (_, at) in enumerate(states) if at <= killed - self.lag)
        return [s for s, _ in states[first:]], [at for _, at in states[first:]]

    def _found(self) -> str:
        from espalier.app.session.recovery import unsaved_projects
        from tests.attack.driven_window import mark

        self.dead |= {str(p) for p in (*(self.folder / "tmp").iterdir(), *self.folder.glob(".espalier-*"),
                                       *self.folder.glob("state/recovery/.espalier-*"))}  # fmt: skip
        self.dead = {p for p in self.dead if not Path(p).name.startswith("torchinductor")}
        left = unsaved_projects()
        kept = {p.name.partition(".")[0] for p in self.folder.glob("state/recovery/[!.]*")}
        self.dead |= {str(self.folder / "state" / "recovery" / k) for k in kept - {x.journal.stem for x in left}}
        return mark(left[0].edits.recipe) if left else self.held

    def more_than_one(self) -> list[str]:
        """Of one document one offer is made."""
        from espalier.app.session.recovery import unsaved_projects

        return [f"{len(left)} leftovers of one document"] if len(left := unsaved_projects()) > 1 else []

    def crashes(self) -> list[str]:
        """Reports of exceptions that nobody caught."""
        found = [p.read_text() for p in self.folder.glob("state/crashes/*.txt")]
        shutil.rmtree(self.folder / "state" / "crashes", ignore_errors=True)
        return [f"crash: {text[-900:]}" for text in found]


def begin(folder: Path, lag: float) -> Place:
    """A new place, whose first window opens the demo."""
    from espalier.model.document.recipe import Recipe
    from tests.attack.driven_window import mark

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    os.environ["ESPALIER_STATE"] = str(folder / "state")
    return Place(folder, mark(Recipe()), mark(Recipe()), lag=lag)


def live(place: Place, drawn: random.Random, tally: Tally) -> None:
    """One window, from its start to its kill."""
    run, begun = place.start(drawn.randrange(2**32)), time.monotonic()
    early = drawn.random() < 0.15
    end = begun + drawn.uniform(0, 4) if early else begun + PATIENCE
    opened = False
    while time.monotonic() < end and not run.ended():
        time.sleep(0.01)
        if not opened and not early and any(n["what"] == "settled" for n in place.told()):
            opened, end = True, time.monotonic() + drawn.uniform(0, LIFE)
    if run.ended():
        tally.problems.append(f"ended by itself, exit {run.code}: {run.said()[-600:]}")
    elif not opened and not early:
        tally.problems.append(f"not settled within {PATIENCE:g} s: {[n['what'] for n in place.told()][-5:]}")
    killed = time.time()
    below = run.kill()
    tally.kills += 1
    problems = [*orphans(below, tally), *place.after(killed), *place.more_than_one(), *place.crashes()]
    if "Traceback" in (said := run.said()):
        problems.append(said[said.index("Traceback") :][-900:])
    tally.amid += any(n["what"] == "state" for n in place.told())
    if problems and (keep := os.environ.get("KEEP_KILLED")):
        shutil.copytree(place.folder, Path(keep) / f"{os.getpid()}-{tally.kills}", dirs_exist_ok=True)
    tally.problems += [f"kill {tally.kills}: {p}" for p in problems]
    if problems or not tally.kills % 10:
        sys.stderr.write("".join(f"kill {tally.kills}: {p}\n" for p in problems or ["well so far"]))


def attack(folder: Path, kills: int, seed: int, end: float, lag: float) -> tuple[Tally, list[Place]]:
    """Kill so often, in new folders now and then, until that moment at most."""
    drawn, tally, places = random.Random(seed), Tally(), list[Place]()
    while tally.kills < kills and time.monotonic() < end:
        places.append(begin(folder / "own", lag))
        for _ in range(min(LIVES, kills - tally.kills)):
            if time.monotonic() < end:
                live(places[-1], drawn, tally)
    return tally, places


def main(words: list[str] | None = None) -> int:
    """Kill and tell; 1 where anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lag", type=float, default=LAG, help="seconds of edits that a kill may cost")
    parser.add_argument("--minutes", type=float, default=1e6, help="the longest that it may take")
    found = parser.parse_args(words)
    os.environ.update({f"{n}_NUM_THREADS": "1" for n in ("OMP", "MKL", "NUMBA")})
    os.environ.update({"ESPALIER_NO_CACHE": "1", "QT_QPA_PLATFORM": "offscreen"})
    with tempfile.TemporaryDirectory(prefix="window-kills-") as place:
        folder, begun = Path(place).resolve(), time.monotonic()
        os.environ.update({f"XDG_{kind}_HOME": f"{folder}/{kind}" for kind in ("CONFIG", "DATA", "STATE")})
        from espalier.app.shell import docks, lazy_panels  # noqa: F401  # so that forks need not import them

        tally, places = attack(folder, found.kills, found.seed, begun + 60 * found.minutes, found.lag)
    counts = {name: sum(getattr(p, name) for p in places) for name in ("opened", "saved", "recovered")}
    lags = sorted(lag for p in places for lag in p.lags)
    print(f"window: {tally.kills} kills, {tally.amid} amid edits, {counts}, {len(tally.problems)} problems; "
          f"edits lost: {sum(x > 0 for x in lags)} times, at most of the last {max(lags, default=0):.2f} s; "
          f"last child gone after {tally.slowest:.2f} s; {time.monotonic() - begun:.0f} s")  # fmt: skip
    for problem in tally.problems[:40]:
        print(f"  {problem}")
    return 1 if tally.problems else 0


if __name__ == "__main__":
    sys.exit(main())
