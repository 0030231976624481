"""The bench: what it asks for, what it says where something cannot run, files, and stopping."""

from __future__ import annotations

import json
import math
import time
from collections import namedtuple
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from espalier.app.cli import main
from espalier.kernels.bench import machine, other_load, processors, results, tuned
from espalier.kernels.bench import run as bench
from espalier.kernels.bench.catalogue import catalogue
from espalier.kernels.bench.ceilings import Ceilings
from espalier.kernels.bench.results import ABOVE, Results, Row, compared, load
from espalier.kernels.bench.run import Case, Request, cases_of, measured, results_of, run
from espalier.kernels.bench.spec import KERNELS, Kernel, KernelError, Version, parse_shape
from espalier.model.errors import EspalierError

QUICK = Request(("softmax",), shapes=("4x8",), seconds=0, rounds=1, ceilings=False)


def of(version: Version, **changes: Any) -> list[Row]:
    """Rows of a softmax with one more version."""
    kernel = KERNELS.get("softmax")
    made: Kernel = replace(kernel, versions=(kernel.version("torch"), version), **changes)
    return list(measured(Case(made, {"m": 4, "n": 8}, "float32"), QUICK, None, lambda: None))


def by_version(rows: list[Row]) -> dict[str, Row]:
    """Rows by version."""
    return {r.version: r for r in rows}


def test_the_threads_that_are_told_are_those_that_ran() -> None:
    before = torch.get_num_threads()
    assert run(replace(QUICK, threads=before + 1)).machine["threads"] == before + 1
    assert run(QUICK).machine["threads"] == before == torch.get_num_threads()


def test_a_wrong_version_is_told_and_timed() -> None:
    rows = by_version(of(Version("off", lambda x: torch.softmax(x, -1) * 1.01, "1 % off")))
    assert rows["torch"].correct and rows["off"].correct is False
    assert "wrong" in rows["off"].problem and rows["off"].error == pytest.approx(0.01, rel=1e-3)


@pytest.mark.parametrize("fault", [MemoryError("no memory"), RuntimeError("DefaultCPUAllocator: not enough memory: x")])
def test_no_memory_is_a_row_and_the_rest_runs(fault: Exception) -> None:
    def run_out(x: Any) -> Any:
        raise fault

    rows = by_version(of(Version("large", run_out, "")))
    assert rows["large"].problem.startswith("out of memory") and rows["large"].seconds is None
    assert rows["torch"].seconds is not None and rows["torch"].ratio == 1


def test_what_a_kernel_refuses_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(x: Any) -> Any:
        raise KernelError("softmax does not take this.", "Give another.")

    rows = by_version(of(Version("strict", refuse, "")))
    assert rows["strict"].problem == "softmax does not take this." and rows["torch"].seconds is not None


def test_what_memory_does_not_hold_is_never_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "free_bytes", lambda device: 100)
    rows = of(Version("more", torch.softmax, ""))
    assert all("out of memory" in r.problem and "free" in r.problem for r in rows)


def test_memory_is_told_in_a_unit_that_can_be_read() -> None:
    sizes = (0, 999, 1 << 10, 15 << 30, 2000 << 30, 1464843750 << 30)
    told = [machine.size_text(s) for s in sizes]
    assert told == ["0 B", "999 B", "1 KiB", "15 GiB", "1.953 TiB", "1.364 EiB"]


def test_a_result_of_another_shape_or_with_nan_is_wrong() -> None:
    rows = by_version(of(Version("short", lambda x: x[:1], "")))
    assert "shape" in rows["short"].problem
    rows = by_version(of(Version("nan", lambda x: x * float("nan"), "")))
    assert rows["nan"].correct is False


