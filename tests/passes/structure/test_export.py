"""A model with parts removed leaves as transformers' own where its configuration can say the sizes, else with ours."""

from __future__ import annotations

import json
import re
import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers import LlamaForCausalLM

from espalier.model.document.project import Project
from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import ExportError, SourceError
from espalier.model.opening import Opened, open_any
from espalier.model.torch.build import build
from espalier.model.trust import Origin
from espalier.passes.base import Context
from espalier.passes.choices.lora import LoraOptions
from espalier.passes.choices.prune_structured import PruneStructuredOptions
from espalier.passes.export import export
from espalier.passes.export.loading import load_folder
from espalier.passes.recipes.replay import replay
from espalier.passes.running.example import example_inputs
from espalier.passes.select import Select
from espalier.passes.transform.remove_layers import RemoveLayersOptions
from espalier.passes.transform.remove_pruned import RemovePrunedOptions

TEXT = "vocab_size=61&hidden_size=32&num_attention_heads=4&num_hidden_layers=3&intermediate_size=24"
BERT = f"config:bert?{TEXT}&max_position_embeddings=40&task=sequence-classification"
LLAMA = f"config:llama?{TEXT}&num_key_value_heads=2&task=causal-lm"
T5 = "config:t5?vocab_size=61&d_model=32&d_kv=8&d_ff=24&num_layers=2&num_heads=4&task=seq2seq-lm"
GPT2 = "config:gpt2?vocab_size=61&n_embd=32&n_layer=2&n_head=4&task=causal-lm"
FEED = Select("regex", ("intermediate", "mlp"))


def structured(what: Any, select: Select = FEED) -> Step:
    return Step("prune_structured", PruneStructuredOptions(what, 0.5, select=select))


REMOVE = Step("remove_pruned", RemovePrunedOptions())
NEURONS = (structured("neurons"), REMOVE)
LAYERS = (Step("remove_layers", RemoveLayersOptions(numbers=(1,))),)
HEADS = (structured("heads", Select()), REMOVE)
QUERIES = (structured("queries", Select()), REMOVE)


def exported(spec: str, steps: tuple[Step, ...], folder: Path) -> tuple[Opened, Project, Path]:
    opened = open_any(spec, folder / "work", seed=1, origin=Origin.TYPED)
    recipe = Recipe(steps)
    done = replay(opened.project.graph, recipe, Context(opened.store, callables=opened.callables))
    project = replace(opened.project, recipe=recipe, graph=done.graph)
    export(project, opened.store, "safetensors", folder / "out")
    return opened, project, folder / "out"


