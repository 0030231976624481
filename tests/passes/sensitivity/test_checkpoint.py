"""A pass with gradients that is stopped, killed or short of time: what it gathered is gone on with, to the same end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from espalier.model.data.base import Split
from espalier.model.errors import ProjectError
from espalier.model.formats.base import parse_format
from espalier.model.graph.graph import Graph
from espalier.model.opening import open_source
from espalier.model.trust import Origin
from espalier.passes.analysis.sensitivity import SensitivityOptions, gather, gradient_ports, sensitivity
from espalier.passes.base import Cancelled, Context
from espalier.passes.running.splits import EvaluateOptions, load_split
from espalier.passes.sensitivity import checkpoint, gradient_statistics
from espalier.passes.sensitivity.checkpoint import GradientCheckpoint
from espalier.passes.sensitivity.collect import MIN_PASSES, collect
from espalier.passes.sensitivity.gradient_statistics import PASSES, GradientStatistics, load, save, statistics_folder
from espalier.passes.sensitivity.ports import FormatPort
from tests.benchmarks.sensitivity import FORMATS, measured_key

SAMPLES = 64
SIZE = SAMPLES // PASSES


class Case:
    """A demo whose gradients can be gathered up to a pass."""

    def __init__(self, name: str, folder: Path) -> None:
        opened = open_source(name, folder, origin=Origin.TYPED)
        self.base: Graph = opened.project.base
        self.context = Context(opened.store, base=self.base)
        self.split: Split = load_split(EvaluateOptions(data=name, limit=SAMPLES), self.context)
        _, self.run, self.places = gradient_ports(self.base, self.base)
        self.options = SensitivityOptions(data=name, limit=SAMPLES, measure=0, configurations=0)

    def collected(
        self, kept: GradientCheckpoint | None, until: int = SAMPLES
    ) -> tuple[GradientStatistics | None, list[int]]:
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


def same(first: GradientStatistics, second: GradientStatistics, places: tuple[FormatPort, ...]) -> bool:
    """Bit by bit."""
    assert set(first.pieces) == set(second.pieces)
    for place in places:
        for one, other in zip(first.pieces.get(place.key, ()), second.pieces.get(place.key, ()), strict=True):
            parts: dict[str, Any] = {n: (getattr(one, n), getattr(other, n)) for n in one.__dataclass_fields__}
            if type(one) is not type(other) or not all(np.array_equal(a, b) for a, b in parts.values()):
                return False
    return first.samples == second.samples


@pytest.mark.slow
def test_what_was_stopped_goes_on_and_comes_to_the_same(case: Case, tmp_path: Path) -> None:
    kept = GradientCheckpoint(tmp_path / "e.safetensors")
    assert case.collected(kept, 10)[0] is None
    found, told = case.collected(GradientCheckpoint(kept.path), 40)
    assert found is None and told[0] == 10 + SIZE, "the first passes were run again"
    found, told = case.collected(GradientCheckpoint(kept.path))
    whole, _ = case.collected(None)
    assert told[0] == 40 + SIZE and found is not None and whole is not None
    assert same(found, whole, case.places)


@pytest.mark.slow
def test_what_was_killed_goes_on_from_the_last_write(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is told of an end: what was written on the way has to do."""
    monkeypatch.setattr(checkpoint, "MIN_INTERVAL", 0.0)
    monkeypatch.setattr(checkpoint, "RATIO", 0.0)
    written: list[int] = []

    class Killed(GradientCheckpoint):
        def write(self, arrays: Any, facts: Any) -> None:
            if facts["passes"] <= 5:
                super().write(arrays, facts)
                written.append(facts["passes"])

    case.collected(Killed(tmp_path / "e.safetensors"), 20)
    assert written == [1, 2, 3, 4, 5]
    _, told = case.collected(GradientCheckpoint(tmp_path / "e.safetensors"), 14)
    assert told[0] == 6 * SIZE


@pytest.mark.slow
def test_a_damaged_file_is_begun_anew(case: Case, tmp_path: Path) -> None:
    kept = GradientCheckpoint(tmp_path / "e.safetensors")
    case.collected(kept, 10)
    kept.path.write_bytes(kept.path.read_bytes()[:-100])
    assert case.collected(GradientCheckpoint(kept.path), SIZE)[1] == [SIZE]


