"""`diff` against changes made by hand, and norms by torch."""

from __future__ import annotations

import csv
import json
from dataclasses import asdict, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

import espalier as es
from espalier.app.cli import main
from espalier.model.document.project import save_project
from espalier.passes.running.splits import EvaluateOptions


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
    assert code == 0 and data["summary"]["changed"] == 3
    assert rows["0", "weight format"][0] == "float" and rows["0", "weight format"][1].startswith(
        "scaled_integer(width=8"
    )
    assert rows["1", "op"] == ("gelu", "relu")
    assert rows["2", "weight values"] == ("3 × 6", "1 of its norm away"), "‖2W − W‖ / ‖W‖ = 1"
    assert data["summary"]["size_bytes"] < data["summary"]["size_bytes_before"]


def test_nothing_differs(pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    code, data = told(capsys, str(pair[0]), str(pair[0]))
    assert (code, data["rows"]) == (0, [])
    assert main(["diff", str(pair[0]), str(pair[0]), "--exit-code"]) == 0
    assert "Nothing differs in" in capsys.readouterr().out
    assert main(["diff", *map(str, pair), "--exit-code"]) == 1


def test_files(pair: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", *map(str, pair), "-o", str(tmp_path / "d.csv")]) == 0
    rows = list(csv.DictReader((tmp_path / "d.csv").read_text().splitlines()))
    told = {(r["node"], r["what"], r["before"], r["after"]) for r in rows}
    assert ("1", "op", "gelu", "relu") in told
    assert main(["diff", *map(str, pair), "-o", str(tmp_path / "d.svg")]) == 0
    assert (tmp_path / "d.svg").read_text().count('stroke-width="2"') == 3, "an outline for each changed node"
    assert main(["diff", *map(str, pair), "-o", str(tmp_path / "d.json"), "--html", str(tmp_path / "d.html")]) == 0
    assert json.loads((tmp_path / "d.json").read_text())["added"] == []
    page = page_text(tmp_path / "d.html")
    assert "gelu" in page and "relu" in page and "int8 channel" in page
    capsys.readouterr()
    assert main(["diff", *map(str, pair), "-o", str(tmp_path / "d.png")]) == 2
    assert "no known ending" in capsys.readouterr().err
    assert main(["diff", str(pair[0])]) == 2


def test_states_of_a_project(pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    project = str(pair[1])
    _, data = told(capsys, f"{project}@opened", f"{project}@1")
    assert {r["what"] for r in data["rows"]} == {"weight format"}
    assert told(capsys, project, project, "--step-a", "0", "--step-b", "1")[1]["rows"] == data["rows"]
    _, rest = told(capsys, f"{project}@1", project)
    assert [(r["node"], r["what"]) for r in rest["rows"]] == [("1", "op")]


@pytest.mark.parametrize(
    ("spec", "says"),
    [("{}@7", "has 2 active steps"), ("{}@x", "names no step"), ("{}#study/1", "no study 'study'"),
     ("{}#study/x", "names no trial"), ("{}.gone.espalier", "no")],
)  # fmt: skip
def test_a_state_that_does_not_exist(
    pair: tuple[Path, Path], spec: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", str(pair[0]), spec.format(pair[1])]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert says in lines[0] and len(lines) == 2


@pytest.mark.slow
def test_both_are_measured_on_the_same_samples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """p against scipy, from the predictions of both modules."""
    model = es.open("demo:digits")
    before = predictions(model)
    model.quantize("conv2d", weight="scaled_integer(width=2)", data_in="int4")
    model.save(tmp_path / "d.espalier")
    after = predictions(model)
    path = str(tmp_path / "d.espalier")
    _, data = told(capsys, f"{path}@opened", path, "--data", "demo:digits")
    row = next(r for r in data["score"] if r["name"] == "accuracy")
    gained, lost = int((after & ~before).sum()), int((before & ~after).sum())
    assert gained + lost and row["p"] == pytest.approx(stats.binomtest(gained, gained + lost).pvalue)
    assert row["change"] == pytest.approx((gained - lost) / len(before)) and row["n"] == len(before)
    assert es.diff(f"{path}@opened", model, data="demo:digits").scores[0]["p"] == row["p"]


def predictions(model: es.Model) -> np.ndarray:
    """Which samples of the test split the module gets right."""
    from espalier.model.data.loading import load_data

    split = load_data("demo:digits").splits["test"]
    with torch.no_grad():
        logits = model.to_torch()(torch.from_numpy(split.inputs["x"]))
    return np.asarray(logits.argmax(-1).numpy() == split.labels)


def page_text(path: Path) -> str:
    """The text of a page, as the standard library's parser reads it."""
    parts: list[str] = []

    class Reader(HTMLParser):
        def handle_data(self, data: str) -> None:
            parts.append(data)

    Reader().feed(path.read_text())
    return " ".join(parts)


def test_the_interface_gives_the_same(pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    _, data = told(capsys, *map(str, pair))
    difference = es.diff(*pair)
    assert difference and difference.rows == data["rows"]
    assert difference.to_dict()["score"] == data["score"] and difference.groups == data["groups"]
    assert "gelu" in repr(difference) and "<table>" in difference._repr_html_()


def test_the_interface_writes_files(pair: tuple[Path, Path], tmp_path: Path) -> None:
    difference = es.diff(*pair)
    for name in ("d.csv", "d.html", "d.json", "d.txt"):
        assert "gelu" in difference.save(tmp_path / name).read_text()
    with pytest.raises(es.EspalierError, match="no known ending"):
        difference.save(tmp_path / "d.png")


def test_stored_scores_on_other_data_are_not_tested(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = es.open("demo:digits-mlp")
    for name, split in (("a", "test"), ("b", "train"), ("c", "test")):
        score = {"accuracy": 0.5, "loss": 0.3, "n": 8, "hits": "f0" if name == "a" else "0f"}
        scores = {"options": asdict(EvaluateOptions(data="demo:digits", split=split)), "present": score}
        project = replace(model.project, reports={"scores": scores})
        save_project(project, model._place.opened.store, tmp_path / f"{name}.espalier")
    for other, verdict, p in (("b", "other data", None), ("c", "same", 1.0)):
        _, data = told(capsys, str(tmp_path / "a.espalier"), str(tmp_path / f"{other}.espalier"))
        row = data["score"][0]
        assert (row["name"], row["verdict"], row.get("p")) == ("accuracy", verdict, p)


def test_data_say_what_each_row_costs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two rows of the same weight, each alone, and in every form that is written; none without data."""
    path, sheet = str(tmp_path / "digits.espalier"), tmp_path / "d.csv"
    es.open("demo:digits-mlp").quantize("linear", weight="int4").prune("linear", sparsity=0.8).save(path)
    given = ("--data", "demo:digits", "--limit", "40")
    _, data = told(capsys, f"{path}@opened", path, *given, "-o", str(sheet))
    rows = data["groups"]
    assert {r["what"] for r in rows} == {"weight format", "weight sparsity"}
    assert all(r["kl"] > 0 and r["kl_note"] is None for r in rows)
    assert data["kl"]["n"] == 40 and data["kl"]["together"] > 0
    written = {(r["node"], r["what"]): float(r["row_kl"]) for r in csv.DictReader(sheet.read_text().splitlines())}
    assert written == {(n, r["what"]): r["kl"] for r in rows for n in r["nodes"]}
    found = es.diff(f"{path}@opened", path)
    assert "kl" not in found.groups[0] and "KL alone" not in repr(found)
    _, plain = told(capsys, f"{path}@opened", path, *given, "--no-kl")
    assert "kl" not in plain and "kl" not in plain["groups"][0] and plain["score"] == data["score"]
    assert main(["diff", f"{path}@opened", path, *given]) == 0
    shown = capsys.readouterr().out
    assert "KL alone" in shown and "KL(A ‖ A with that row of B), nats a sample · n = 40" in shown
