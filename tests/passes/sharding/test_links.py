"""Links of this machine: the fit, the stored file, and what plans make of it."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from espalier.model.document.recipe import Step
from espalier.model.errors import FileError, PassError
from espalier.model.store.weights import WeightStore
from espalier.passes.analysis.shard_scaling import ShardScalingOptions
from espalier.passes.base import Context, run_step
from espalier.passes.sharding import presets
from espalier.passes.sharding.collectives import Kind
from espalier.passes.sharding.links import Links, Timing, check_store, described, fit, store_links, stored_links
from espalier.passes.sharding.mesh import Device, Mesh
from espalier.passes.sharding.options import ShardPlanOptions
from espalier.passes.sharding.plan import make_plan
from espalier.passes.sharding.presets import device, measure_device, over
from espalier.passes.sharding.text import plan_summary, plan_text
from tests.model.zoo import case

KINDS: tuple[Kind, ...] = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
SIZES = [1 << k for k in range(10, 25, 2)]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of its own."""
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


def timings(latency: float, rate: float, ranks: int = 2, noise: float = 0.0) -> list[Timing]:
    """What collectives take, by the formulas of a ring written out here."""
    draw, found = np.random.default_rng(0), list[Timing]()
    n = ranks
    for kind, messages, sent in (("all_reduce", 2 * (n - 1), 2 * (n - 1) / n), ("all_gather", n - 1, n - 1),
                                 ("reduce_scatter", n - 1, (n - 1) / n)):  # fmt: skip
        for size in SIZES:
            seconds = messages * latency + sent * size / rate
            found.append(Timing(kind, size, seconds * float(np.exp(noise * draw.normal())), ranks))  # type: ignore[arg-type]
    return found