@pytest.mark.slow
@pytest.mark.parametrize("lacking", ["random", "weight0/left", "rows0/peak", "all facts"])
def test_a_state_of_another_layout_is_begun_anew(case: Case, tmp_path: Path, lacking: str) -> None:
    kept = GradientCheckpoint(tmp_path / "e.safetensors")
    case.collected(kept, 10)
    state = kept.read()
    assert state is not None
    arrays, facts = {k: v for k, v in state[0].items() if k != lacking}, state[1]
    kept.write(arrays, {"passes": 3} if lacking == "all facts" else facts)
    found, told = case.collected(GradientCheckpoint(kept.path))
    whole, _ = case.collected(None)
    assert told[0] == SIZE and found is not None and whole is not None and same(found, whole, case.places)


def test_a_state_is_one_file_s_though_another_takes_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = GradientCheckpoint(tmp_path / "e.safetensors")
    kept.write({"a": np.arange(6.0), "none": np.zeros((0, 3), np.float32)}, {"passes": 4})
    opened, others = Path.open, [GradientCheckpoint(tmp_path / "e.safetensors")]

    def replaced(self: Path, *args: Any, **kwargs: Any) -> Any:
        file = opened(self, *args, **kwargs)
        if others:
            others.pop().write({"a": np.arange(100.0), "more": np.ones(50)}, {"passes": 5, "longer": "x" * 100})
        return file

    monkeypatch.setattr(Path, "open", replaced)
    found = kept.read()
    assert found is not None
    count = {4: 6, 5: 100}[found[1]["passes"]]
    assert np.array_equal(found[0]["a"], np.arange(float(count)))


def test_nothing_stays_of_a_write_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: Any, *_: Any) -> None:
        file.write(b"x" * 1000)
        raise OSError(28, "No space left on device")

    for module in (checkpoint, gradient_statistics):
        monkeypatch.setattr(module, "write", full, raising=False)
    GradientCheckpoint(tmp_path / "e.safetensors").write({"a": np.zeros(4)}, {})
    with pytest.raises(ProjectError, match="No space left"):
        save(GradientStatistics({}), tmp_path / "e.safetensors")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_what_time_does_not_suffice_for_is_left_to_the_next_run(case: Case) -> None:
    short = replace(case.options, seconds=1e-6, ports=("weight",))
    report = sensitivity(case.base, short, case.context)[1]
    assert report.rows and report.summary["samples"] == MIN_PASSES * SIZE and report.summary["of_samples"] == SAMPLES
    assert not gather(case.base, short, case.context)  # another pass
    part = Path(report.summary["evidence"])
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
    assert [p.name for p in statistics_folder().iterdir()] == [Path(report.summary["evidence"]).name]
    assert load(part).samples == SAMPLES, "who read the part finds the whole"


@pytest.mark.slow
def test_few_candidates_are_measured_where_time_is_short(case: Case) -> None:
    short = replace(case.options, seconds=1e-6, ports=("weight",), measure=4)
    assert "measured" not in sensitivity(case.base, short, case.context)[1].summary
    long = replace(short, seconds=3600.0)
    assert sensitivity(case.base, long, case.context)[1].summary["measured"] == 4


@pytest.mark.slow
def test_all_candidates_are_measured_as_far_as_time_reaches(case: Case) -> None:
    """On the same samples each time, so that one run takes up what the other measured."""
    formats = (parse_format("integer(width=4)"), parse_format("integer(width=8)"))
    short = replace(case.options, seconds=1e-6, ports=("weight",), exact=True, formats=formats, configurations=2)
    reports = [sensitivity(case.base, short, case.context)[1] for _ in range(3)]
    assert [sum(r["measured"] is not None for r in report.rows) for report in reports] == [1, 2, 3]
    assert [report.summary.get("measured_before") for report in reports] == [None, 1, 2]
    assert not any("configurations" in report.summary for report in reports) and len(reports[0].rows) > 3
    report = sensitivity(case.base, replace(short, seconds=3600.0), case.context)[1]
    assert all(r["measured"] is not None for r in report.rows) and report.summary["measured_before"] == 3


@pytest.mark.slow
def test_the_benchmark_measures_anew_where_formats_change(tmp_path: Path, case: Case) -> None:
    (tmp_path / "integer.py").write_text("BITS = 8")
    before = measured_key(case.run, case.split, tmp_path)
    assert measured_key(case.run, case.split, tmp_path) == before
    (tmp_path / "integer.py").write_text("BITS = 4")
    assert measured_key(case.run, case.split, tmp_path) != before
    assert (FORMATS / "integer.py").is_file()
