"""Folders of codes and scales: read by transformers and by compressed-tensors, they are the model that was exported."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from espalier.model.document.project import Project
from espalier.model.errors import ExportError
from espalier.model.formats.base import parse_format
from espalier.model.graph.meta import Precision
from espalier.model.opening import open_any
from espalier.model.sources.pruned_class import SIGNATURE
from espalier.model.store.weights import Tensor, WeightStore
from espalier.model.torch.build import build
from espalier.passes.export import export
from espalier.passes.export.effective_weights import effective_weights
from espalier.passes.export.settings import Settings
from espalier.passes.export.transformers_folder import load
from tests.passes.export.models import chosen, made

pytest.importorskip("compressed_tensors")
pytestmark = pytest.mark.slow
Opened = tuple[Project, WeightStore]
INT8, INT4 = "scaled_integer(width=8)", "scaled_integer(width=4,granularity=group,group=32)"
E4M3 = "minifloat_ieee(width=8,exponent_width=4,reserved=nan)"
HALF = "scaled_integer(width=4,scale_dtype=bfloat16,symmetric=false,granularity=group,group=32)"
ZERO = "scaled_integer(width=4,symmetric=false)"
WEIGHTS = [
    ("llama", "float32", {"linear.weight": INT8}, {"pack-quantized"}),
    ("llama", "float32", {"linear.weight": INT4}, {"pack-quantized"}),
    ("llama", "float32", {"linear.weight": "mxint8"}, {"pack-quantized"}),
    ("llama", "float32", {"linear.weight": "ternary"}, {"pack-quantized"}),
    ("llama", "float32", {"linear.weight": "integer(width=8,frac_width=6,signed=false)"}, {"pack-quantized"}),
    ("llama", "float32", {"linear.weight": E4M3, "embedding.weight": INT8}, {"float-quantized", "int-quantized"}),
    ("llama", "bfloat16", {"linear.weight": "nvfp4"}, {"nvfp4-pack-quantized"}),
    ("llama", "bfloat16", {"linear.weight": "mxfp(element=e2m1)"}, {"mxfp4-pack-quantized"}),
    ("llama", "bfloat16", {"linear.weight": "mxfp(element=e4m3)"}, {"mxfp8-quantized"}),
    ("llama", "bfloat16", {"linear.weight": HALF}, {"pack-quantized"}),
    ("tied", "float32", {"linear.weight": INT8, "embedding.weight": INT8}, {"pack-quantized", "int-quantized"}),
    ("tied", "float32", {"linear.weight": INT4, "embedding.weight": INT8}, {"pack-quantized", "int-quantized"}),
    ("odd", "float32", {"linear.weight": "scaled_integer(width=3,symmetric=false)"}, {"pack-quantized"}),
    ("odd", "float32", {"linear.weight": "scaled_integer(width=5)"}, {"pack-quantized"}),
    ("qwen2", "float32", {"linear.weight": INT8, "linear.bias": INT8}, {"pack-quantized"}),
    ("tied", "float32", {"linear.weight": ZERO, "embedding.weight": ZERO}, {"pack-quantized", "int-quantized"}),
    ("opt", "float32", {"linear.weight": INT4}, {"pack-quantized"}),
    ("bert", "float32", {"linear.weight": INT8, "embedding.weight": INT8}, {"pack-quantized", "int-quantized"}),
]


def opened(kind: str, dtype: str, tmp_path: Path, choices: dict[str, str]) -> Opened:
    found = open_any(str(made(kind, tmp_path / "home", dtype)), tmp_path / "work")
    return replace(found.project, graph=chosen(found.project.graph, choices)), found.store


def results(project: Project, store: WeightStore, out: Path) -> tuple[torch.Tensor, torch.Tensor, Any]:
    """What the graph and transformers give for the same tokens, and the model of transformers."""
    model, ids = load(out), torch.randint(3, 100, (2, 9), generator=torch.Generator().manual_seed(1))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    taken = {n.target for n in project.graph.placeholders}
    with torch.no_grad():
        mine = build(project.graph, store)(**{k: v for k, v in inputs.items() if k in taken})["logits"]
        return mine, model(**inputs).logits, model


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize(("kind", "dtype", "choices", "stored"), WEIGHTS)
def test_the_weights_are_equal_bit_for_bit(
    kind: str, dtype: str, choices: dict[str, str], stored: set[str], tmp_path: Path
) -> None:
    project, store = opened(kind, dtype, tmp_path, choices)
    done = export(project, store, "compressed-tensors", tmp_path / "out")
    assert {t["stored"] for t in done.tensors if t["label"]} == stored
    assert done.max_abs_diff == 0.0
    mine, theirs, model = results(project, store, tmp_path / "out")
    torch.testing.assert_close(theirs, mine, rtol=0, atol=0)
    read = dict(model.named_parameters(remove_duplicate=False))
    want = dict(effective_weights(project.graph, store))
    for name in want.keys() & read.keys():
        if kind != "tied" or "embed" not in name:  # which the head has in another format
            assert torch.equal(read[name], want[name]), name


@pytest.mark.parametrize("text", [INT8, INT4, "scaled_integer(width=8,symmetric=false)"])
def test_codes_and_scales_are_those_of_the_format(text: str, tmp_path: Path) -> None:
    """Decompressed by compressed-tensors' own functions, without a model."""
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationConfig

    project, store = opened("llama", "float32", tmp_path, {"linear.weight": text})
    export(project, store, "compressed-tensors", tmp_path / "out")
    file = load_file(tmp_path / "out" / "model.safetensors")
    config = json.loads((tmp_path / "out" / "config.json").read_text())["quantization_config"]
    scheme = QuantizationConfig.model_validate(config).config_groups["group_0"]
    reader: Any = BaseCompressor.get_value_from_registry(scheme.format)
    want = dict(effective_weights(project.graph, store))
    for path in scheme.targets:
        own = {k.removeprefix(f"{path}."): v for k, v in file.items() if k.startswith(f"{path}.")}
        assert torch.equal(reader.decompress(own, scheme)["weight"], want[f"{path}.weight"]), path
        source = store.get(project.graph.weights[f"{path}.weight"].key or "").float32()
        scale = parse_format(text).encode(source).shared[0].values.view("float32")
        assert own["weight_scale"].numpy().reshape(-1).tolist() == scale.reshape(-1).tolist()
    assert config["ignore"] == [] and len(scheme.targets) == 8


