"""What activations are measured on: the data of the last evaluation, whatever else that one told."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QObject

from espalier.app.features.inspector.figures.activations import SAMPLES, ActivationSamples
from espalier.app.shell.window import Window
from espalier.passes.analysis.activations import ActivationOptions
from espalier.passes.base import Report
from espalier.passes.jobs.kinds import AnalyseJob
from espalier.passes.running.splits import EvaluateOptions
from tests.gui.conftest import FakeRunner
from tests.gui.recipes import quantise

pytestmark = pytest.mark.gui


def test_they_are_measured_on_the_data_of_an_evaluation_beside_a_baseline(
    opened: Window, runner: list[FakeRunner]
) -> None:
    quantise(opened)
    samples = ActivationSamples(opened.session, QObject(opened))
    opened.session.evaluate(EvaluateOptions(data="rows.csv", limit=500))
    while runner[0].waiting:
        runner[0].finish(Report("evaluate", (), {"accuracy": 0.75, "loss": 0.5}))
    samples.measure()
    job = runner[0].waiting[-1].job
    assert isinstance(job, AnalyseJob)
    assert job.step.options == ActivationOptions(data="rows.csv", limit=SAMPLES)
