"""Folders of compressed-tensors open as what their weights decompress to."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from espalier.model.errors import SourceError
from espalier.model.opening import open_any
from espalier.model.sources.compressed import check_settings
from espalier.model.torch.build import build
from espalier.passes.export import export
from espalier.passes.running.example import example_inputs
from tests.passes.export.models import chosen, made

pytest.importorskip("compressed_tensors")
BOTH = {"linear.weight": "scaled_integer(width=8)", "embedding.weight": "scaled_integer(width=8)"}


@pytest.mark.slow
def test_a_folder_of_codes_opens_with_its_values(tmp_path: Path) -> None:
    found = open_any(str(made("tied", tmp_path / "home")), tmp_path / "work")
    graph = chosen(found.project.graph, BOTH)
    export(replace(found.project, graph=graph), found.store, "compressed-tensors", tmp_path / "out")
    again = open_any(str(tmp_path / "out"), tmp_path / "again")
    inputs = example_inputs(graph)
    with torch.no_grad():
        mine = build(graph, found.store)(**inputs)["logits"]
        theirs = build(again.project.graph, again.store)(**inputs)["logits"]
    assert torch.equal(mine, theirs) and again.project.graph.runs == "graph"
    assert len(again.project.graph.weights) == len(graph.weights), "the head is still tied"


@pytest.mark.slow
def test_rounded_inputs_are_refused_as_they_would_be_lost(tmp_path: Path) -> None:
    found = open_any(str(made("llama", tmp_path / "home")), tmp_path / "work")
    graph = chosen(found.project.graph, {**BOTH, "linear.data_in": "scaled_integer(width=8)"})
    export(replace(found.project, graph=graph), found.store, "compressed-tensors", tmp_path / "out")
    with pytest.raises(SourceError, match="rounds activations by compressed-tensors"):
        open_any(str(tmp_path / "out"), tmp_path / "again")


@pytest.mark.slow
def test_a_damaged_folder_is_refused(tmp_path: Path) -> None:
    """transformers would draw what is missing at random."""
    found = open_any(str(made("llama", tmp_path / "home")), tmp_path / "work")
    out = tmp_path / "out"
    export(replace(found.project, graph=chosen(found.project.graph, BOTH)), found.store, "compressed-tensors", out)
    config = json.loads((out / "config.json").read_text())
    tensors = load_file(out / "model.safetensors")
    scale = next(name for name in tensors if name.endswith("weight_scale"))

    def refused(change: Callable[[dict[str, Any]], object], text: str) -> None:
        changed = json.loads(json.dumps(config))
        change(changed)
        (out / "config.json").write_text(json.dumps(changed))
        with pytest.raises(SourceError, match=text):
            open_any(str(out), tmp_path / "again")

    refused(lambda c: c.pop("quantization_config"), r"has no .* and \d+ more")
    refused(lambda c: c["quantization_config"].update(config_groups={}), "has no ")
    refused(lambda c: c.update(num_hidden_layers=2), r"has no model\.layers\.1")
    refused(lambda c: c["quantization_config"].update(kv_cache_scheme={"num_bits": 2}), "kv_cache_scheme")
    save_file({k: v for k, v in tensors.items() if k != scale}, out / "model.safetensors", {"format": "pt"})
    refused(lambda c: None, f"has no {scale}")


@pytest.mark.parametrize("pattern", [r"(([\w.])+)+!$", "(a|a)*b", "(.*){9}", ".*" * 6, "a" * 501])
def test_patterns_that_may_search_for_ever_are_refused(pattern: str) -> None:
    settings = {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"targets": [f"re:{pattern}"]}}}
    start = time.monotonic()
    with pytest.raises(SourceError, match="may take too long"):
        check_settings(settings)
    assert time.monotonic() - start < 2


def test_usual_patterns_and_other_methods_pass() -> None:
    usual = ["re:.*lm_head", r"re:model\.layers\.\d+\.mlp\.(gate|up)_proj$", "Linear"]
    check_settings({"quant_method": "compressed-tensors", "ignore": usual})
    check_settings({"quant_method": "another", "ignore": ["re:(a+)+"]})
    check_settings(None)
