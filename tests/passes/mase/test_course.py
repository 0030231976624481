"""What MASE's own passes, checkpoints and trainer are inside a pass of a student: ours, with the same results."""

from __future__ import annotations

import csv
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph
from espalier.model.opening import open_source
from espalier.model.torch.build import build
from espalier.passes.base import Context, StepResult, run_step
from espalier.passes.mase.adapter import MaseOptions
from espalier.passes.plugins.plugins import load_plugin
from espalier.passes.recipes.config import load_recipe
from espalier.passes.running.splits import EvaluateOptions

FILE = Path(__file__).with_name("course_passes.py")
LINEAR = {"name": "integer"} | {f"{port}_{k}": v for port in ("data_in", "weight", "bias")
                                for k, v in (("width", 8), ("frac_width", 4))}  # fmt: skip
QUANTISATION = {"by": "type", "default": {"config": {"name": None}}, "linear": {"config": LINEAR}}
PRUNING = {"weight": {"sparsity": 0.5, "method": "l1-norm", "scope": "local"}}
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    load_plugin(FILE)


@pytest.fixture(scope="module")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Graph, Context]]:
    opened = open_source("demo:reviews", tmp_path_factory.mktemp("reviews"))
    yield opened.project.graph, Context(opened.store, reading=opened.project.source.reading)


def run(name: str, found: tuple[Graph, Context], **args: Any) -> StepResult:
    return run_step(found[0], Step(name, MaseOptions(args)), found[1])


def ours(recipe: Recipe, found: tuple[Graph, Context]) -> Graph:
    graph = found[0]
    for step in recipe.steps:
        graph = run_step(graph, step, found[1]).graph
    return graph


@pytest.mark.slow
def test_quantising_and_pruning_in_a_pass_is_what_the_recipe_does(reviews: tuple[Graph, Context]) -> None:
    done = run("compress_transform_pass", reviews)
    recipe = load_recipe({"quantize_transform_pass": QUANTISATION, "prune_transform_pass": PRUNING})
    expected = ours(recipe, reviews)
    assert done.graph == expected
    assert done.report.summary["pruned"] == sum(bool(n.sparsity) for n in expected) > 0


@pytest.mark.slow
def test_adapters_are_parameters_of_the_model(reviews: tuple[Graph, Context]) -> None:
    found = run("adapt_transform_pass", reviews).report.summary
    assert found["counted"] == found["reported"] > 0
    assert found["same"], "who holds mg.model must see what a pass of ours makes of it"


@pytest.mark.slow
def test_fused_adapters_leave_the_weights_that_our_passes_leave(reviews: tuple[Graph, Context]) -> None:
    recipe = load_recipe({"insert_lora_adapter_transform_pass": {"rank": 2}, "fuse_lora_weights_transform_pass": {}})
    assert run("fuse_transform_pass", reviews).graph == ours(recipe, reviews)


@pytest.mark.slow
def test_a_graph_is_drawn_exported_and_taken_back(reviews: tuple[Graph, Context], tmp_path: Path) -> None:
    after = run("keep_transform_pass", reviews, folder=str(tmp_path)).graph
    assert not [n for n in after if n.op == "dropout" or n.precision]
    tree = ET.parse(tmp_path / "graph.svg").getroot()
    boxes, edges = tree.findall(f"{SVG}g"), tree.findall(f"{SVG}path")
    titles = [b.findtext(f"{SVG}title") or "" for b in boxes]
    assert any("query" in t for t in titles) and not any("dropout" in t for t in titles)
    assert len(boxes) >= len(after) and len(edges) >= len(boxes) - 1
    assert build(after, reviews[1].store) is not None
    assert {n: w.key for n, w in after.weights.items()} == {n: reviews[0].weights[n].key for n in after.weights}


def test_their_own_checkpoint_is_not_run(reviews: tuple[Graph, Context], tmp_path: Path) -> None:
    (tmp_path / "theirs.pt").write_bytes(b"cposix\nsystem\n(S'true'\ntR.")
    with pytest.raises(PassError, match=r"theirs\.pt is a checkpoint of MASE"):
        run("foreign_transform_pass", reviews, folder=str(tmp_path))


@pytest.mark.slow
def test_the_trainer_measures_and_trains_as_our_passes_do(reviews: tuple[Graph, Context], tmp_path: Path) -> None:
    texts = ["a wonderful film", "a dull film", "I loved the story", "I hated the story"]
    for name in ("train", "test"):
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("text", "label"), *((t, 1 - i % 2) for i, t in enumerate(texts * 3))])
    done = run("train_transform_pass", reviews, folder=str(tmp_path))
    quantised = ours(load_recipe({"quantize_transform_pass": QUANTISATION}), reviews)
    step = Step("evaluate", EvaluateOptions(str(tmp_path), split="test"))
    accuracies = [run_step(g, step, reviews[1]).report.summary["accuracy"] for g in (quantised, done.graph)]
    assert [done.report.summary["before"], done.report.summary["after"]] == accuracies
    changed = [n for n, w in done.graph.weights.items() if w.key != quantised.weights[n].key]
    assert changed and {n.id: n.precision for n in done.graph} == {n.id: n.precision for n in quantised}
