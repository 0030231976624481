"""The benchmark for GPUs goes on where its file ends; tried on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from espalier.kernels.bench import ceilings
from espalier.kernels.bench import run as bench
from espalier.kernels.bench.ceilings import Ceilings
from espalier.kernels.bench.results import load
from tests.benchmarks.kernels_gpu import UNFINISHED, main


def test_it_ends_in_time_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = Ceilings("cpu", 10.0, {"float32": 0.1})
    monkeypatch.setattr(ceilings, "measured", lambda *_: limits)
    path = tmp_path / "gpu.json"
    words = ["softmax", "--device", "cpu", "--dtype", "float32", "--seconds", "0", "-o", str(path), "--shapes"]
    sizes = ["4x8", "4x16", "4x32"]
    for count in (1, 2):
        assert main([*words, *sizes, "--minutes", "0"]) == UNFINISHED
        assert {r.shape["n"] for r in load(path).rows} == {8, 16, 32} - {32, *([16] if count == 1 else [])}
    assert main([*words, *sizes]) == 0
    rows = load(path).rows
    assert [r.shape["n"] for r in rows if r.version == "torch"] == [8, 16, 32] and load(path).ceilings == limits
    kept = path.read_bytes()
    assert main([*words, *sizes]) == 0 and path.read_bytes() == kept
    with pytest.raises(SystemExit, match="other settings"):
        main([*words, "4x8"])
    assert path.read_bytes() == kept


@pytest.mark.parametrize("outside", [False, True])
def test_a_kernel_that_breaks_the_gpu_ends_the_process_and_is_passed_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outside: bool
) -> None:
    calls = iter(range(99))

    def fault(*_: Any) -> Any:
        if next(calls) == 0:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        raise AssertionError("nothing runs any more in this process")

    path = tmp_path / "gpu.json"
    words = ["softmax", "--device", "cpu", "--dtype", "float32", "--seconds", "0", "-o", str(path)]
    words += ["--shapes", "4x8", "4x16", "4x32"]
    monkeypatch.setattr(ceilings, "measured", lambda *_: Ceilings("cpu", 10.0, {"float32": 0.1}))
    with monkeypatch.context() as broken:
        broken.setattr(bench, "_tidy" if outside else "take_turns", fault)
        assert main(words) == UNFINISHED
    assert {r.shape["n"] for r in load(path).rows} == {8}
    assert any("illegal memory access" in r.problem for r in load(path).rows)
    assert main(words) == 0  # a new process goes on behind it
    assert {r.shape["n"] for r in load(path).rows if r.seconds} == {16, 32}


def test_without_a_gpu_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(SystemExit) as caught:
        main(["-o", "x.json"])
    assert caught.value.code == 2 and "cannot run on cuda" in capsys.readouterr().err


def test_help_tells_what_is_to_be_run(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "to run when there is a GPU" in capsys.readouterr().out
