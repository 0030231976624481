"""Architectures of a search: their configurations, what cannot be, what they inherit, where spaces are laid out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import OptionsError, PassError
from espalier.model.opening import Opened, open_source
from espalier.model.sources.info import SourceInfo
from espalier.model.trust import Origin
from espalier.passes.base import Context, run_step
from espalier.passes.recipes.replay import Memo
from espalier.passes.search.architecture.building import Architect, Impossible
from espalier.passes.search.architecture.configuration import origin_of, why_not
from espalier.passes.search.prepare import Prepared, prepared
from espalier.passes.search.search import Search
from espalier.passes.search.spec import Goal, SearchSpec, Vary
from espalier.passes.search.with_training import fitted_to
from espalier.passes.select import Select
from espalier.passes.structure.weight_inheritance import inherit
from espalier.passes.transform.replace_linear import ReplaceLinearOptions

TINY = "config:bert?num_hidden_layers=4&hidden_size=32&num_attention_heads=4&intermediate_size=48&vocab_size=50"
TINY += "&max_position_embeddings=32&task=sequence-classification"
QUERY = "bert.encoder.layer.{}.attention.self.query.weight"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return open_source(TINY, tmp_path_factory.mktemp("source"), origin=Origin.TYPED)


@pytest.fixture(scope="module")
def architect(source: Opened) -> Architect:
    return Architect(source.project.source, source.project.base, source.store, seed=7)


def values(opened: Opened, name: str) -> np.ndarray:
    return opened.store.get(opened.project.base.weights[name].key).array


@pytest.mark.parametrize(
    ("spec", "task", "key"),
    [
        ("demo:reviews", "sequence-classification", "hidden_size"),
        (TINY, "sequence-classification", "num_hidden_layers"),
        ("config:gpt2?n_layer=1&n_embd=32&n_head=2&vocab_size=50&task=causal-lm", "causal-lm", "num_hidden_layers"),
        ("config:qwen3?num_hidden_layers=2&hidden_size=32&vocab_size=50", "", "intermediate_size"),
    ],
)
def test_source_and_its_configuration_name_the_same_model(spec: str, task: str, key: str) -> None:
    origin = origin_of(SourceInfo(spec, "it"))
    again = origin_of(SourceInfo(origin.spec({}), "again"))
    assert (origin.task, again.values, again.task) == (task, origin.values, task)
    changed = origin_of(SourceInfo(origin.spec({key: 16}), "other"))
    assert changed.values[origin.key(key)] == 16 != origin.values.get(origin.key(key))
    assert {k: v for k, v in changed.values.items() if k != origin.key(key)} == {
        k: v for k, v in origin.values.items() if k != origin.key(key)
    }


def test_sizes_that_follow_from_others_are_not_held() -> None:
    """A head's size and each layer's type are the source's by its other values: they follow a change of these."""
    llama = origin_of(SourceInfo("config:llama?hidden_size=64&num_attention_heads=4&num_hidden_layers=2", "llama"))
    assert set(llama.values) == {"hidden_size", "num_attention_heads", "num_hidden_layers"}
    qwen = origin_of(SourceInfo("config:qwen3?num_hidden_layers=3", "qwen"))
    assert "layer_types" not in qwen.values


def test_folder_gives_its_configuration(tmp_path: Path) -> None:
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(num_hidden_layers=1, hidden_size=16, num_attention_heads=2, intermediate_size=16, vocab_size=30)
    BertForMaskedLM(config).save_pretrained(tmp_path)
    origin = origin_of(SourceInfo(str(tmp_path), "mine"))
    assert (origin.kind, origin.task, origin.values["vocab_size"]) == ("bert", "masked-lm", 30)


@pytest.mark.parametrize(
    "spec", ["demo:digits", "mine.py:make", "model.pt2", "model.packed.safetensors"]
)  # fmt: skip
def test_source_without_configuration_is_told(spec: str) -> None:
    with pytest.raises(PassError, match="has no configuration") as caught:
        origin_of(SourceInfo(spec, "it"))
    assert "formats" in caught.value.hint


