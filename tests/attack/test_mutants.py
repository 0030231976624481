"""A slice of the mutants in each run of the tests; `make attack` runs 5 000 of each kind."""

from __future__ import annotations

import mmap
import time
from pathlib import Path
from random import Random

import pytest

from espalier.model.errors import SourceError
from tests.attack.mutants import trial
from tests.attack.mutants.kinds import KINDS, Kind, prepared
from tests.attack.mutants.trial import tried
from tests.patience import wall

SLOW = ("projects", "packed", "folders", "adapters", "pt2", "searches")
COUNTS = {name: 6 if name in SLOW else 25 for name in KINDS}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(KINDS))
def test_damaged_files_end_in_a_clear_error(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    seeds = prepared(kind, tmp_path / "sound")
    found = {n: tried(kind, seeds, n, tmp_path / "mutant") for n in range(COUNTS[name])}
    assert not {n: f for n, f in found.items() if f.outcome not in ("clear", "read")}


@pytest.mark.slow
def test_what_fails_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness itself: each way to fail is told as what it is."""
    held: list[mmap.mmap] = []  # fresh pages: the heap of a long run may have as much room already

    def act(path: Path, rng: Random) -> None:
        match path.stem:
            case "key":
                raise KeyError("x")
            case "mute":
                raise SourceError("Something is wrong.")
            case "clear":
                raise SourceError("Something is wrong.", "Mend it.")
            case "slow":
                time.sleep(10 * trial.SECONDS)
            case "large":
                held.append(mmap.mmap(-1, 30 << 20))
                for place in range(0, 30 << 20, mmap.PAGESIZE):
                    held[0][place] = 1
            case _:
                pass

    def outcome(name: str) -> str:
        seed = tmp_path / f"{name}.json"
        seed.write_text("[1]")
        return tried(Kind("own", lambda folder: None, act), [seed], 1, tmp_path / "mutant").outcome

    monkeypatch.setattr(trial, "SECONDS", wall(0.5))
    monkeypatch.setattr(trial, "MEGABYTES", 10)
    names = ("key", "mute", "clear", "slow", "large", "sound")
    assert [outcome(n) for n in names] == ["exit 1", "exit 1", "clear", "over time", "over memory", "read"]


def test_a_mutant_is_always_the_same(tmp_path: Path) -> None:
    seeds = prepared(KINDS["sweeps"], tmp_path / "sound")
    found: list[list[bytes]] = []
    for turn in ("a", "b"):
        made: list[bytes] = []
        for number in range(50):
            folder = tmp_path / f"{turn}{number}"
            folder.mkdir()
            made.append(KINDS["sweeps"].mutant(seeds, folder, Random(f"sweeps {number}")).read_bytes())
        found.append(made)
    assert found[0] == found[1] and len(set(found[0])) > 40
