"""Each trial knows on how many samples its accuracy is, and which were right, as an evaluation tells."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from espalier.model.opening import open_source
from espalier.model.trust import Origin
from espalier.passes.analysis.evaluate import evaluate
from espalier.passes.base import Context
from espalier.passes.figure import main_figure
from espalier.passes.running.splits import EvaluateOptions, load_split
from espalier.passes.search.evaluator import Evaluator
from espalier.passes.search.trial import Trial


@pytest.mark.slow
@pytest.mark.parametrize("name", ["demo:digits-mlp", "demo:reviews"])
@pytest.mark.parametrize("rungs", [(), (20,)])
def test_the_noise_of_a_trial_is_that_of_an_evaluation(name: str, rungs: tuple[int, ...], tmp_path: Path) -> None:
    """Whatever order the batches ran in: texts are arranged by their length, rungs shuffle."""
    opened = open_source(name, tmp_path, origin=Origin.TYPED)
    context = Context(opened.store, reading=opened.project.source.reading)
    data, graph = EvaluateOptions(name.removesuffix("-mlp"), limit=70, batch_size=16), opened.project.base
    told = evaluate(graph, data, context)[1].summary
    warm = Evaluator(graph, data, context, rungs)
    figures = warm.measure(graph)
    assert warm.noise == {k: told[k] for k in ("n", "guessing", "hits")}
    trial = Trial(0, "complete", figures=figures, noise=warm.noise)
    assert trial.main == main_figure(told) and Trial(1).main is None
    labels = load_split(data, context).labels
    assert told["guessing"] == np.bincount(labels).max() / 70
    assert int(told["hits"], 16).bit_count() == round(told["accuracy"] * 70)