def test_unknown_key_names_the_nearest() -> None:
    with pytest.raises(OptionsError, match="no 'num_layers'") as caught:
        origin_of(SourceInfo(TINY, "it")).key("num_layers")
    assert "num_hidden_layers" in caught.value.hint


@pytest.mark.parametrize(
    ("spec", "changes", "reason"),
    [
        (TINY, {"num_attention_heads": 3}, "not a multiple"),
        (TINY, {"hidden_size": 48, "num_attention_heads": 3}, ""),
        ("config:gpt2?n_layer=1&n_embd=32&n_head=2&vocab_size=50", {"n_head": 5}, "divisible"),
        (TINY, {"hidden_act": "nonsense"}, "nonsense"),
    ],
)
def test_impossible_values_are_told_before_anything_is_built(
    spec: str, changes: dict[str, object], reason: str
) -> None:
    found = why_not(origin_of(SourceInfo(spec, "it")), changes)
    assert reason in found and bool(found) is bool(reason)


@pytest.mark.slow
def test_same_values_inherit_everything(source: Opened, architect: Architect) -> None:
    built = architect.build({})
    assert built.share == 1.0
    assert {n: w.key for n, w in built.graph.weights.items()} == {
        n: w.key for n, w in source.project.base.weights.items()
    }
    assert architect.build({}) is built


@pytest.mark.slow
def test_layers_come_evenly_spaced(source: Opened, architect: Architect) -> None:
    built = architect.build({"num_hidden_layers": 2})
    for new, old in ((0, 0), (1, 2)):
        key = built.graph.weights[QUERY.format(new)].key
        assert np.array_equal(built.store.get(key).array, values(source, QUERY.format(old)))
    deeper = architect.build({"num_hidden_layers": 8})
    assert deeper.graph.weights[QUERY.format(5)].key == source.project.base.weights[QUERY.format(2)].key


@pytest.mark.slow
def test_leading_rows_of_leading_heads(source: Opened, architect: Architect) -> None:
    """32 in 4 heads of 8 → 16 in 2 of 8 takes two heads whole; in 4 of 4 the first half of each."""
    old = values(source, QUERY.format(0))
    for heads, rows in ((2, np.arange(16)), (4, np.r_[0:4, 8:12, 16:20, 24:28])):
        built = architect.build({"hidden_size": 16, "num_attention_heads": heads})
        new = built.store.get(built.graph.weights[QUERY.format(0)].key).array
        assert np.array_equal(new, old[np.ix_(rows, np.arange(16))])


@pytest.mark.slow
def test_what_is_new_stays_as_the_seed_made_it(source: Opened, architect: Architect) -> None:
    built = architect.build({"intermediate_size": 64})
    name = "bert.encoder.layer.0.intermediate.dense.weight"
    new = built.store.get(built.graph.weights[name].key).array
    assert np.array_equal(new[:48], values(source, name)) and new[48:].std() > 0.01
    assert 0.5 < built.share < 1
    other = Architect(source.project.source, source.project.base, source.store, seed=7).build({"intermediate_size": 64})
    assert other.graph.weights == built.graph.weights
    bare = Architect(source.project.source, source.project.base, source.store, seed=7, inherits=False)
    fresh = bare.build({"intermediate_size": 64})
    assert fresh.share == 0 and not np.array_equal(fresh.store.get(fresh.graph.weights[name].key).array[:48], new[:48])


@pytest.mark.slow
def test_grouped_heads_and_fused_projections_inherit(tmp_path: Path) -> None:
    for kind, small, large in (
        ("llama", "num_attention_heads=4&num_key_value_heads=2&hidden_size=32&head_dim=8", "hidden_size=64&head_dim=16"
         "&num_attention_heads=4&num_key_value_heads=2"),
        ("gpt2", "n_head=2&n_embd=16", "n_head=2&n_embd=32"),
    ):  # fmt: skip
        rest = "num_hidden_layers=1&intermediate_size=24" if kind == "llama" else "n_layer=1&n_inner=24"
        old = open_source(f"config:{kind}?{small}&{rest}&vocab_size=40", tmp_path)
        new = open_source(f"config:{kind}?{large}&{rest}&vocab_size=40", tmp_path)
        found = inherit(new.project.base, new.store, old.project.base, old.store)
        assert found.taken == sum(w.elements for w in old.project.base.weights.values() if w.role == "parameter")


