"""Folders of torchao's tensors open as what those dequantise to."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from espalier.model.errors import SourceError
from espalier.model.opening import open_any
from espalier.model.sources.huggingface import from_folder
from espalier.model.sources.shapes_only import shapes_only
from espalier.model.sources.torchao import check_settings
from espalier.model.torch.build import build
from espalier.passes.export import export
from espalier.passes.running.example import example_inputs
from tests.passes.export.models import chosen, made

INT8 = "scaled_integer(width=8)"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "choices"),
    [("tied", {"linear.weight": INT8, "embedding.weight": INT8}), ("llama", {"linear.weight": "nvfp4"})],
)
def test_a_folder_of_tensors_opens_with_its_values(kind: str, choices: dict[str, str], tmp_path: Path) -> None:
    pytest.importorskip("torchao")
    found = open_any(str(made(kind, tmp_path / "home")), tmp_path / "work")
    graph = chosen(found.project.graph, choices)
    export(replace(found.project, graph=graph), found.store, "torchao", tmp_path / "out")
    again = open_any(str(tmp_path / "out"), tmp_path / "again")
    inputs = example_inputs(graph)
    with torch.no_grad():
        mine = build(graph, found.store)(**inputs)["logits"]
        theirs = build(again.project.graph, again.store)(**inputs)["logits"]
    assert torch.equal(mine, theirs) and again.project.graph.runs == "graph"
    assert len(again.project.graph.weights) == len(graph.weights), "the head is still tied"
    out = tmp_path / "out"
    export(again.project, again.store, "safetensors", out)
    assert "quantization_config" not in json.loads((out / "config.json").read_text())
    plain = open_any(str(out), tmp_path / "plain")
    with torch.no_grad():
        assert torch.equal(mine, build(plain.project.graph, plain.store)(**inputs)["logits"])


@pytest.mark.slow
def test_rounded_inputs_and_damage_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("torchao")
    found = open_any(str(made("llama", tmp_path / "home")), tmp_path / "work")
    graph, out = chosen(found.project.graph, {"linear.weight": INT8, "linear.data_in": INT8}), tmp_path / "out"
    export(replace(found.project, graph=graph), found.store, "torchao", out)
    with pytest.raises(SourceError, match="rounds or scales activations by torchao"):
        open_any(str(out), tmp_path / "again")
    config = json.loads((out / "config.json").read_text())
    config["quantization_config"]["quant_type"]["default"]["_type"] = "quantize_"
    (out / "config.json").write_text(json.dumps(config))
    with pytest.raises(SourceError, match="'quantize_', which is no configuration of torchao"):
        open_any(str(out), tmp_path / "again")
    file = out / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    config["quantization_config"]["quant_type"]["default"]["_type"] = "FqnToConfig"
    (out / "config.json").write_text(json.dumps(config))
    with pytest.raises(SourceError):
        open_any(str(out), tmp_path / "again")


@pytest.mark.parametrize(
    ("settings", "text"),
    [({"default": {"_type": "Int4Tensor", "_data": {}}}, "names 'Int4Tensor'"),
     ({"default": {"_type": "FqnToConfig", "_data": {"fqn_to_config": {"x": {"_type": "setattr", "_data": {}}}}}},
      "names 'setattr'"),
     ({"default": {"_type": "FqnToConfig", "_data": {"fqn_to_config": {r"re:((\w)+)+!$": None}}}}, "too long")],
)  # fmt: skip
def test_what_torchao_would_build_is_checked_first(settings: dict[str, Any], text: str) -> None:
    """torchao looks the name up in its packages, and calls what it finds."""
    with pytest.raises(SourceError, match=text):
        check_settings({"quant_method": "torchao", "quant_type": settings})
    check_settings({"quant_method": "gptq", "quant_type": settings})


def test_the_settings_of_a_part_are_checked_as_well(tmp_path: Path) -> None:
    """transformers takes the `quantization_config` of `text_config` where the model itself has none."""
    from transformers import CLIPConfig, CLIPModel

    tiny = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    text = {**tiny, "vocab_size": 20, "max_position_embeddings": 8}
    vision = {**tiny, "image_size": 8, "patch_size": 4}
    CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=4)).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    call = {"default": {"_type": "quantize_", "_data": {}}}
    config["text_config"]["quantization_config"] = {"quant_method": "torchao", "quant_type": call}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(SourceError, match="'quantize_', which is no configuration of torchao"):
        from_folder(str(tmp_path))
    with pytest.raises(SourceError, match="holds codes of a quantised model"):
        shapes_only(str(tmp_path))
