"""A small traced BERT for tests of panels, without torch in the test's process: as in the window itself."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from espalier.app.session.session import Session
from espalier.model.document.project import Project, keys_of, load_project
from espalier.model.graph.meta import Sparsity
from espalier.model.store.weights import Tensor, WeightStore
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.jobs.kinds import OpenResult, ReplayJob, ReplayResult
from tests.gui.conftest import FakeRunner

SPEC = "config:bert?num_hidden_layers=2&hidden_size=32&num_attention_heads=2&intermediate_size=64&vocab_size=100"
KEY = "encoder_layer_0_attention_self_key"
QUERY = "encoder_layer_0_attention_self_query"
NORM = "embeddings_LayerNorm"
GELU = "gelu"
ATTENTION = "scaled_dot_product_attention"
_FOLDER = tempfile.TemporaryDirectory(prefix="espalier-tests-bert-")
_TRACE = """
import sys
from pathlib import Path
from espalier.model.opening import open_source
from espalier.model.document.project import save_project
opened = open_source(sys.argv[1], Path(sys.argv[2]))
save_project(opened.project, opened.store, Path(sys.argv[2]) / "bert.espalier")
"""


@cache
def traced() -> tuple[Project, WeightStore]:
    """The project and its weights."""
    folder = Path(_FOLDER.name)
    subprocess.run([sys.executable, "-c", _TRACE, SPEC, str(folder)], check=True, cwd=Path(__file__).parents[2])
    store = WeightStore(folder)
    return load_project(folder / "bert.espalier", store), store


def open_bert(session: Session, runner: list[FakeRunner]) -> None:
    """Open it in a session."""
    project, store = traced()
    session.open(SPEC)
    runner[-1].finish(OpenResult(project, store.locate(keys_of(project.base, project.graph)), (), {}))


def answer_prune(session: Session, runner: list[FakeRunner]) -> PruneOptions:
    """Do what the worker would with the oldest job: prune one node, the smallest first."""
    job = runner[-1].waiting[0].job
    assert isinstance(job, ReplayJob) and session.document is not None
    options: PruneOptions = job.recipe.steps[-1].options
    (name,) = options.select.values
    node, store = job.base.nodes[name], session.document.store
    values = np.abs(store.get(job.base.weights[node.weights["weight"]].key or "").float32().reshape(-1))
    keep = np.ones(values.size, dtype=bool)
    keep[np.argsort(values, kind="stable")[: round(options.sparsity * values.size)]] = False
    zeros = int((~keep).sum())
    mask = store.hold(Tensor(np.packbits(keep), "uint8"))
    held = {"weight": Sparsity(options.method, options.sparsity, options.scope, mask, zeros)} if zeros else {}
    runner[-1].finish(ReplayResult(job.base.replace(replace(node, sparsity=held)), (None,), {}))
    return options