@pytest.mark.slow
def test_gpt2_takes_queries_keys_and_values_apart(tmp_path: Path) -> None:
    old = open_source("config:gpt2?n_head=2&n_embd=16&n_layer=1&vocab_size=40", tmp_path)
    new = open_source("config:gpt2?n_head=1&n_embd=8&n_layer=1&vocab_size=40", tmp_path)
    found = inherit(new.project.base, new.store, old.project.base, old.store)
    name = next(n for n in found.graph.weights if n.endswith("c_attn.weight"))
    taken = new.store.get(found.graph.weights[name].key).array
    columns = np.r_[0:8, 16:24, 32:40]  # the first head of each
    assert np.array_equal(taken, values(old, name)[np.ix_(np.arange(8), columns)])


@pytest.mark.slow
def test_impossible_architecture_is_an_error_in_words(architect: Architect) -> None:
    with pytest.raises(Impossible, match="not a multiple of the number of attention heads"):
        architect.build({"num_attention_heads": 3})


@pytest.mark.slow
def test_architecture_is_a_project_of_its_own(architect: Architect, tmp_path: Path) -> None:
    from espalier.model.document.project import Project, load_project, save_project
    from espalier.model.store.weights import WeightStore

    built = architect.build({"num_hidden_layers": 1})
    project = Project(built.info, built.graph, Recipe(), built.graph)
    save_project(project, built.store, tmp_path / "one.espalier", everything=True)
    again = load_project(tmp_path / "one.espalier", WeightStore(tmp_path / "work"))
    assert again.source.spec.startswith("config:bert?") and "num_hidden_layers=1" in again.source.spec
    assert again.base.weights == project.base.weights


# -- spaces


def space_of(source: Opened, *entries: Vary) -> Prepared:
    spec = SearchSpec("s", entries, goals=(Goal("size_bytes"),))
    search = Search(spec, Recipe(), source.project.base, source.project.source)
    return prepared(search, Context(source.store), Memo())


@pytest.mark.slow
def test_deeper_layers_are_chosen_only_where_they_are(source: Opened) -> None:
    layers = Vary("config", key="num_hidden_layers", values="1, 2, 6")
    identities = Vary("identity", select=Select("regex", ("self_query",)))
    found = space_of(source, identities, layers).space
    assert found.choices[0].key == "num_hidden_layers" and len(found.choices) == 7
    conditions = [c.when.values if c.when else None for c in found.choices[1:]]
    assert conditions == [None, (2, 6), (6,), (6,), (6,), (6,)]
    assert len(list(found.active({"num_hidden_layers": 2}))) == 3
    assert found.configurations() == 2 + 4 + 64


@pytest.mark.parametrize(
    ("entry", "message", "hint"),
    [
        (Vary("config", key="num_layers", values="1, 2"), "no 'num_layers'", "num_hidden_layers"),
        (Vary("config", key="num_attention_heads", values="3, 5"), "No model can be built", "Correct"),
        (Vary("identity", select=Select("regex", ("intermediate",))), "identity", ""),
    ],
)
def test_impossible_spaces_are_told_before_anything_runs(source: Opened, entry: Vary, message: str, hint: str) -> None:
    with pytest.raises(OptionsError, match=message) as caught:
        space_of(source, entry)
    assert hint in caught.value.hint


def test_recipe_leaves_out_what_a_model_lacks(source: Opened, architect: Architect) -> None:
    names = ("bert_encoder_layer_0_attention_self_query", "bert_encoder_layer_3_attention_self_query")
    recipe = Recipe((Step("replace_linear", ReplaceLinearOptions(Select("name", names))),))
    built = architect.build({"num_hidden_layers": 2})
    fitted = fitted_to(recipe, set(built.graph.nodes), {names[0]})
    assert fitted.steps[0].options.select.values == names[:1]
    after = run_step(built.graph, fitted.steps[0], built.context(Context(built.store))).graph
    assert after[names[0]].op == "identity"
    assert fitted_to(recipe, set(built.graph.nodes), set()).steps == ()
