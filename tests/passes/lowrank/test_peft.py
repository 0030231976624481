"""PEFT is the judge: adapters made here run there, and those made there run here, with equal results."""

from __future__ import annotations

import copy
import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from espalier.model.document.project import Project
from espalier.model.document.recipe import Recipe
from espalier.model.errors import EspalierError, ExportError
from espalier.model.formats.integer import Integer
from espalier.model.graph.adapters import adapted
from espalier.model.graph.graph import Graph
from espalier.model.sources.info import SourceInfo
from espalier.model.store.weights import Tensor as Stored
from espalier.passes.choices.lora import LoraOptions, Rank
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.export.adapter import changed_tensors, write_adapter
from espalier.passes.lowrank.peft_read import CONFIG, VALUES, read_peft
from espalier.passes.lowrank.peft_write import write_peft
from espalier.passes.select import Select
from espalier.passes.transform.fuse_lora import FuseLoraOptions
from espalier.passes.transform.load_adapter import LoadAdapterOptions
from tests.model.zoo import run
from tests.passes.lowrank.lora_cases import Case, case, near, results, step, trained

peft = pytest.importorskip("peft", reason="peft is not installed")

ANY = Select("regex", (".",))
SLOW = tuple(pytest.param(n, marks=pytest.mark.slow) for n in ("llama", "distilbert", "vit", "t5", "swin", "roberta"))
TARGETS: dict[str, Any] = {
    "mlp": ["first"], "image": "all-linear", "bert": ["query", "dense", "word_embeddings"], "gpt2": ["c_attn", "c_fc"],
    "llama": ["q_proj", "k_proj", "up_proj"], "distilbert": ["q_lin", "lin1"], "vit": ["q_proj", "fc1"],
    "t5": ["q", "wi"], "swin": ["q_proj", "query"], "roberta": ["value", "out_proj"],
}  # fmt: skip


def theirs(held: Case, folder: Path) -> list[Tensor]:
    """Results of the original model with the adapter in `folder`."""
    return run(opened(held, folder).eval(), held.example)