@pytest.mark.sampled(0.34)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "steps", "sizes"),
    [(BERT, NEURONS, {"intermediate_size": 12}), (BERT, LAYERS, {"num_hidden_layers": 2}),
     (LLAMA, (*HEADS[:1], *NEURONS), {"intermediate_size": 12, "num_attention_heads": 2, "num_key_value_heads": 1}),
     (LLAMA, QUERIES, {"num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 8}),
     (T5, HEADS, {"num_heads": 2, "d_kv": 8, "d_ff": 24}),
     (GPT2, NEURONS, {"n_inner": 64})],
    ids=["neurons", "layers", "grouped heads", "queries", "a size by two names", "a size that was left out"],
)  # fmt: skip
def test_what_a_configuration_can_say_opens_in_transformers(
    spec: str, steps: tuple[Step, ...], sizes: dict[str, int], tmp_path: Path
) -> None:
    import transformers

    opened, project, folder = exported(spec, steps, tmp_path)
    config = transformers.AutoConfig.from_pretrained(folder)
    assert {k: getattr(config, k) for k in sizes} == sizes
    kinds = {"causal-lm": "CausalLM", "seq2seq-lm": "Seq2SeqLM"}
    name = kinds.get(spec.partition("task=")[2], "SequenceClassification")
    model = getattr(transformers, f"AutoModelFor{name}").from_pretrained(folder).eval()
    inputs = example_inputs(project.graph)
    with torch.no_grad():
        mine, other = build(project.graph, opened.store)(**inputs)["logits"], model(**inputs).logits
    assert torch.allclose(mine, other, atol=1e-5)


UNEVEN = (structured("neurons", Select("regex", ("(layer|layers|h|block)[._]1[._]",))), REMOVE)


def read(folder: Path) -> Any:
    """The model as another program reads it: by the class in the folder alone."""
    code = (folder / "modeling_pruned.py").read_text()
    assert "espalier" not in code
    held = runpy.run_path(str(folder / "modeling_pruned.py"))
    names = json.loads((folder / "config.json").read_text())["auto_map"].values()
    cls = held[next(iter(names)).removeprefix("modeling_pruned.")]
    return cls.from_pretrained(folder).eval()


@pytest.mark.sampled(0.5)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "steps"),
    [(BERT, HEADS), (GPT2, HEADS), (BERT, UNEVEN), (LLAMA, UNEVEN), (GPT2, UNEVEN), (T5, UNEVEN),
     (LLAMA, (structured("heads", Select("regex", ("layers[._]1[._]",))), REMOVE)),
     (LLAMA, (structured("queries", Select("regex", ("layers[._]0[._]",))), REMOVE)),
     (GPT2, (structured("heads", Select("regex", ("h[._]1[._]",))), REMOVE)),
     (BERT, (*UNEVEN, *LAYERS)), (BERT, (Step("remove_layers", RemoveLayersOptions(numbers=(0,))), *UNEVEN))],
)  # fmt: skip
def test_sizes_that_no_configuration_can_say_leave_as_a_class(
    spec: str, steps: tuple[Step, ...], tmp_path: Path
) -> None:
    opened, project, folder = exported(spec, steps, tmp_path)
    again = open_any(str(folder), tmp_path / "again", origin=Origin.TYPED)
    inputs = example_inputs(project.graph)
    with torch.no_grad():
        mine = build(project.graph, opened.store)(**inputs)["logits"]
        assert torch.allclose(mine, build(again.project.graph, again.store)(**inputs)["logits"], atol=1e-5)
        if (folder / "modeling_pruned.py").exists():
            assert torch.allclose(mine, read(folder)(**inputs).logits, atol=1e-5)
        else:
            assert spec == BERT and steps[0] in UNEVEN and LAYERS[0] in steps  # the uneven layer has gone


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("steps", [NEURONS, UNEVEN], ids=["a configuration", "a class"])
def test_weights_stay_in_half_precision(dtype: str, steps: tuple[Step, ...], tmp_path: Path) -> None:
    found = open_any(LLAMA, tmp_path / "source", seed=1, origin=Origin.TYPED)
    export(found.project, found.store, "safetensors", tmp_path / "wide")
    LlamaForCausalLM.from_pretrained(tmp_path / "wide", dtype=getattr(torch, dtype)).save_pretrained(tmp_path / "half")
    opened, project, folder = exported(str(tmp_path / "half"), steps, tmp_path)
    config = json.loads((folder / "config.json").read_text())
    assert config["dtype"] == dtype and ("pruned_shapes" in config) == (steps is UNEVEN)
    again = open_any(str(folder), tmp_path / "again", origin=Origin.TYPED)
    inputs = example_inputs(project.graph)
    with torch.no_grad():
        mine, other = (build(p.graph, s)(**inputs)["logits"]
                       for p, s in ((project, opened.store), (again.project, again.store)))  # fmt: skip
    assert torch.equal(mine, other) and mine.dtype == getattr(torch, dtype)


@pytest.mark.slow
def test_a_class_is_pruned_again_and_leaves_whole(tmp_path: Path) -> None:
    """The sizes of the first pruning stay; a plain model in the same folder takes the class away."""
    _, _, folder = exported(GPT2, (structured("heads", Select("regex", ("h[._]1[._]",))), REMOVE), tmp_path)
    steps = (structured("neurons", Select("regex", ("h[._]0[._]",))), REMOVE)
    (tmp_path / "b").mkdir()
    opened, project, second = exported(str(folder), steps, tmp_path / "b")
    listed = json.loads((second / "config.json").read_text())["pruned_shapes"]
    assert {n.split(".")[2] for n in listed} == {"0", "1"}
    inputs = example_inputs(project.graph)
    with torch.no_grad():
        mine = build(project.graph, opened.store)(**inputs)["logits"]
        assert torch.allclose(mine, read(second)(**inputs).logits, atol=1e-5)
    with pytest.raises(ExportError, match="different sizes"):
        export(open_any(str(folder), tmp_path / "c", origin=Origin.TYPED).project, opened.store, "gguf", tmp_path / "m")
    plain = open_any(GPT2, tmp_path / "d", origin=Origin.TYPED)
    export(plain.project, plain.store, "safetensors", second)
    assert not (second / "modeling_pruned.py").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [{"pruned_shapes": {"lm_head.weight": [10**12, 32]}}, {"pruned_shapes": {"none.weight": [3]}},
     {"pruned_shapes": {"lm_head.weight": [0, 32]}}, {"pruned_shapes": [1]},
     {"pruned_attributes": {"": {"forward": 3}}}, {"pruned_attributes": {"lm_head": {"training": 1}}},
     {"pruned_attributes": {"lm_head": {"out_features": 10**9}}},
     {"pruned_attributes": {"none": {}}}, {"pruned_attributes": {"lm_head": 3}}],
    ids=repr,
)  # fmt: skip
def test_a_list_that_does_more_than_cut_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    _, _, folder = exported(LLAMA, UNEVEN, tmp_path)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(SourceError, match="cannot be loaded"):
        open_any(str(folder), tmp_path / "again", origin=Origin.TYPED)


