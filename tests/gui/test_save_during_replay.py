"""A save while the worker replays: tensors are read where the new file has them, not where the worker had them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from espalier.app.session.session import Session
from espalier.model.document.project import load_project, save_project
from espalier.model.document.recipe import Recipe, Step
from espalier.model.graph.meta import Weight
from espalier.model.store.weights import Tensor, WeightStore
from espalier.passes.jobs.kinds import Done, OpenResult, ReplayJob, ReplayResult, SaveJob, Started
from espalier.passes.transform.finetune import FinetuneOptions
from tests.gui.conftest import FakeRunner, small_project

pytestmark = pytest.mark.gui


def test_weights_are_found_after_a_save_that_a_training_outlived(
    session: Session, runner: list[FakeRunner], tmp_path: Path
) -> None:
    path, store = tmp_path / "p.espalier", WeightStore(tmp_path / "made")
    array = np.arange(64, dtype=np.float32).reshape(8, 8)
    key = store.hold(Tensor(array, "float32"))
    project = small_project()
    graph = replace(project.graph, weights=project.graph.weights | {"fc1.weight": Weight(key, (8, 8), "float32")})
    save_project(replace(project, base=graph, graph=graph), store, path)
    read = WeightStore(tmp_path / "read")
    opened = load_project(path, read)
    session.open(str(path))
    runner[0].finish(OpenResult(opened, read.places(), (), {}))

    session.set_recipe(Recipe((Step("finetune", FinetuneOptions(data="demo:digits")),)), "Fine-tune")
    (training,) = runner[0].waiting
    runner[0].tell(training, Started())
    assert isinstance(training.job, ReplayJob) and training.job.locations

    session.view_provider = lambda: {"note": "x" * 1000}  # what lies before the weights grows
    info = session.save_as(path)
    save = info.job
    assert isinstance(save, SaveJob)
    runner[0].tell(info, Done(save_project(save.project, save.store, path)))
    assert read.places() != session.open_document.store.places()
    runner[0].tell(training, Done(ReplayResult(opened.graph, (None,), training.job.locations)))
    assert (session.open_document.store.get(key).array == array).all()
    assert save_project(session.open_document.snapshot(), session.open_document.store.view(), path).places
