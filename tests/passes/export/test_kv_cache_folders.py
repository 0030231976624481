"""Folders with a `kv_cache_scheme`: compressed-tensors rounds keys and values as the model; others are refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from safetensors.torch import load_file

from espalier.model.data.base import Split
from espalier.model.errors import ExportError, SourceError
from espalier.model.graph.caches import cache_nodes, caches
from espalier.model.graph.graph import Graph
from espalier.model.opening import Opened, open_any
from espalier.passes.base import Context
from espalier.passes.choices.kv_cache import KVCacheOptions
from espalier.passes.export import export
from espalier.passes.select import Select
from espalier.passes.transform.calibrate import CalibrateOptions, calibrate
from espalier.passes.transform.kv_cache import kv_cache
from tests.passes.export.models import chosen, made
from tests.passes.test_kv_cache import mistral

pytest.importorskip("compressed_tensors")
INT8 = "scaled_element(element=int8)"


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Any:
    home = tmp_path_factory.mktemp("folders")
    return open_any(str(made("llama", home / "model")), home / "work")


def cached(found: Opened, key: str, scales: Any, value: str = "", select: Select | None = None) -> Graph:
    """The graph with a calibrated cache."""
    options = KVCacheOptions(key, value or key, scales, scales, scale_dtype="float32", select=select or Select())
    graph, _ = kv_cache(found.project.graph, options, Context(found.store))
    if scales in ("head", "token"):
        return graph
    ids = np.random.default_rng(0).integers(0, 100, (4, 20))
    split = Split({"input_ids": ids, "attention_mask": np.ones_like(ids)}, np.zeros_like(ids))
    options = CalibrateOptions(data="here", select=Select("type", ("kv_cache",)), method="minmax")
    with patch("espalier.passes.running.splits.load_split", lambda *_: split):
        return calibrate(graph, options, Context(found.store))[0]


@pytest.mark.slow
@pytest.mark.parametrize(("key", "scales", "strategy", "shape"), [
    ("fp8", "tensor", "tensor", (1,)), ("fp8", "static_head", "attn_head", (2, 1, 1)),
    (INT8, "tensor", "tensor", (1,)), (INT8, "static_head", "attn_head", (2, 1, 1)),
])  # fmt: skip
def test_the_scheme_rounds_as_the_model(
    opened: Opened, tmp_path: Path, key: str, scales: str, strategy: str, shape: tuple[int, ...]
) -> None:
    project = replace(opened.project, graph=cached(opened, key, scales))
    done = export(project, opened.store, "compressed-tensors", tmp_path / "out")
    assert done.max_abs_diff == 0, "transformers with compressed-tensors' rounding and the folder's scales"
    config = json.loads((tmp_path / "out" / "config.json").read_text())["quantization_config"]
    scheme = config["kv_cache_scheme"]
    assert scheme["strategy"] == strategy and scheme["type"] == ("float" if key == "fp8" else "int")
    tensors = load_file(tmp_path / "out" / "model.safetensors")
    assert {tuple(v.shape) for k, v in tensors.items() if k.endswith(("k_scale", "v_scale"))} == {shape}
    with pytest.raises(SourceError, match="kv_cache_scheme"):
        open_any(str(tmp_path / "out"), tmp_path / "again")


@pytest.mark.slow
def test_weights_and_cache_together(opened: Opened, tmp_path: Path) -> None:
    graph = chosen(cached(opened, "fp8", "tensor"), {"linear.weight": "scaled_integer(width=8)"})
    done = export(replace(opened.project, graph=graph), opened.store, "compressed-tensors", tmp_path / "out")
    assert done.max_abs_diff is not None and done.max_abs_diff < 1e-4


@pytest.mark.parametrize(("key", "scales", "value", "why"), [
    ("fp8", "head", "", "taken from the data"), ("int4", "tensor", "", "E4M3"), ("mxfp8", "head", "", "E4M3"),
    ("int8", "tensor", "", "−128"), (INT8, "channel", "", "of the tensor or of each head"),
    ("fp8", "tensor", "float", "one scheme"), ("fp8", "tensor", INT8, "one scheme"),
])  # fmt: skip
def test_other_caches_are_refused(opened: Opened, tmp_path: Path, key: str, scales: str, value: str, why: str) -> None:
    project = replace(opened.project, graph=cached(opened, key, scales, value))
    with pytest.raises(ExportError, match=why):
        export(project, opened.store, "compressed-tensors", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_scheme_for_some_layers_is_refused(tmp_path: Path) -> None:
    """A reader would round the caches of the other layers with scales that the folder does not have."""
    found = open_any(str(mistral(tmp_path / "model")), tmp_path / "work")
    graph = cached(found, "fp8", "tensor", select=Select("name", (caches(found.project.graph)[0].attentions[0],)))
    assert len(list(cache_nodes(graph))) == 2 and len(caches(graph)) == 4
    with pytest.raises(ExportError, match="one scheme holds for keys and values of all layers"):
        export(replace(found.project, graph=graph), found.store, "compressed-tensors", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_onnx_rounds_the_cache_in_its_graph(opened: Opened, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    project = replace(opened.project, graph=cached(opened, INT8, "tensor"))
    done = export(project, opened.store, "onnx", tmp_path / "model.onnx")
    assert done.max_abs_diff is not None and done.max_abs_diff < 1e-3
