"""Latency as a goal: each trial tells whether its time is that of a busy machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from espalier.app.cli import main
from espalier.app.features.search.state.texts import best_text
from espalier.kernels.bench import other_load
from espalier.model.opening import open_any
from espalier.model.trust import Origin
from espalier.passes.base import Context
from espalier.passes.costs.base import OTHERS, measured
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.search.spec import Goal, SearchSpec
from espalier.passes.search.trial import Trial

MLP = "demo:digits-mlp"
SPEC = """
goals = ["latency"]
sampler = "random"
trials = 2
[[space]]
values = ["integer(width=8)", "mxint"]
per = "type"
[score]
data = "demo:digits-mlp"
limit = 64
"""


def test_beside_a_time_stands_what_others_took(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mlp = open_any(MLP, tmp_path, origin=Origin.TYPED)
    wish: Any = (mlp.project.base, EvaluateOptions(MLP, limit=64), Context(mlp.store, base=mlp.project.base))
    monkeypatch.setattr(other_load.OtherLoad, "share", lambda _: 0.4)
    found = measured("latency", *wish)
    assert found["latency"] > 0 and found[OTHERS] == 0.4
    monkeypatch.setattr(other_load.OtherLoad, "share", lambda _: None)
    assert list(measured("latency", *wish)) == ["latency"]
    assert measured("sparsity", *wish) == {}  # it needs no run


def test_a_search_for_latency_tells_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "spec.toml").write_text(SPEC)
    monkeypatch.setattr(other_load.OtherLoad, "share", lambda _: 0.4)
    assert main(["search", MLP, str(tmp_path / "spec.toml"), "-o", str(tmp_path / "all.csv")]) == 0
    told = capsys.readouterr()
    assert "other programs took 40" in told.err and "s, " in told.err.partition("latency ")[2][:12]  # 412 µs, 1.3 ms
    assert OTHERS in (tmp_path / "all.csv").read_text().splitlines()[0]


def test_the_best_of_a_busy_machine_is_told_as_such() -> None:
    spec = SearchSpec(goals=(Goal("latency"),))
    busy = Trial(3, "complete", values=(0.01,), figures={"latency": 0.01, OTHERS: 0.4})
    assert best_text(spec, busy, {}, 1).endswith("timed while other programs took 40\u2009% of the processors")
    quiet = Trial(3, "complete", values=(0.01,), figures={"latency": 0.01, OTHERS: 0.01})
    assert best_text(spec, quiet, {}, 1).endswith("trial 3")
