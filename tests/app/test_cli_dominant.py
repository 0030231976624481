"""What holds the average of stored bits up is said by each command that shows that average."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from espalier.app.cli import main
from espalier.app.number_text import dominant_text
from espalier.model.opening import open_any
from espalier.model.trust import Origin
from espalier.passes.dominant import Dominant, dominant

SEARCH = """
goals = ["weight_bits"]
trials = 1
sampler = "random"
score = {{ data = "demo:reviews", limit = 16 }}
{more}
[[space]]
ports = ["weight"]
select = {{ by = "type", values = ["linear"] }}
values = "integer(width=8)"
per = "all"
"""
TRAINED = 'train = "after"\n[finetune]\nmax_steps = 1\nbatch_size = 8\ntrain_limit = 16'
LINE = "embedding weights hold 69 % of the stored bits (32.0 bits an element)"

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path / "state"))


def told(capsys: Capture, *words: object) -> str:
    assert main(list(map(str, words))) == 0, capsys.readouterr().err
    return capsys.readouterr().out.replace("\u2009", " ")


def held(project: Path, folder: Path) -> dict[str, Any]:
    """Of the graph of a project that a command has written."""
    found = dominant(open_any(str(project), folder, origin=Origin.TYPED).project.graph)
    assert found and found.kind == "embedding"
    return asdict(found)


@pytest.mark.slow
@pytest.mark.parametrize("more", ["", 'within = ["accuracy>=0"]', TRAINED], ids=["costs", "measured", "trained"])
def test_a_search_names_what_holds_the_bits_of_its_best(more: str, tmp_path: Path, capsys: Capture) -> None:
    spec, project = tmp_path / "spec.toml", tmp_path / "best.espalier"
    head, _, table = more.partition("[finetune]")
    spec.write_text(SEARCH.format(more=head) + (f"[finetune]{table}\n" if table else ""))
    assert f"weight bits of the best: {LINE}" in told(capsys, "search", "demo:reviews", spec)
    best = json.loads(told(capsys, "search", "demo:reviews", spec, "-o", project, "--study", "b", "--json"))["best"]
    assert best["dominant"] == held(project, tmp_path / "work")


@pytest.mark.slow
def test_an_allocation_names_what_holds_its_bits_without_measuring(tmp_path: Path, capsys: Capture) -> None:
    project = tmp_path / "p.espalier"
    words = ("allocate", "demo:reviews", "--budget", "weight_bits<=20", "--formats", "integer(width=8),float",
             "--ports", "weight", "--data", "demo:reviews", "--limit", 16)  # fmt: skip
    data = json.loads(told(capsys, *words, "-o", project, "--json"))
    assert data["dominant"] == held(project, tmp_path / "work")
    assert f"weight bits: {dominant_text(Dominant(**data['dominant']))}".replace("\u2009", " ") in told(capsys, *words)


def test_nearly_all_is_not_all() -> None:
    words = dominant_text(Dominant("embedding", 0.9985, 32.0)).replace("\u2009", " ")
    assert words.startswith("embedding weights hold over 99 % of")
