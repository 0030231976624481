"""`search` whose trials train: what the best one made is written as it is, for a training may take long."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from espalier.app.cli import main
from espalier.app.features.search.commands import search_files
from espalier.model.document.recipe import Step
from espalier.model.opening import open_any
from espalier.model.trust import Origin
from espalier.passes.base import Context, run_step
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.training import run

BITS = """
goals = ["accuracy"]
sampler = "grid"
trials = 3
train = "after"
[[space]]
per = "all"
values = "integer(width=2|4|8)"
[finetune]
max_steps = 2
train_limit = 64
validation_limit = 32
[score]
limit = 60
"""
LAYERS = BITS.replace('"after"', '"before"').replace(
    'per = "all"\nvalues = "integer(width=2|4|8)"', 'kind = "config"\nkey = "num_hidden_layers"\nvalues = "1, 2"'
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "text"), [("demo:digits-mlp", BITS), ("demo:reviews", LAYERS)], ids=["bits", "layers"]
)
def test_a_trial_trains_once(
    model: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path / "state"))
    spec, out = tmp_path / "bits.toml", tmp_path / "best.espalier"
    spec.write_text(text)
    trainings: list[int] = []
    train = run.train

    def counted(*args: Any) -> Any:
        trainings.append(1)
        return train(*args)

    monkeypatch.setattr(run, "train", counted)
    assert main(["search", model, str(spec), "-o", str(out), "--json"]) == 0, capsys.readouterr().err
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert told["complete"] == len(trainings) >= 2, "writing the best trains nothing again"
    kept = [t["figures"]["kept_step"] for t in told["trials"] if t["state"] == "complete"]
    assert len(kept) == told["complete"] and set(kept) <= {0.0, 1.0, 2.0}
    opened = open_any(str(out), tmp_path / "w", origin=Origin.TYPED)
    assert opened.project.recipe.active[-1].pass_name == "finetune"
    context = Context(opened.store, reading=opened.project.source.reading, callables=opened.callables)
    score = Step("evaluate", EvaluateOptions(data=model, limit=60))
    figures = run_step(opened.project.graph, score, context).report.summary
    assert figures["accuracy"] == pytest.approx(told["best"]["figures"]["accuracy"]), "and what it made is what is kept"


@pytest.mark.slow
@pytest.mark.parametrize("pause", [0.0, 1e9], ids=["each is written", "the last is written"])
def test_improvements_leave_nothing_in_memory(
    pause: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor does one that is not written."""
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(search_files, "PAUSE", pause)
    (tmp_path / "bits.toml").write_text(BITS.replace("max_steps", 'keep = "last"\nmax_steps'))  # new weights
    grown: list[set[str]] = []
    better = search_files.Output.better

    def watched(output: search_files.Output, *more: Any) -> None:
        held = output.target.store.__dict__["_memory"]
        before = set(held)
        better(output, *more)
        grown.append(set(held) - before)

    monkeypatch.setattr(search_files.Output, "better", watched)
    out = tmp_path / "best.espalier"
    assert main(["search", "demo:digits-mlp", str(tmp_path / "bits.toml"), "-o", str(out)]) == 0, capsys.readouterr()
    assert grown and not any(grown)
    opened = open_any(str(out), tmp_path / "w", origin=Origin.TYPED)
    assert all(opened.store.get(w.key).shape == w.shape for w in opened.project.graph.weights.values() if w.key)
