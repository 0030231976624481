"""A pass with gradients that is stopped, killed or short of time: what it gathered is gone on with, to the same end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model.data.base import Split
from model.graph import Graph
from model.opening import open_source
from passes.analysis.evaluate import EvaluateOptions, load_split
from passes.analysis.sensitivity import SensitivityOptions, gather, kept_places, sensitivity
from passes.base import Cancelled, Context
from passes.sensitivity import unfinished
from passes.sensitivity.collect import FEWEST, collect
from passes.sensitivity.evidence import PASSES, Evidence, evidence_folder, load
from passes.sensitivity.places import Place
from passes.sensitivity.unfinished import Unfinished

SAMPLES = 64
SIZE = SAMPLES // PASSES


class Case:
    """A demo whose gradients can be gathered up to a pass."""

    def __init__(self, name: str, folder: Path) -> None:
        opened = open_source(name, folder)
        self.base: Graph = opened.project.base
        self.context = Context(opened.store, base=self.base)
        self.split: Split = load_split(EvaluateOptions(data=name, limit=SAMPLES), self.context)
        _, self.run, self.places = kept_places(self.base, self.base)
        self.options = SensitivityOptions(data=name, limit=SAMPLES, measure=0, configurations=0)

    def collected(self, kept: Unfinished | None, until: int = SAMPLES) -> tuple[Evidence | None, list[int]]:
        """What came of it, or None where it was stopped at so many samples; and the samples as they were told."""
        told: list[int] = []

        def progress(done: int, total: int, text: str) -> None:
            told.append(done)
            if until <= done < total:
                raise Cancelled("stopped")

        try:
            return collect(self.run, self.places, self.split, replace(self.context, progress=progress), kept), told
        except Cancelled:
            return None, told


@pytest.fixture(scope="module", params=["demo:digits-mlp", "demo:reviews"])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    return Case(request.param, tmp_path_factory.mktemp("case"))


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ESPALIER_CACHE", str(tmp_path / "cache"))


def same(first: Evidence, second: Evidence, places: tuple[Place, ...]) -> bool:
    """Bit by bit."""
    assert set(first.pieces) == set(second.pieces)
    for place in places:
        for one, other in zip(first.pieces.get(place.key, ()), second.pieces.get(place.key, ()), strict=True):
            parts: dict[str, Any] = {n: (getattr(one, n), getattr(other, n)) for n in one.__dataclass_fields__}
            if type(one) is not type(other) or not all(np.array_equal(a, b) for a, b in parts.values()):
                return False
    return first.samples == second.samples


def test_what_was_stopped_goes_on_and_comes_to_the_same(case: Case, tmp_path: Path) -> None:
    kept = Unfinished(tmp_path / "e.safetensors")
    assert case.collected(kept, 10)[0] is None
    found, told = case.collected(Unfinished(kept.path), 40)
    assert found is None and told[0] == 10 + SIZE, "the first passes were run again"
    found, told = case.collected(Unfinished(kept.path))
    whole, _ = case.collected(None)
    assert told[0] == 40 + SIZE and found is not None and whole is not None
    assert same(found, whole, case.places)


def test_what_was_killed_goes_on_from_the_last_write(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is told of an end: what was written on the way has to do."""
    monkeypatch.setattr(unfinished, "LEAST", 0.0)
    monkeypatch.setattr(unfinished, "SHARE", 0.0)
    written: list[int] = []

    class Killed(Unfinished):
        def write(self, arrays: Any, facts: Any) -> None:
            if facts["passes"] <= 5:
                super().write(arrays, facts)
                written.append(facts["passes"])

    case.collected(Killed(tmp_path / "e.safetensors"), 20)
    assert written == [1, 2, 3, 4, 5]
    _, told = case.collected(Unfinished(tmp_path / "e.safetensors"), 14)
    assert told[0] == 6 * SIZE


def test_a_damaged_file_is_begun_anew(case: Case, tmp_path: Path) -> None:
    kept = Unfinished(tmp_path / "e.safetensors")
    case.collected(kept, 10)
    kept.path.write_bytes(kept.path.read_bytes()[:-100])
    assert case.collected(Unfinished(kept.path), SIZE)[1] == [SIZE]


def test_what_time_does_not_suffice_for_is_left_to_the_next_run(case: Case) -> None:
    short = replace(case.options, seconds=1e-6, ports=("weight",))
    report = sensitivity(case.base, short, case.context)[1]
    assert report.rows and report.summary["samples"] == FEWEST * SIZE and report.summary["of_samples"] == SAMPLES
    assert not gather(case.base, short, case.context)  # another pass
    assert gather(case.base, replace(short, seconds=0.0), case.context)
    report = sensitivity(case.base, short, case.context)[1]
    assert report.summary["samples"] == SAMPLES and "of_samples" not in report.summary
    whole, _ = case.collected(None)
    assert whole is not None
    first = next(p for p in case.places if p.weight is not None)
    held = load(Path(report.summary["evidence"])).pieces[first.key][0]
    fresh = whole.pieces[first.key][0]
    for name in ("left", "g"):
        if hasattr(held, name):
            np.testing.assert_allclose(getattr(held, name), getattr(fresh, name), rtol=2e-3, atol=1e-3)
    assert not list(evidence_folder().glob("*.unfinished"))


def test_few_candidates_are_measured_where_time_is_short(case: Case) -> None:
    short = replace(case.options, seconds=1e-6, ports=("weight",), measure=4)
    assert "measured" not in sensitivity(case.base, short, case.context)[1].summary
    long = replace(short, seconds=3600.0)
    assert sensitivity(case.base, long, case.context)[1].summary["measured"] == 4
