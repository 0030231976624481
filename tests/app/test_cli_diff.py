"""`diff` against changes made by hand, and norms by torch."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import torch

import espalier as es
from espalier.app.cli import main


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two projects: as it is, and quantised with one weight doubled and an activation replaced."""
    folder = tmp_path_factory.mktemp("diff")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.GELU(), torch.nn.Linear(6, 3))
    es.trace(net, torch.randn(2, 8), name="Net").save(folder / "a.espalier")
    with torch.no_grad():
        net[2].weight *= 2
    other = es.trace(net, torch.randn(2, 8), name="Net")
    other.quantize("0", weight="int8").edit_graph([{"replace": {"node": "1", "op": "relu"}}])  # type: ignore[attr-defined]
    other.save(folder / "b.espalier")
    return folder / "a.espalier", folder / "b.espalier"


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    """Exit code and JSON of `diff`."""
    code = main(["diff", *words, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_every_change_has_a_row(pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    code, data = told(capsys, *map(str, pair))
    rows = {(r["node"], r["what"]): (r["before"], r["after"]) for r in data["rows"]}
    assert code == 1 and data["summary"]["changed"] == 2
    assert rows["0", "weight format"][0] == "float" and rows["0", "weight format"][1].startswith(
        "scaled_integer(width=8"
    )
    assert rows["1", "op"] == ("gelu", "relu")
    assert rows["2.weight", "weight values"] == ("3 × 6", "1 of its norm away"), "‖2W − W‖ / ‖W‖ = 1"
    assert data["summary"]["size_bytes"] < data["summary"]["size_bytes_before"]


def test_nothing_differs(pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    code, data = told(capsys, str(pair[0]), str(pair[0]))
    assert (code, data["rows"]) == (0, [])
    assert main(["diff", str(pair[0]), str(pair[0])]) == 0
    assert "Nothing differs." in capsys.readouterr().out


def test_files(pair: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", *map(str, pair), "-o", str(tmp_path / "d.csv")]) == 1
    rows = list(csv.DictReader((tmp_path / "d.csv").read_text().splitlines()))
    assert {"node": "1", "what": "op", "before": "gelu", "after": "relu"} in rows
    assert main(["diff", *map(str, pair), "-o", str(tmp_path / "d.svg")]) == 1
    assert (tmp_path / "d.svg").read_text().count('stroke-width="2"') == 2, "an outline for each changed node"
    capsys.readouterr()
    assert main(["diff", *map(str, pair), "-o", str(tmp_path / "d.png")]) == 2
    assert "no known ending" in capsys.readouterr().err
    assert main(["diff", str(pair[0])]) == 2


def test_the_interface_gives_the_same(pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    _, data = told(capsys, *map(str, pair))
    difference = es.diff(*pair)
    assert difference and difference.rows == data["rows"]