def opened(held: Case, folder: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return peft.PeftModel.from_pretrained(copy.deepcopy(held.original), folder)


def theirs_saved(held: Case, folder: Path, **config: Any) -> list[Tensor]:
    """An adapter that PEFT makes, fills with random values and saves; the model's results with it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = peft.get_peft_model(copy.deepcopy(held.original), peft.LoraConfig(**config))
        torch.manual_seed(5)
        for name, value in model.named_parameters():
            if "lora_" in name or "modules_to_save" in name:
                value.data = torch.randn_like(value) * 0.3
        model.save_pretrained(folder)
    return run(model.eval(), held.example)


@pytest.mark.parametrize("name", ["mlp", "bert", "gpt2", "image", *SLOW])
def test_what_is_made_here_opens_in_peft(name: str, tmp_path: Path) -> None:
    held = case(name)
    everything = LoraOptions(3, 5.0, 0.1, select=ANY)
    graph = trained(step(held.graph, held, "lora", everything)[0], held)
    write_peft(graph, held.store, tmp_path, None, {})
    mine = results(graph, held)
    assert near(mine, theirs(held, tmp_path)) and not near(mine, results(held.graph, held), 1e-3)


@pytest.mark.parametrize("name", ["mlp", "bert", "gpt2", *SLOW])
def test_what_peft_made_loads_here(name: str, tmp_path: Path) -> None:
    held = case(name)
    want = theirs_saved(held, tmp_path, r=2, lora_alpha=6, target_modules=TARGETS[name], use_rslora=name == "gpt2")
    graph, report = step(held.graph, held, "load_adapter", LoadAdapterOptions(str(tmp_path)))
    assert near(results(graph, held), want) and report.summary["adapters"] == len(report.rows) > 0
    trains = {k for k, w in graph.weights.items() if w.role == "parameter" and w.trainable}
    assert trains == {x for _, a in adapted(graph) for x in (a.a, a.b)}


def test_a_convolution_that_peft_made(tmp_path: Path) -> None:
    held = case("image")
    layers = [n for n, m in held.original.named_modules() if isinstance(m, nn.Conv2d) and m.groups == 1]
    assert layers
    want = theirs_saved(held, tmp_path, r=2, target_modules=layers)
    graph, _ = step(held.graph, held, "load_adapter", LoadAdapterOptions(str(tmp_path)))
    assert near(results(graph, held), want)


def test_patterns_and_whole_modules_of_peft(tmp_path: Path) -> None:
    held = case("bert")
    patterns = {"rank_pattern": {"query": 5}, "alpha_pattern": {r"layer\.0\.attention\.self\.key": 9}}
    whole = {"target_modules": ["query", "key"], "modules_to_save": ["classifier"]}
    want = theirs_saved(held, tmp_path, r=2, lora_alpha=4, **whole, **patterns)
    graph, report = step(held.graph, held, "load_adapter", LoadAdapterOptions(str(tmp_path)))
    assert near(results(graph, held), want)
    assert {r["rank"] for r in report.rows} == {2, 5} and report.summary["saved_tensors"] == 2
    assert graph.weights["classifier.weight"].trainable
    assert {round(a.scaling, 4) for _, a in adapted(graph)} == {0.8, 2.0, 4.5}


def test_ranks_and_scalings_of_each_layer_reach_peft(tmp_path: Path) -> None:
    held = case("bert")
    options = LoraOptions(4, ranks=(Rank(Select("regex", ("query",)), 2), Rank(Select("regex", ("key",)), 0)))
    graph, _ = step(held.graph, held, "lora", options)
    graph, _ = step(graph, held, "lora", LoraOptions(3, 7.0, rooted=True, select=Select("regex", ("value",))))
    graph = trained(graph, held)
    write_peft(graph, held.store, tmp_path, None, {})
    assert near(results(graph, held), theirs(held, tmp_path))
    found = read_peft(tmp_path)
    assert not any("key" in path for path in found.layers) and {x.rank for x in found.layers.values()} == {2, 3, 4}
    again, _ = step(held.graph, held, "load_adapter", LoadAdapterOptions(str(tmp_path)))
    assert near(results(again, held), results(graph, held))


@pytest.mark.slow
def test_an_adapter_fused_here_is_what_peft_merges(tmp_path: Path) -> None:
    held = case("gpt2")
    graph = trained(step(held.graph, held, "lora", LoraOptions(3, select=Select("regex", ("c_",))))[0], held)
    write_peft(graph, held.store, tmp_path, None, {})
    merged = opened(held, tmp_path).merge_and_unload().state_dict()
    fused, _ = step(graph, held, "fuse_lora", FuseLoraOptions())
    for _, name in [(n, n.weights["weight"]) for n, _ in adapted(graph)]:
        mine = held.store.get(fused.weights[name].key or "").array
        assert np.allclose(mine, merged[name].numpy(), atol=1e-6)


# -- the export


def project(held: Case, graph: Graph) -> Project:
    return Project(SourceInfo("config:bert", "bert"), held.graph, Recipe(), graph)


def test_the_head_travels_with_the_adapters(tmp_path: Path) -> None:
    held = case("bert")
    graph = trained(step(held.graph, held, "lora", LoraOptions(2, train_head=True))[0], held)
    assert not graph["classifier"].adapters and graph.weights["classifier.weight"].trainable
    value = held.store.get(graph.weights["classifier.weight"].key or "").array * 3
    key = held.store.hold(Stored(value, "float32"))
    graph = graph.with_weights({"classifier.weight": replace(graph.weights["classifier.weight"], key=key)})
    files, notes = write_adapter(project(held, graph), held.store, tmp_path / "a")
    assert {f.name for f in files} == {CONFIG, VALUES} and "by name" in notes[0]
    config = json.loads((tmp_path / "a" / CONFIG).read_text())
    assert config["modules_to_save"] == ["classifier"]
    assert near(results(graph, held), theirs(held, tmp_path / "a"))


def test_a_changed_base_is_not_passed_over() -> None:
    held = case("bert")
    graph, _ = step(held.graph, held, "lora", LoraOptions(2))
    name = next(n.weights["weight"] for n, _ in adapted(graph))
    moved = graph.with_weights({name: replace(graph.weights[name], key="0" * 32)})
    with pytest.raises(ExportError, match="not those of the source"):
        changed_tensors(held.graph, moved)
    quantised, _ = step(graph, held, "quantize", QuantizeOptions((Rule(Select("type", ("linear",)),
                                                                     {"weight": Integer(8, 6)}),)))  # fmt: skip
    assert changed_tensors(held.graph, quantised) == {}


def test_without_adapters_there_is_nothing_to_export(tmp_path: Path) -> None:
    held = case("bert")
    with pytest.raises(ExportError, match="no adapters"):
        write_adapter(project(held, held.graph), held.store, tmp_path / "a")


# -- what is refused


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"peft_type": "IA3"}, "peft_type = IA3"), ({"use_dora": True}, "DoRA"), ({"bias": "all"}, "trained biases"),
        ({"init_lora_weights": "pissa"}, "initialised by pissa"), ({"lora_alpha": "much"}, "lora_alpha"),
        ({"alpha_pattern": {"(": 3}}, "alpha_pattern"), ({"trainable_token_indices": [3]}, "trained tokens"),
    ],
)  # fmt: skip
def test_other_kinds_are_refused_in_words(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    held = case("mlp")
    theirs_saved(held, tmp_path, r=2, target_modules=["first"])
    config = json.loads((tmp_path / CONFIG).read_text()) | change
    (tmp_path / CONFIG).write_text(json.dumps(config))
    with pytest.raises(EspalierError, match=words) as caught:
        step(held.graph, held, "load_adapter", LoadAdapterOptions(str(tmp_path)))
    assert caught.value.hint


def test_an_adapter_of_another_model_is_told(tmp_path: Path) -> None:
    held, other = case("mlp"), case("bert")
    theirs_saved(other, tmp_path / "bert", r=2, target_modules=["query"])
    with pytest.raises(EspalierError, match=r"for a module bert\.encoder.*which this model does not have"):
        step(held.graph, held, "load_adapter", LoadAdapterOptions(str(tmp_path / "bert")))
    theirs_saved(held, tmp_path / "mlp", r=2, target_modules=["first"])
    values = read_peft(tmp_path / "mlp")
    assert set(values.layers) == {"first"}
    wide = replace(values.layers["first"].a, array=np.zeros((2, 9), np.float32))
    from espalier.model.store.weights import write

    with (tmp_path / "mlp" / VALUES).open("wb") as handle:
        write(handle, {"base_model.model.first.lora_A.weight": wide,
                       "base_model.model.first.lora_B.weight": values.layers["first"].b})  # fmt: skip
    with pytest.raises(EspalierError, match=r"matrices of \(2, 9\)"):
        step(held.graph, held, "load_adapter", LoadAdapterOptions(str(tmp_path / "mlp")))


@pytest.mark.parametrize("damage", ["no-folder", "no-values", "pickle", "half", "no-json", "cut"])
def test_a_damaged_folder_is_told(damage: str, tmp_path: Path) -> None:
    held = case("mlp")
    theirs_saved(held, tmp_path, r=2, target_modules=["first"])
    values = tmp_path / VALUES
    match damage:
        case "no-folder":
            (tmp_path / CONFIG).unlink()
        case "no-values" | "pickle":
            values.rename(tmp_path / "adapter_model.bin") if damage == "pickle" else values.unlink()
        case "half":
            from espalier.model.store.weights import write

            held_b = read_peft(tmp_path).layers["first"].b
            with values.open("wb") as handle:
                write(handle, {"base_model.model.first.lora_B.weight": held_b})
        case "no-json":
            (tmp_path / CONFIG).write_text("{")
        case _:
            values.write_bytes(values.read_bytes()[:-3])
    with pytest.raises(EspalierError) as caught:
        step(held.graph, held, "load_adapter", LoadAdapterOptions(str(tmp_path)))
    assert caught.value.message and caught.value.hint