def test_a_missing_compiler_or_triton_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "compiler", lambda: None)
    assert "C++ compiler" in machine.unavailable(KERNELS.get("softmax").version("compiled"), "cpu")
    monkeypatch.setattr(machine, "find_spec", lambda name: None)
    assert "triton is not installed" in machine.unavailable(KERNELS.get("softmax").version("triton"), "cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu_is_an_error_that_says_so() -> None:
    with pytest.raises(KernelError, match="cannot run on cuda"):
        run(replace(QUICK, device="cuda"))


@pytest.mark.parametrize(
    "changes",
    [{"kernels": ("sofmax",)}, {"shapes": ("4x8x9",)}, {"shapes": ("q=3",)}, {"shapes": ("4x0",)}, {"device": "tpu"},
     {"dtypes": ("int3",)}, {"kernels": ("softmax", "attention")}, {"versions": ("tritn",)},
     {"versions": ("torch", "tritn")}],
)  # fmt: skip
def test_bad_requests(changes: dict[str, Any]) -> None:
    with pytest.raises(EspalierError) as caught:
        run(replace(QUICK, **changes))
    assert caught.value.hint


def test_shapes() -> None:
    kernel = KERNELS.get("softmax")
    assert parse_shape("3x5", kernel) == {"m": 3, "n": 5} == parse_shape("n=5,m=3", kernel)
    assert len(cases_of(replace(QUICK, shapes=(), sweep=True))) == len(kernel.sweep["cpu"])


def test_files_go_round(tmp_path: Path) -> None:
    found = run(replace(QUICK, ceilings=False))
    file = tmp_path / "a.json"
    results.save(found, file)
    again = results.load(file)
    assert again.rows[0].shape == {"m": 4, "n": 8} and [r.key for r in again.rows] == [r.key for r in found.rows]
    assert again.machine == json.loads(json.dumps(found.machine))
    both = compared([again, again])
    assert len(both) == sum(r.seconds is not None for r in again.rows)
    assert all(v == 1 for row in both for k, v in row.items() if k.startswith("speed"))


def test_compared_files_tell_milliseconds_and_what_was_in_the_way(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quick = run(replace(QUICK, ceilings=False))
    slow = tuple(replace(r, seconds=r.seconds and 2 * r.seconds, others=0.5) for r in quick.rows)
    files = [str(tmp_path / name) for name in ("a.json", "b.json")]
    results.save(replace(quick, rows=tuple(replace(r, others=0.0) for r in quick.rows)), Path(files[0]))
    results.save(replace(quick, rows=slow), Path(files[1]))
    assert main(["kernels", "--compare", *files]) == 0
    head, first, *_, last = capsys.readouterr().out.splitlines()
    assert head.count("(ms)") == 2 and head.count("(×)") == 1 and first.endswith("0.5")
    assert "#2: Other programs took 50" in last and "#1: Other" not in last


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"espalier_kernels": 99}', '{"espalier_kernels": 1, "rows": [{}]}'])
def test_foreign_files(tmp_path: Path, text: str) -> None:
    file = tmp_path / "a.json"
    file.write_text(text)
    with pytest.raises(KernelError):
        results.load(file)


def test_stopping() -> None:
    class Stopped(Exception):
        pass

    heard: list[Row] = []

    def progress(done: int, total: int, text: str) -> None:
        if heard:
            raise Stopped

    with pytest.raises(Stopped):
        run(replace(QUICK, shapes=("4x8", "5x8")), progress, lambda row: heard.append(row))  # type: ignore[arg-type]
    assert {r.shape["m"] for r in heard} == {4}
    assert results_of(QUICK, heard).rows == tuple(heard)


def test_what_cannot_be_kept_is_not_begun_and_a_stopped_run_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["kernels", "softmax", "--shapes", "4x8", "5x8", "--seconds", "0"]
    asked_for: list[Request] = []

    def stopped(request: Request, progress: Any, found: Any) -> Results:
        asked_for.append(request)
        run(replace(QUICK, shapes=("4x8",)), progress, found)
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "run", stopped)
    for place in (tmp_path / "none" / "a.json", tmp_path):
        assert main([*words, "-o", str(place)]) == 2
    assert main([*words, "--seconds", "nan"]) == 2 and not asked_for
    assert main([*words, "-o", str(tmp_path / "a.json")]) == 130 and len(asked_for) == 1
    assert {r.shape["m"] for r in results.load(tmp_path / "a.json").rows} == {4}
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]
    assert "a.json" in capsys.readouterr().err


def test_files_with_nothing_alike_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, shape in (("a", "4x8"), ("b", "5x8")):
        results.save(run(replace(QUICK, shapes=(shape,))), tmp_path / f"{name}.json")
    assert main(["kernels", "--compare", str(tmp_path / "a.json"), str(tmp_path / "b.json")]) == 0
    assert "more than one" in capsys.readouterr().out


@pytest.mark.slow
def test_a_run_unlike_the_file_says_what_would_be_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results.save(run(QUICK), tmp_path / "a.json")
    wish = ["kernels", "softmax", "--device", "cpu", "--versions", "torch", "--seconds", "0", "--shapes"]
    assert main([*wish, "5x8", "--compare", str(tmp_path / "a.json")]) == 0
    assert "kernels softmax --dtype float32 --shapes m=4,n=8" in capsys.readouterr().out
    assert main([*wish, "4x8", "--compare", str(tmp_path / "a.json")]) == 0
    assert "for one" not in capsys.readouterr().out


