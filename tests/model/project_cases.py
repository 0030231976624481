"""What tests of project files share: a project over a model of the zoo, one beside its source, files with changes."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from espalier.model.document.project import Project, load_project, save_project
from espalier.model.document.recipe import Raw, Recipe, Step
from espalier.model.formats.integer import Integer
from espalier.model.opening import open_any
from espalier.model.sources.info import SourceInfo
from espalier.model.store.weights import WeightStore
from espalier.model.trust import Origin
from espalier.passes.base import Context, NoOptions
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.recipes.replay import replay
from espalier.passes.select import Select
from tests.model.zoo import case

STEPS = (
    Step("quantize", QuantizeOptions((Rule(Select("type", ("linear",)), {"weight": Integer(6, 4), "bias": None}),))),
    Step("prune", PruneOptions(0.4, "l1", "global"), seed=3),
    Step("remove_dropout", NoOptions(), enabled=False),
)


def make(name: str = "mlp", **changes: Any) -> tuple[Project, WeightStore]:
    """A project with a recipe over a model of the zoo, its tensors in a store of its own."""
    held = case(name)
    store = WeightStore(Path("unwritten"))
    for weight in held.graph.weights.values():
        assert weight.key is not None
        store.hold(held.store.get(weight.key))
    recipe = Recipe(STEPS)
    graph = replay(held.graph, recipe, Context(store)).graph
    recipe = recipe.append(Step("not_here", Raw({"a": [1, {"b": None}]}), 4, False))
    info = SourceInfo("/nowhere/net.py:make", "make (net.py)", tuple(held.example), 7)
    made = Project(info, held.graph, recipe, graph, {"scores": {"x": [1, 2.5]}}, {"camera": [1, 0, 0.5]})
    return replace(made, **changes), store


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "p.espalier"
    save_project(*make(), path)
    return path


def load(path: Path) -> tuple[Project, WeightStore]:
    store = WeightStore(path.parent / "work")
    return load_project(path, store), store


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    small = BertConfig(vocab_size=50, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
                       max_position_embeddings=16)  # fmt: skip
    path = tmp_path_factory.mktemp("hf") / "tiny-bert"
    BertForSequenceClassification(small).save_pretrained(path)
    return path


@pytest.fixture
def source(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "model"))


def project_beside(source: Path, tmp_path: Path) -> Path:
    opened = open_any(str(source), tmp_path / "work", origin=Origin.TYPED)
    save_project(opened.project, opened.store, tmp_path / "p.espalier")
    return tmp_path / "p.espalier"


def rewritten(path: Path, change: Callable[[str, bytes], bytes | None]) -> Path:
    """A copy with each member passed through `change`; None leaves it out."""
    target = path.with_name("changed.espalier")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w") as new:
        for info in old.infolist():
            data = change(info.filename, old.read(info.filename))
            if data is not None:
                new.writestr(info, data)
    return target