def links(**given: object) -> Links:
    """Links as measured on this machine."""
    return replace(described(fit(timings(2e-4, 5e8)), "gloo", 2, 1), **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize(("latency", "rate"), [(1e-4, 1e9), (3e-6, 4.5e11), (5e-2, 1e6)])
def test_the_fit_finds_the_latency_and_the_rate_again(latency: float, rate: float, ranks: int) -> None:
    found = fit(timings(latency, rate, ranks))
    assert found.latency == pytest.approx(latency, rel=1e-3) and found.rate == pytest.approx(rate, rel=1e-3)
    assert found.factor == pytest.approx(1, abs=1e-3) and found.worst == pytest.approx(1, abs=1e-3)


def test_the_fit_says_how_far_the_timings_are_from_it() -> None:
    found = fit(timings(1e-4, 1e9, noise=0.2))
    assert found.latency == pytest.approx(1e-4, rel=0.2) and found.rate == pytest.approx(1e9, rel=0.2)
    assert 1.1 < found.factor < 1.3 < found.worst < 2


def test_no_latency_is_negative() -> None:
    """Where the smallest sizes take less than the largest would let expect."""
    rows = [Timing("all_gather", size, (size / 1e9) * (1 + size / SIZES[-1]), 2) for size in SIZES]
    found = fit(rows)
    assert 0 <= found.latency < 1e-7 and 0 < found.rate < 1e9


def test_timings_without_a_rate_are_refused() -> None:
    with pytest.raises(PassError, match="links have no rate"):
        fit([Timing("all_gather", size, 1e-3 / (1 + k), 2) for k, size in enumerate(SIZES)])
    for wrong in ([], [Timing("all_gather", 1024, 0.0, 2)] * 2, [Timing("all_gather", 1024, float("nan"), 2)] * 2):
        with pytest.raises(PassError, match="cannot be fitted"):
            fit(wrong)


def test_what_is_stored_is_read_again(folder: Path) -> None:
    assert stored_links() == (None, "")
    first, second = links(), links(backend="nccl", rate=1e11)
    store_links(first)
    store_links(second)
    assert stored_links("gloo") == (first, "") and stored_links("nccl") == (second, "")
    facts = (folder / "links.json").stat()
    assert os.name != "posix" or stat.S_IMODE(facts.st_mode) == 0o600
    assert [p.name for p in folder.iterdir()] == ["links.json"], "no partial file"


@pytest.mark.parametrize(
    "text",
    ["", "{", "[1, 2]", '{"gloo": 3}', '{"gloo": {"latency": 1e-4}}', '{"gloo": null, "x": ' + "[" * 500, "\x00"],
)
def test_a_damaged_file_is_ignored_with_a_warning(folder: Path, text: str) -> None:
    folder.mkdir()
    (folder / "links.json").write_text(text)
    found, why = stored_links()
    assert found is None and "links.json is damaged" in why and why.endswith("Measure this machine again.")
    store_links(links())
    assert stored_links()[0] == links(time=stored_links()[0].time)  # type: ignore[union-attr]


@pytest.mark.parametrize(("name", "value"), [("rate", 0.0), ("latency", -1.0), ("rate", float("inf")), ("cores", "2")])
def test_figures_out_of_range_are_ignored(folder: Path, name: str, value: object) -> None:
    store_links(links())
    data = json.loads((folder / "links.json").read_text())
    data["gloo"][name] = value
    (folder / "links.json").write_text(json.dumps(data))
    found, why = stored_links()
    assert found is None and "damaged" in why


@pytest.mark.parametrize(("name", "value"), [("cores", 999), ("torch", "1.0"), ("host", "elsewhere")])
def test_links_of_another_machine_are_ignored_with_a_warning(name: str, value: object) -> None:
    store_links(links(**{name: value}))
    found, why = stored_links()
    assert found is None and f"of another machine ({name} {value})" in why


def test_a_folder_that_cannot_be_written_is_an_error(folder: Path) -> None:
    folder.parent.mkdir(exist_ok=True)
    folder.write_text("a file")
    for act in (check_store, lambda: store_links(links())):
        with pytest.raises(FileError):
            act()


@pytest.mark.slow
def test_this_machine_has_the_measured_links() -> None:
    mesh = Mesh((2, 2))
    assumed = measure_device(mesh, size=64, seconds=0.01)
    assert assumed.latency == device("cpu", mesh).latency and "links assumed" in assumed.source
    assert assumed.memory > 1 << 28 and not assumed.warning
    store_links(links(time=0.0))
    found = measure_device(mesh, memory=1e9, size=64, seconds=0.01)
    assert found.latency == (links().latency,) * 2 and found.rate == (links().rate,) * 2 and found.memory == 1e9
    assert "links measured on 19" in found.source and "by a factor of 1.00" in found.source
    assert device("this", mesh, rates="1e9,2e9").rate == (1e9, 2e9)
    assert device("cpu", mesh).latency == assumed.latency, "an assumption stays one"


def test_a_plan_warns_once_of_ignored_links() -> None:
    store_links(links(cores=999))
    mesh = Mesh((2,))
    plan = make_plan(case("mlp").graph, mesh, measure_device(mesh, size=64, seconds=0.01), ShardPlanOptions("2"))
    assert plan_summary(plan)["notes"].count("Measured links are ignored") == 1
    lines = list(plan_text(plan))
    assert sum("Measured links are ignored" in line for line in lines) == 1
    assert any("links assumed as of cpu" in line for line in lines)


def test_a_scaling_measures_this_machine_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """So that all numbers of devices are of equal ones, with the measured links."""
    store_links(links())
    calls, plain = list[Mesh](), presets.measure_device

    def counted(mesh: Mesh, memory: float | None = None) -> Device:
        calls.append(mesh)
        return plain(mesh, memory, size=64, seconds=0.01)

    monkeypatch.setattr(presets, "measure_device", counted)
    options = ShardScalingOptions(device="this", most=16, batch_size=32)
    report = run_step(case("mlp").graph, Step("shard_scaling", options), Context(WeightStore(tmp_path))).report
    assert calls == [Mesh((1,))] and [r["devices"] for r in report.rows] == [1, 2, 4, 8, 16]
    assert all(r["problem"] or r["step_ms"] > 0 for r in report.rows) and report.rows[0]["speedup"] == 1.0
    wide = over(device("this", Mesh((1,))), Mesh((2, 8)), "1e9,2e9")
    assert wide.latency == (links().latency,) * 2 and wide.rate == (1e9, 2e9)