@pytest.mark.slow
def test_what_has_no_time_stands_below_with_its_reason_once(capsys: pytest.CaptureFixture[str]) -> None:
    huge = "1000000x1000000"
    wish = ["kernels", "softmax", "--device", "cpu", "--seconds", "0", "--shapes", "4x8", "4x9", huge]
    assert main(wish) == 0
    told = capsys.readouterr().out
    above, below = told.split("without a time")
    assert "no signal" not in told and huge not in above and "GFLOP/s" in above and "TFLOP/s" not in above
    assert "softmax torch m=1000000,n=1000000 float32" in below  # the size, for at others it was timed
    if find_spec("triton") is None:
        assert below.count("triton is not installed") == 1 and below.count("softmax triton") == 1


def test_a_device_that_is_not_here_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one")
    assert main(["kernels", "--list", "softmax"]) == 0
    assert capsys.readouterr().out.count("cuda") == 1


# -- a busy machine


TIMES = namedtuple("TIMES", "user idle")


def watched(monkeypatch: pytest.MonkeyPatch, then: other_load.Seconds, now: other_load.Seconds) -> float | None:
    clock = iter([then, now])
    monkeypatch.setattr(other_load, "_read_times", lambda: next(clock))
    return other_load.OtherLoad().share()


def test_what_others_took_is_all_but_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processors, "allowed_cpus", lambda: (0, 1))
    monkeypatch.setattr(processors, "cpu_limit", lambda: 2.0)
    second = other_load.Seconds(11.0, 101.5, 5.5)  # 1.5 s at work, 0.5 s of them ours, of 2 s
    assert watched(monkeypatch, other_load.Seconds(10.0, 100.0, 5.0), second) == pytest.approx(0.5)
    assert (
        watched(monkeypatch, other_load.Seconds(10.0, 100.0, 5.0), other_load.Seconds(10.05, 100.1, 5.0)) is None
    )  # ticks


@pytest.mark.parametrize(("numbers", "busy"), [((0, 2), 5.0), ((0, 2, 3), 7.0), ((0, 3), 7.0)])
def test_processors_are_taken_by_place_only_where_places_are_numbers(
    monkeypatch: pytest.MonkeyPatch, numbers: tuple[int, ...], busy: float
) -> None:
    """With processor 1 off, 3 is at the third place: then all count."""
    times = [TIMES(1.0, 9.0), TIMES(2.0, 9.0), TIMES(4.0, 9.0)]
    monkeypatch.setattr("psutil.cpu_times", lambda percpu: times)
    monkeypatch.setattr(processors, "allowed_cpus", lambda: numbers)
    assert other_load._read_times().busy == busy


def test_others_of_a_quota_are_told_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processors' time of eight: five at work elsewhere take nothing from it, one in the group takes a half."""
    monkeypatch.setattr(processors, "allowed_cpus", lambda: tuple(range(8)))
    monkeypatch.setattr(processors, "cpu_limit", lambda: 2.0)
    then = other_load.Seconds(10.0, 100.0, 5.0, 50.0)
    assert watched(monkeypatch, then, other_load.Seconds(11.0, 106.0, 6.0, 51.0)) == 0.0
    assert watched(monkeypatch, then, other_load.Seconds(11.0, 107.0, 6.0, 52.0)) == pytest.approx(0.5)
    assert watched(monkeypatch, then, other_load.Seconds(11.0, 108.0, 6.0, 51.0)) == pytest.approx(
        0.5
    )  # the host is full