@pytest.mark.parametrize(("kind", "stored"), [("neox", "pack-quantized"), ("t5", "int-quantized")])
def test_classes_that_save_other_names_or_read_nothing_packed(kind: str, stored: str, tmp_path: Path) -> None:
    """GPT-NeoX saves its head as embed_out; T5 sets up the weights of its modules before they are read."""
    project, store = opened(kind, "float32", tmp_path, {"linear.weight": INT8})
    done = export(project, store, "compressed-tensors", tmp_path / "out")
    assert done.max_abs_diff == 0.0 and {t["stored"] for t in done.tensors if t["label"]} == {stored}
    assert any("Each code takes 8 bits" in note for note in done.notes) is (kind == "t5")


def test_inputs_are_rounded_as_the_schema_says(tmp_path: Path) -> None:
    """Equal where compressed-tensors has the same rule; else the difference is reported, and is that of its rule."""
    exact = {"linear.weight": INT8, "linear.data_in": "integer(width=8,frac_width=4)"}
    project, store = opened("llama", "float32", tmp_path, exact)
    done = export(project, store, "compressed-tensors", tmp_path / "out")
    assert done.max_abs_diff == 0.0 and not done.notes
    dynamic = chosen(project.graph, {"linear.weight": INT8, "linear.data_in": INT8})
    done = export(replace(project, graph=dynamic), store, "compressed-tensors", tmp_path / "out")
    assert done.max_abs_diff is not None and 0 < done.max_abs_diff < 0.3
    assert any("max|x|/127.5 there and max|x|/127 here" in note for note in done.notes)
    config = json.loads((tmp_path / "out" / "config.json").read_text())["quantization_config"]
    group = config["config_groups"]["group_0"]
    assert group["input_activations"] | {"dynamic": True, "strategy": "token"} == group["input_activations"]
    x = torch.randn(2, 5, 64, generator=torch.Generator().manual_seed(0))
    layer = load(tmp_path / "out")
    layer(input_ids=torch.tensor([[1, 2]]))  # decompresses
    linear = layer.model.layers[0].self_attn.q_proj
    s = x.abs().amax(-1, keepdim=True) / 127.5
    want = torch.nn.functional.linear((x / s).round().clamp(-128, 127) * s, linear.weight)
    torch.testing.assert_close(linear(x), want)


@pytest.mark.parametrize("symmetric", [True, False])
def test_a_calibrated_scale_goes_along(symmetric: bool, tmp_path: Path) -> None:
    project, store = opened("llama", "float32", tmp_path, {"linear.weight": INT8})
    graph, fmt = project.graph, parse_format(f"scaled_integer(width=8,granularity=tensor,symmetric={symmetric})")
    node = next(n for n in graph if n.target.endswith("q_proj"))
    value = torch.tensor(0.03) if symmetric else torch.tensor([0.03, -3.1])
    held = Tensor(value.numpy(), "float32")
    like = graph.weights[node.weights["weight"]]
    weight = replace(like, key=store.hold(held), shape=tuple(value.shape), role="buffer", trainable=False)
    graph = graph.with_weights({"scale": weight})
    precision = {**node.precision, "data_in": Precision(fmt, "scale")}
    project = replace(project, graph=graph.replace(replace(node, precision=precision)))
    done = export(project, store, "compressed-tensors", tmp_path / "out")
    file = load_file(tmp_path / "out" / "model.safetensors")
    assert file[f"{node.target}.input_scale"].tolist() == pytest.approx([0.03])
    assert (f"{node.target}.input_zero_point" in file) is not symmetric
    assert done.max_abs_diff is not None and done.max_abs_diff < 1e-5