@pytest.mark.slow
def test_other_sizes_than_those_of_the_weights_are_named(tmp_path: Path) -> None:
    _, _, folder = exported(LLAMA, UNEVEN, tmp_path)
    config = json.loads((folder / "config.json").read_text())
    name = next(n for n in config["pruned_shapes"] if n.endswith("up_proj.weight"))
    rows, columns = config["pruned_shapes"][name]
    config["pruned_shapes"][name] = [rows - 1, columns]
    (folder / "config.json").write_text(json.dumps(config))
    said = f"{name} has {rows} × {columns} values in its files, and {rows - 1} × {columns} by its configuration"
    with pytest.raises(SourceError, match=re.escape(said)):
        open_any(str(folder), tmp_path / "again", origin=Origin.TYPED)


@pytest.mark.slow
def test_a_width_that_a_configuration_refuses_leaves_with_our_graph(tmp_path: Path) -> None:
    """hidden_size 28 is no multiple of 6 heads, which transformers finds out only when it writes the configuration."""
    spec = LLAMA.replace("hidden_size=32&num_attention_heads=4", "hidden_size=48&num_attention_heads=6")
    steps = (Step("prune_structured", PruneStructuredOptions("width", count=4)), REMOVE)
    opened, project, folder = exported(spec.replace("heads=2", "heads=3"), steps, tmp_path)
    assert (folder / "graph.json").exists() and not (folder / "config.json").exists()
    inputs = example_inputs(project.graph)
    with torch.no_grad():
        mine, other = (m(**inputs)["logits"] for m in (build(project.graph, opened.store), load_folder(folder)))
    assert torch.equal(mine, other)
    plain = open_any(GPT2, tmp_path / "d", origin=Origin.TYPED)
    export(plain.project, plain.store, "safetensors", folder)
    assert not [n for n in ("graph.json", "load.py", "README.md") if (folder / n).exists()]
    with pytest.raises(ExportError, match="holds a model of transformers"):
        export(project, opened.store, "safetensors", folder)
    assert transformers.GPT2LMHeadModel.from_pretrained(folder).config.n_embd == 32


@pytest.mark.slow
def test_parameters_of_training_alone_stay(tmp_path: Path) -> None:
    """Wav2Vec2 has an embedding of masked frames, which no evaluation uses."""
    config = transformers.Wav2Vec2Config(
        vocab_size=32, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=24,
        conv_dim=(16, 16), conv_stride=(5, 2), conv_kernel=(10, 3), num_feat_extract_layers=2,
        num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=4, num_labels=3, classifier_proj_size=16,
    )  # fmt: skip
    torch.manual_seed(1)
    transformers.Wav2Vec2ForSequenceClassification(config).eval().save_pretrained(tmp_path / "w")
    steps = (structured("neurons", Select("regex", ("layers[._]1[._]",))), REMOVE)
    opened, project, folder = exported(str(tmp_path / "w"), steps, tmp_path)
    inputs = example_inputs(project.graph)
    with torch.no_grad():
        mine = build(project.graph, opened.store)(**inputs)["logits"]
        again = read(folder)
        assert torch.allclose(mine, again(**inputs).logits, atol=1e-5)
    source = transformers.Wav2Vec2ForSequenceClassification.from_pretrained(tmp_path / "w")
    assert torch.equal(again.wav2vec2.masked_spec_embed, source.wav2vec2.masked_spec_embed)


@pytest.mark.parametrize("spec", [BERT, pytest.param(GPT2, marks=pytest.mark.slow)])
def test_heads_with_adapters_leave_with_our_graph(spec: str, tmp_path: Path) -> None:
    opened, project, folder = exported(spec, (*HEADS, Step("lora", LoraOptions())), tmp_path)
    assert any("no size of its config" in n for n in export(project, opened.store, "safetensors", folder).notes)
    assert (folder / "graph.json").exists() and not (folder / "config.json").exists()
    inputs = example_inputs(project.graph)
    with torch.no_grad():
        mine, other = (m(**inputs)["logits"] for m in (build(project.graph, opened.store), load_folder(folder)))
    assert torch.equal(mine, other)


@pytest.mark.slow
def test_a_smaller_model_is_packed_and_opens_again(tmp_path: Path) -> None:
    opened, project, _ = exported(BERT, (*HEADS[:1], *NEURONS), tmp_path)
    export(project, opened.store, "packed", tmp_path / "m.packed.safetensors")
    again = open_any(str(tmp_path / "m.packed.safetensors"), tmp_path / "again", origin=Origin.TYPED)
    inputs = example_inputs(project.graph)
    with torch.no_grad():
        mine, other = (
            build(p.graph, o.store)(**inputs)["logits"] for p, o in ((project, opened), (again.project, again))
        )
    assert torch.equal(mine, other)