@pytest.mark.parametrize(
    ("files", "own", "most", "group"),
    [
        ({"cpu.max": "150000 100000", "cpu.stat": "usage_usec 2500000\nuser_usec 1"}, "0::/", 1.5, 2.5),
        ({"a/cpu.max": "50000 100000", "a/cpu.stat": "usage_usec 1000000"}, "0::/a", 0.5, 1.0),
        ({"cpu.max": "50000 100000", "cpu.stat": "usage_usec 1000000"}, "0::/not/seen/here", 0.5, 1.0),
        ({"cpu.max": "max 100000", "cpu.stat": "usage_usec 1"}, "0::/", 4.0, None),
        ({"cpu/cpu.cfs_quota_us": "200000", "cpu/cpu.cfs_period_us": "100000", "cpuacct/cpuacct.usage": "3000000000"},
         "4:cpuacct:/\n3:cpu:/", 2.0, 3.0),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, "3:cpu:/", 4.0, None),
        ({}, "\n", 4.0, None),
    ],
)  # fmt: skip
def test_the_quota_of_a_container(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, files: dict[str, str], own: str, most: float, group: float | None
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    (tmp_path / "own").write_text(own + "\n")
    monkeypatch.setattr(processors, "GROUPS", tmp_path)
    monkeypatch.setattr(processors, "OWN", tmp_path / "own")
    monkeypatch.setattr(processors, "allowed_cpus", lambda: (0, 1, 2, 3))
    assert processors.cpu_limit() == most and processors.group_seconds() == group
    assert processors.threads() == math.ceil(most)


def test_rows_tell_what_others_took(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_load.OtherLoad, "share", lambda _: 0.4)
    rows = run(QUICK).rows
    assert {r.others for r in rows if r.seconds} == {0.4} and results.disturbance(rows) == pytest.approx(0.4)
    monkeypatch.setattr(other_load.OtherLoad, "share", lambda _: 0.05)
    assert results.disturbance(run(QUICK).rows) is None


def test_the_roof() -> None:
    limits = Ceilings("cpu", 100.0, {"float32": 1.0})
    assert limits.roof(1, "float32") == pytest.approx(0.1) and limits.roof(100, "float32") == 1.0
    assert limits.least_seconds(1e12, 1e9, "float32") == pytest.approx(1.0)


def test_catalogue_travels_and_has_sources() -> None:
    import pickle

    infos = pickle.loads(pickle.dumps(catalogue()))
    assert len(infos) == len(list(KERNELS)) and all(v.source for i in infos for v in i.versions)


def test_traffic_of_naive_softmax() -> None:
    naive = KERNELS.get("softmax").version("naive")
    assert naive.traffic is not None and naive.traffic({"m": 10, "n": 100}, 4) == (8 * 1000 + 4 * 10) * 4


def test_the_tuning_table_survives_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESPALIER_CACHE", str(tmp_path))
    tuned.table_path().write_text("{")
    assert tuned._stored("card") == {}
    assert tuned.tuned("k", "cpu", [{"n": 1}, {"n": 2}], lambda c: None) == {"n": 1}


def test_what_another_process_tuned_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESPALIER_CACHE", str(tmp_path))
    monkeypatch.setattr(tuned, "_tuned", {"card|mine": {"n": 1}, "card|both": {"n": 2}})
    tuned.table_path().parent.mkdir(parents=True, exist_ok=True)
    tuned.table_path().write_text(json.dumps({"card": {"theirs": {"n": 3}, "both": {"n": 4}}, "other": {}}))
    tuned._store("card")
    assert tuned._stored("card") == {"mine": {"n": 1}, "both": {"n": 2}, "theirs": {"n": 3}}
    assert "other" in json.loads(tuned.table_path().read_text())


def test_results_without_rows() -> None:
    assert compared([Results({"name": "a"}, "2026-11-22"), Results({"name": "a"}, "2026-11-22")]) == []


def test_the_first_call_is_told_apart_with_what_it_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]

    def slow_at_first(x: Any) -> Any:
        clock[0] += 0.001 if clock[0] > 5 else 5
        return torch.softmax(x, -1)

    monkeypatch.setattr(time, "perf_counter", lambda: clock.__setitem__(0, clock[0] + 1e-6) or clock[0])
    row = by_version(of(Version("compiles", slow_at_first, "")))["compiles"]
    assert row.first and row.first >= 5 and row.seconds and row.seconds < 0.01


def test_a_share_above_the_roof_is_none(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A roof far below what the machine does: no percentage, but what was seen, in text, JSON and files of before."""
    low = Ceilings("cpu", 1e-3, {"float32": 1e-6})
    monkeypatch.setattr("espalier.kernels.bench.ceilings.measured", lambda *_: low)
    words = ["kernels", "softmax", "--shapes", "8x64", "--seconds", "0.01", "--device", "cpu", "--dtype", "float32"]
    assert main([*words, "--versions", "torch", "--json", "-o", str(tmp_path / "run.json")]) == 0
    told = json.loads(capsys.readouterr().out)["rows"][0]
    assert told["of_roof"] is None and told["above_roof"] is True
    assert main([*words, "--versions", "torch"]) == 0
    assert ABOVE in capsys.readouterr().out
    data = json.loads((tmp_path / "run.json").read_text())
    data["rows"][0] |= {"of_roof": 7.85}
    del data["rows"][0]["above_roof"]
    (tmp_path / "run.json").write_text(json.dumps(data))
    row = load(tmp_path / "run.json").rows[0]
    assert row.of_roof is None and row.above_roof