def test_masks_and_smaller_sizes_go_along(tmp_path: Path) -> None:
    """Pruned weights stay 0, and removed neurons and layers are sizes of the configuration."""
    import espalier as es

    m = es.open(str(made("llama", tmp_path / "home", num_hidden_layers=2)))
    m.prune_structured("regex:mlp", what="neurons", ratio=0.5)
    m.remove_pruned()
    m.remove_layers(numbers=[1])
    m.prune("linear", sparsity=0.5)
    m.quantize("linear", weight=INT8)
    done = m.export("compressed-tensors", tmp_path / "out")
    assert done.summary["max_abs_diff"] == 0.0
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert (config["num_hidden_layers"], config["intermediate_size"]) == (1, 48)
    model = load(tmp_path / "out")
    model(input_ids=torch.tensor([[1, 2]]))
    weight = model.model.layers[0].mlp.up_proj.weight
    assert weight.shape == (48, 64) and 0.3 < (weight == 0).float().mean() < 0.7


def test_what_cannot_be_held_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    project, store = opened("gpt2", "float32", tmp_path, {"linear.weight": INT8})
    with pytest.raises(ExportError, match=r"transformer_h_0_attn_c_attn weight \(int8 channel: Conv1D is no") as found:
        export(project, store, "compressed-tensors", tmp_path / "out")
    assert "--leave-float" in found.value.hint and not (tmp_path / "out").exists()
    done = export(project, store, "compressed-tensors", tmp_path / "out", Settings(leave_float=True))
    assert done.max_abs_diff == 0.0, "a weight left in float has the values of its format"
    assert any("weight of transformer_h_0_attn_c_attn and 3 more (int8 channel: Conv1D" in n for n in done.notes)
    mine, theirs, _ = results(project, store, tmp_path / "out")
    torch.testing.assert_close(theirs, mine, rtol=0, atol=0)


def test_adapters_are_to_be_fused_first(tmp_path: Path) -> None:
    import espalier as es

    m = es.open(str(made("llama", tmp_path / "home")))
    m.quantize("linear", weight=INT8)
    m.lora()
    for form in ("compressed-tensors", "gguf"):
        with pytest.raises(ExportError, match="LoRA adapter") as found:
            m.export(form, tmp_path / "out", leave_float=True)
        assert found.value.hint == "Fuse the adapters first."


def test_bytes_are_told_beside_float32_and_packed(tmp_path: Path) -> None:
    wide = {"hidden_size": 256, "intermediate_size": 704, "vocab_size": 300}
    found = open_any(str(made("llama", tmp_path / "home", **wide)), tmp_path / "work")
    project = replace(found.project, graph=chosen(found.project.graph, {"linear.weight": INT8}))
    done = export(project, found.store, "compressed-tensors", tmp_path / "out")
    packed = export(project, found.store, "packed", tmp_path / "m.packed.safetensors")
    assert done.packed_bytes == packed.bytes and done.float32_bytes is not None
    file = (tmp_path / "out" / "model.safetensors").stat().st_size
    assert file <= 1.05 * packed.bytes and done.bytes < 0.5 * done.float32_bytes


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project, store = opened("llama", "float32", tmp_path, {"linear.weight": INT8})
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ExportError, match="compressed-tensors, which is not installed") as found:
        export(project, store, "compressed-tensors", tmp_path / "out")
    assert "espalier[hf]" in found.value.hint


@pytest.mark.slow
def test_files_of_others_and_the_source_stay_as_they_are(tmp_path: Path) -> None:
    home, out, secret = made("llama", tmp_path / "home"), tmp_path / "out", tmp_path / "secret"
    found = open_any(str(home), tmp_path / "work")
    project = replace(found.project, graph=chosen(found.project.graph, {"linear.weight": "scaled_integer(width=8)"}))
    before = (home / "model.safetensors").read_bytes()
    for form in ("compressed-tensors", "safetensors"):
        with pytest.raises(ExportError, match="weights that the model was opened from"):
            export(project, found.store, form, home)
    assert (home / "model.safetensors").read_bytes() == before
    out.mkdir()
    secret.write_text("mine")
    secret.chmod(0o600)
    (out / "link").symlink_to(secret)
    (out / "notes.txt").write_text("mine")
    (out / "notes.txt").chmod(0o600)
    (out / "modeling_pruned.py").write_text(SIGNATURE)  # an earlier export left the class of a pruned model
    done = export(project, found.store, "compressed-tensors", out)
    assert {Path(f).name for f in done.files} == {p.name for p in out.iterdir()} - {"link", "notes.txt"}
    assert secret.stat().st_mode & 0o777 == (out / "notes.txt").stat().st_mode & 0o777 == 0o600
