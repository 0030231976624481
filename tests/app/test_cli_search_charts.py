"""`search -o F.svg|.png`: what the pictures show is what the trials are, alone and beside other studies."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from espalier.app.cli import main
from espalier.app.commands.command import Arguments
from espalier.app.features.search.commands.search_charts import Picture
from espalier.app.figures.curves import to_svg
from espalier.app.figures.study.data import Study
from espalier.app.figures.trials import Group, history, pareto
from espalier.model.document.recipe import Recipe
from espalier.model.opening import open_source
from espalier.passes.search.search import Search
from espalier.passes.search.space import Space
from espalier.passes.search.spec import Goal, SearchSpec
from espalier.passes.search.trial import Trial

SVG = "{http://www.w3.org/2000/svg}"
SPEC = """
goals = ["accuracy", "weight_bits"]
sampler = "{sampler}"
trials = 12
[[space]]
per = "type"
select = {{ by = "all" }}
ports = ["weight"]
values = "integer(width=2|4|6|8)"
[score]
limit = 60
"""


def search(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    code = main(["search", "demo:digits-mlp", *words, "--json"])
    out = capsys.readouterr()
    assert code == 0, out.err
    return json.loads(out.out)


def spec(tmp_path: Path, sampler: str) -> str:
    file = tmp_path / f"{sampler}.toml"
    file.write_text(SPEC.format(sampler=sampler))
    return str(file)


def words(path: Path) -> list[str]:
    return [t.text or "" for t in ET.parse(path).getroot().iter(f"{SVG}text")]


@pytest.mark.slow
def test_samplers_in_one_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, both = tmp_path / "random.svg", tmp_path / "both.svg"
    search(capsys, spec(tmp_path, "random"), "--study", "random", "-o", str(first))
    found = search(capsys, spec(tmp_path, "tpe"), "--study", "tpe", "-o", str(both), "--inset",
                   "--compare", f"{first}.journal#random")  # fmt: skip
    told = words(both)
    assert "tpe: best so far" in told and "random: best so far" in told
    assert "accuracy" in told and "trial (number)" in told and "the later half, enlarged" in told
    assert any(w.startswith("opened ") for w in told)
    assert len(found["trials"]) >= 10  # as many as importance needs
    assert sum("best so far" in w for w in words(first)) == 1

    for chart in ("pareto", "importance", "precision"):
        out = tmp_path / f"{chart}.svg"
        search(capsys, spec(tmp_path, "tpe"), "--study", "tpe", "--storage", f"journal://{both}.journal", "--resume",
               "-o", str(out), "--chart", chart)  # fmt: skip
        assert words(out), chart
    assert "weight bits" in words(tmp_path / "pareto.svg") and "tpe: Pareto front" in words(tmp_path / "pareto.svg")
    formats = {v for t in found["trials"] for v in t["params"].values()}
    widths = {re.search(r"width=(\d+)", f).group(1) for f in formats}  # type: ignore[union-attr]
    assert widths <= set(words(tmp_path / "precision.svg")), "the key tells the bits that were chosen"

    picture = tmp_path / "same.png"
    search(capsys, spec(tmp_path, "tpe"), "--study", "tpe", "--storage", f"journal://{both}.journal", "--resume",
           "-o", str(picture))  # fmt: skip
    with Image.open(picture) as image:
        assert image.width == 1520 and len(image.getcolors(1 << 20) or ()) > 20


def test_studies_of_other_recipes_are_no_repetitions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, both, pruned = (tmp_path / n for n in ("first.svg", "both.svg", "pruned.toml"))
    search(capsys, spec(tmp_path, "random"), "--study", "plain", "--trials", "2", "-o", str(first))
    begins = '[[steps]]\npass = "prune"\noptions = {sparsity = 0.5}\n[[space]]'
    pruned.write_text(SPEC.format(sampler="random").replace("[[space]]", begins))
    compare = ("--compare", f"{first}.journal#plain")
    search(capsys, str(pruned), "--study", "pruned", "--trials", "2", "-o", str(both), *compare)
    assert {"plain: best so far", "pruned: best so far"} <= set(words(both))
    search(
        capsys, spec(tmp_path, "random"), "--study", "again", "--trials", "2", "--seed", "1", "-o", str(both), *compare
    )
    assert "random: mean best so far of 2, band ± s" in words(both)


def test_a_front_of_trials_that_all_failed_is_empty(tmp_path: Path) -> None:
    graph, out = open_source("demo:digits-mlp", tmp_path / "work").project.base, tmp_path / "front.svg"
    asked = Arguments(chart="pareto", figure="", compare=[], inset=False)
    picture = Picture(asked, Search(SearchSpec(goals=(Goal("accuracy"),)), Recipe(), graph))
    picture.draw(out, [Trial(0, "failed", error="no memory")], Space())
    assert "No trial has both figures yet." in words(out)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--chart", "pareto"], "are for a picture"),
        (["-o", "F.svg", "--chart", "precision", "--compare", "x"], "shows one study"),
        (["-o", "F.svg", "--compare", "missing.journal"], "no file"),
        (["-o", "F.svg", "--chart", "pareto", "--inset"], "no inset"),
        (["-o", "F.svg", "--figure", "acuracy"], "There is no figure 'acuracy'.\nDid you mean 'accuracy'?"),
    ],
)
def test_mistakes_are_told_before_the_first_trial(
    more: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["search", "demo:digits-mlp", spec(tmp_path, "tpe"), *more]) == 2
    said = capsys.readouterr().err
    assert message in said and "[1/" not in said


def study(*accuracies: float, bits: tuple[float, ...] = ()) -> Study:
    trials = [
        Trial(i, "complete", values=(a,), figures={"accuracy": a, **({"weight_bits": bits[i]} if bits else {})})
        for i, a in enumerate(accuracies)
    ]
    return Study(trials, [Goal("accuracy")], baseline={"accuracy": 0.9})


def test_repetitions_are_their_mean_with_their_spread() -> None:
    group = Group("tpe", (study(0.2, 0.6, 0.4), study(0.4, 0.2, 0.8)))
    mean, spread = group.best("accuracy")
    assert np.allclose(mean, [0.3, 0.5, 0.7])
    assert np.allclose(spread, [np.std(p, ddof=1) for p in ((0.2, 0.4), (0.6, 0.4), (0.6, 0.8))])
    sheet = ET.fromstring(to_svg(history([group], "accuracy")))
    assert "tpe: mean best so far of 2, band ± s" in [t.text for t in sheet.iter(f"{SVG}text")]
    assert len(list(sheet.iter(f"{SVG}polygon"))) == 1 and len(list(sheet.iter(f"{SVG}circle"))) == 6


def test_the_front_is_what_nothing_beats_and_steps_within_reach() -> None:
    found = study(0.5, 0.9, 0.8, 0.7, bits=(2, 8, 4, 6))
    sheet = ET.fromstring(to_svg(pareto([Group("tpe", (found,))], "weight_bits", "accuracy")))
    line = max(sheet.iter(f"{SVG}polyline"), key=lambda p: len(p.get("points", "").split()))
    dots = [tuple(map(float, p.split(","))) for p in line.get("points", "").split()]
    assert len(dots) == 5  # three trials (6 bits for 70 % is beaten), and a corner between two
    assert dots[1][1] == dots[0][1] and dots[1][0] == dots[2][0]  # fewer bits: first across, then up
