"""A search that is limited to a target tries nothing that the target cannot hold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from espalier.app.cli import main
from espalier.model.document.recipe import Recipe
from espalier.model.errors import OptionsError
from espalier.model.graph.graph import Graph
from espalier.model.opening import open_any
from espalier.model.sources.reading import Limits
from espalier.passes.export.targets import TARGETS, all_unheld
from espalier.passes.search.expand import expand
from espalier.passes.search.spec import ExportTarget, SearchSpec, Vary
from espalier.passes.search.target import check_model
from espalier.passes.select import Select
from tests.passes.export.models import chosen, made

ALL = Vary(values="all, float")


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """A random Llama: rows of 64 and 96."""
    return open_any(str(made("llama", tmp_path_factory.mktemp("llama"))), tmp_path_factory.mktemp("work")).project.graph


def test_every_target_of_export_can_be_named() -> None:
    assert set(get_args(ExportTarget)) == {"", *TARGETS}


@pytest.mark.parametrize("target", list(get_args(ExportTarget))[1:])
def test_what_is_left_is_held(llama: Graph, target: ExportTarget) -> None:
    """Each format that stays is held on all nodes, and each that is left out is refused by one: told by the target."""
    whole = expand(SearchSpec(space=(ALL,)), llama, Recipe()).choices
    held = expand(SearchSpec(space=(ALL,), target=target), llama, Recipe()).choices
    assert [c.name for c in held] == [c.name for c in whole]
    for before, after in zip(whole, held, strict=True):
        assert 1 < len(after.values) < len(before.values) and "float" in after.values
        for value in before.values:
            if value != "float":
                given = chosen(llama, {"linear.weight": str(value)})
                refused = [u for u in all_unheld(target, given) if u.node in before.nodes]
                assert bool(refused) == (value not in after.values), value


def test_inputs_are_judged_beside_a_weight(llama: Graph) -> None:
    entry = Vary(values="scaled_integer(width=8, granularity=tensor|channel), mxint8", ports=("data_in",))
    (first, *_) = expand(SearchSpec(space=(entry,), target="compressed-tensors"), llama, Recipe()).choices
    assert len(first.values) == 2 and not any("mxint" in str(v) for v in first.values)


def test_nothing_that_is_held_is_an_error_with_a_format_that_would_do(llama: Graph) -> None:
    with pytest.raises(OptionsError, match=r"gguf holds none of the formats of .*log.*whole number") as found:
        expand(SearchSpec(space=(Vary(values="log"),), target="gguf"), llama, Recipe())
    assert "Q8_0" in found.value.hint and found.value.node
    data = Vary(values="int8, float", ports=("data_in",))
    with pytest.raises(OptionsError, match="says nothing of activations"):
        expand(SearchSpec(space=(data,), target="gguf"), llama, Recipe())


def test_what_the_recipe_chose_and_nothing_varies_is_an_error(llama: Graph) -> None:
    graph = chosen(llama, {"embedding.weight": "log"})
    spec = SearchSpec(space=(ALL,), target="gguf")
    with pytest.raises(OptionsError, match=r"embed.*which the recipe chooses"):
        expand(spec, graph, Recipe())
    embedding = replace(ALL, select=Select("type", ("embedding",)))
    assert len(expand(replace(spec, space=(ALL, embedding)), graph, Recipe()).choices) == 9
    assert expand(replace(spec, target=""), graph, Recipe()).choices


def test_a_target_that_takes_no_such_model_is_an_error() -> None:
    for architecture, head in (("bert", "masked-lm"), ("llama", "sequence-classification"), ("", "")):
        with pytest.raises(OptionsError, match="limited to gguf"):
            check_model("gguf", Limits(architecture=architecture, head=head))
    check_model("gguf", Limits(architecture="llama", head="causal-lm"))
    check_model("gguf", Limits())
    check_model("onnx", Limits(architecture=""))
    with pytest.raises(OptionsError, match="limited to compressed-tensors, but the model is none of transformers"):
        check_model("compressed-tensors", Limits(architecture=""))


def test_a_search_limited_to_such_a_target_is_refused_before_its_first_trial(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = tmp_path / "search.toml"
    spec.write_text('goals = ["weight_bits"]\ntrials = 2\n[[space]]\nvalues = "all"\n')
    assert main(["search", "demo:digits-mlp", str(spec), "--export-target", "gguf", "-o", str(tmp_path / "a.espalier")])
    assert "limited to gguf, but no file of this model is written" in capsys.readouterr().err


@pytest.mark.slow
def test_the_best_trial_is_exported(tmp_path: Path) -> None:
    """From the command line, on the model that ships."""
    spec = tmp_path / "search.toml"
    spec.write_text('goals = ["weight_bits"]\ntrials = 6\n[[space]]\nvalues = "all"\n')
    best, file = tmp_path / "best.espalier", tmp_path / "best.gguf"
    assert main(["search", "demo:stories", str(spec), "--export-target", "gguf", "-o", str(best)]) == 0
    assert main(["export", str(best), "--as", "gguf", "-o", str(file)]) == 0
    assert file.stat().st_size > 10_000
