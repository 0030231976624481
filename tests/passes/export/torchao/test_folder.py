"""Folders of torchao's tensors: read by transformers and by torchao, they are the model that was exported."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from espalier.model.document.project import Project
from espalier.model.errors import ExportError
from espalier.model.formats.base import parse_format
from espalier.model.opening import open_any
from espalier.model.sources.pruned_class import SIGNATURE
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import build
from espalier.passes.export import export
from espalier.passes.export.effective_weights import effective_weights
from espalier.passes.export.settings import Settings
from espalier.passes.export.transformers_folder import load
from tests.passes.export.models import chosen, made

pytest.importorskip("torchao")
pytestmark = pytest.mark.slow
Opened = tuple[Project, WeightStore]
INT8, INT4 = "scaled_integer(width=8)", "scaled_integer(width=4,granularity=group,group=32)"
ZERO4 = "scaled_integer(width=4,symmetric=false,granularity=group,group=32)"
FLOAT8, TOKENS = "scaled_element(element=e4m3)", "scaled_integer(width=8,symmetric=false)"
INT, INTX, FLOAT, NV = "Int8Tensor", "IntxUnpackedToInt8Tensor", "Float8Tensor", "NVFP4Tensor"
WEIGHTS = [
    ("llama", "float32", {"linear.weight": INT8}, {INT}),
    ("llama", "float32", {"linear.weight": "scaled_integer(width=8,granularity=group,group=32)"}, {INT}),
    ("llama", "float32", {"linear.weight": INT4}, {INTX}),
    ("llama", "bfloat16", {"linear.weight": ZERO4}, {INTX}),
    ("llama", "float32", {"linear.weight": "ternary", "embedding.weight": INT8}, {INT, INTX}),
    ("llama", "float32", {"linear.weight": "integer(width=8,frac_width=6,signed=false)"}, {INTX}),
    ("llama", "float32", {"linear.weight": "mxfp(element=e2m1)"}, {INTX}),
    ("llama", "bfloat16", {"linear.weight": "mxfp(element=e4m3)", "embedding.weight": INT4}, {FLOAT, INTX}),
    ("llama", "bfloat16", {"linear.weight": FLOAT8}, {FLOAT}),
    ("llama", "float32", {"linear.weight": "minifloat_ieee(width=8,exponent_width=5,reserved=inf)"}, {FLOAT}),
    ("llama", "bfloat16", {"linear.weight": "nvfp4"}, {NV}),
    ("tied", "float32", {"linear.weight": INT8, "embedding.weight": INT8}, {INT}),
    ("tied", "float32", {"linear.weight": INT4, "embedding.weight": INT8}, {INT, INTX}),
    ("odd", "float32", {"linear.weight": "scaled_integer(width=3,symmetric=false)"}, {INTX}),
    ("odd", "float32", {"linear.weight": INT8}, {INT}),
    ("qwen2", "float32", {"linear.weight": INT8, "linear.bias": INT8}, {INT}),
    ("neox", "float32", {"linear.weight": INT8}, {INT}),
    ("bert", "float32", {"linear.weight": INT8, "embedding.weight": INT8}, {INT}),
]


def opened(kind: str, dtype: str, tmp_path: Path, choices: dict[str, str]) -> Opened:
    found = open_any(str(made(kind, tmp_path / "home", dtype)), tmp_path / "work")
    return replace(found.project, graph=chosen(found.project.graph, choices)), found.store


def results(project: Project, store: WeightStore, out: Path, length: int = 9) -> tuple[torch.Tensor, torch.Tensor, Any]:
    """What the graph and transformers give for the same tokens, and the model of transformers."""
    model, ids = load(out), torch.randint(3, 100, (2, length), generator=torch.Generator().manual_seed(1))
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
    """As torchao dequantises what transformers read. Results differ where Int8Tensor scales after its product."""
    from torchao.utils import TorchAOBaseTensor

    project, store = opened(kind, dtype, tmp_path, choices)
    done = export(project, store, "torchao", tmp_path / "out")
    assert {t["stored"] for t in done.tensors if t["label"]} == stored and done.max_abs_diff is not None
    mine, theirs, model = results(project, store, tmp_path / "out", 64)
    torch.testing.assert_close(theirs, mine, rtol=0, atol=1e-5 if INT in stored else 0)
    read = dict(model.named_parameters(remove_duplicate=False))
    want = dict(effective_weights(project.graph, store))
    for name in want.keys() & read.keys():
        value = read[name]
        value = value.dequantize() if isinstance(value, TorchAOBaseTensor) else value
        if kind != "tied" or "embed" not in name:  # which the head has in another format
            assert torch.equal(value, want[name]), name
    coded = sum(isinstance(v, TorchAOBaseTensor) for v in read.values())
    assert coded >= sum(bool(t["label"]) for t in done.tensors)


@pytest.mark.parametrize("text", [INT8, INT4, ZERO4, FLOAT8, "nvfp4"])
def test_torchao_alone_joins_the_file(text: str, tmp_path: Path) -> None:
    """By torchao's own reader of safetensors, without transformers; no pickle lies in the folder."""
    from torchao.prototype.safetensors.safetensors_support import unflatten_tensor_state_dict

    project, store = opened("llama", "float32", tmp_path, {"linear.weight": text})
    export(project, store, "torchao", tmp_path / "out")
    file = tmp_path / "out" / "model.safetensors"
    with safe_open(file, framework="pt") as opened_file:
        joined, left = unflatten_tensor_state_dict(load_file(file), opened_file.metadata())
    assert not left and not list((tmp_path / "out").glob("*.bin"))
    want = dict(effective_weights(project.graph, store))
    assert project.graph.weights.keys() - joined.keys() == {"model.rotary_emb.inv_freq"}, "computed, not saved"
    for name, found in joined.items():
        assert torch.equal(found.dequantize() if type(found) is not torch.Tensor else found, want[name]), name
    name = "model.layers.0.mlp.up_proj.weight"
    source = store.get(project.graph.weights[name].key or "").float32()
    encoded = parse_format(text).encode(source)
    if text == INT8:
        assert joined[name].qdata.tolist() == encoded.codes.tolist()
        assert joined[name].scale.flatten().tolist() == encoded.shared[0].values.view("float32").flatten().tolist()


def test_the_configuration_is_that_of_torchao_s_quantiser(tmp_path: Path) -> None:
    """Given to it, torchao makes tensors of the same kinds of the float model."""
    from torchao.core.config import config_from_dict
    from torchao.quantization import quantize_
    from transformers import AutoModelForCausalLM

    choices = {"linear.weight": INT4, "embedding.weight": INT8}
    project, store = opened("llama", "float32", tmp_path, choices)
    export(project, store, "torchao", tmp_path / "out")
    settings = json.loads((tmp_path / "out" / "config.json").read_text())["quantization_config"]
    assert settings["quant_method"] == "torchao"
    plain, coded = (AutoModelForCausalLM.from_pretrained(tmp_path / name) for name in ("home", "out"))
    quantize_(plain, config_from_dict(settings["quant_type"]["default"]), filter_fn=None)
    for (name, mine), theirs in zip(coded.named_parameters(), plain.parameters(), strict=True):
        assert type(mine) is type(theirs), name
        if type(mine).__name__ == INTX:
            assert (mine.target_dtype, list(mine.block_size)) == (theirs.target_dtype, list(theirs.block_size))


@pytest.mark.parametrize(
    ("weight", "inputs", "tensor", "limit"),
    [
        (INT8, TOKENS, INT, 1e-5), (INT8, "scaled_integer(width=8,symmetric=false,granularity=tensor)", INT, 1e-5),
        (INT4, TOKENS, INTX, 1e-5), ("scaled_integer(width=8,symmetric=false)", TOKENS, INTX, 1e-5),
        (INT8, INT8, INT, 0.3), ("int4", INT8, INT, 0.3), (INT8, "scaled_element(element=int8)", INT, 0.3),
    ],
)  # fmt: skip
def test_inputs_are_rounded_by_torchao(weight: str, inputs: str, tensor: str, limit: float, tmp_path: Path) -> None:
    """Equal but at ties where the rule is the same; else the notes name the difference."""
    project, store = opened("llama", "float32", tmp_path, {"linear.weight": weight, "linear.data_in": inputs})
    done = export(project, store, "torchao", tmp_path / "out")
    assert {t["stored"] for t in done.tensors if t["label"]} == {tensor}
    assert done.max_abs_diff is not None and done.max_abs_diff < limit
    assert any("torchao rounds the inputs of 8 modules" in note for note in done.notes)
    mine, theirs, model = results(project, store, tmp_path / "out")
    assert 0 < float((mine - theirs).abs().max()) < limit
    x = torch.randn(2, 5, 64, generator=torch.Generator().manual_seed(0))
    linear = model.model.layers[0].self_attn.q_proj
    if inputs == INT8:
        s = x.abs().amax(-1, keepdim=True) / 127.5
        want = torch.nn.functional.linear((x * (1 / s)).round().clamp(-128, 127) * s, linear.weight.dequantize())
        assert any("max|x|/127.5 there and max|x|/127 here" in note for note in done.notes)
        torch.testing.assert_close(linear(x), want)


def test_masks_and_smaller_sizes_go_along(tmp_path: Path) -> None:
    """Pruned weights stay 0, and removed neurons and layers are sizes of the configuration."""
    import espalier as es

    m = es.open(str(made("llama", tmp_path / "home", num_hidden_layers=2)))
    m.prune_structured("regex:mlp", what="neurons", ratio=0.5)
    m.remove_pruned()
    m.remove_layers(numbers=[1])
    m.prune("linear", sparsity=0.5)
    m.quantize("linear", weight=INT8)
    assert m.export("torchao", tmp_path / "out").summary["max_abs_diff"] < 1e-5
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert (config["num_hidden_layers"], config["intermediate_size"]) == (1, 48)
    weight = load(tmp_path / "out").model.layers[0].mlp.up_proj.weight
    assert weight.shape == (48, 64) and 0.3 < (weight.qdata == 0).float().mean() < 0.7


def test_what_cannot_be_held_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    project, store = opened("gpt2", "float32", tmp_path, {"linear.weight": INT8})
    with pytest.raises(ExportError, match=r"transformer_h_0_attn_c_attn weight \(int8 channel: Conv1D is no") as found:
        export(project, store, "torchao", tmp_path / "out")
    assert "--leave-float" in found.value.hint and not (tmp_path / "out").exists()
    done = export(project, store, "torchao", tmp_path / "out", Settings(leave_float=True))
    assert any("weight of transformer_h_0_attn_c_attn and 3 more (int8 channel: Conv1D" in n for n in done.notes)
    mine, theirs, _ = results(project, store, tmp_path / "out")
    torch.testing.assert_close(theirs, mine, rtol=0, atol=1e-5)


def test_a_head_that_transformers_ties_by_itself_is_named(tmp_path: Path) -> None:
    """T5 compares its head with its embedding when it is read, which torchao's tensors do not offer."""
    project, store = opened("t5", "float32", tmp_path, {"linear.weight": INT8})
    with pytest.raises(ExportError, match="transformers does not open the folder") as found:
        export(project, store, "torchao", tmp_path / "out")
    assert "head" in found.value.hint and not (tmp_path / "out").exists()
    graph = project.graph
    head = next(n for n in graph if n.target == "lm_head")
    project = replace(project, graph=graph.replace(replace(head, precision={})))
    done = export(project, store, "torchao", tmp_path / "out")
    assert done.max_abs_diff is not None and done.max_abs_diff < 1e-4


def test_a_write_that_fails_leaves_the_old_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project, store = opened("llama", "float32", tmp_path, {"linear.weight": INT8})
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "modeling_pruned.py").write_text(
        SIGNATURE
    )  # an earlier export left the class of a pruned model
    export(project, store, "torchao", tmp_path / "out")
    assert not (tmp_path / "out" / "modeling_pruned.py").exists()
    before = {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()}

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("safetensors.torch.save_file", full)
    with pytest.raises(ExportError, match="No space left"):
        export(replace(project, graph=chosen(project.graph, {"linear.weight": INT4})), store, "torchao",
               tmp_path / "out")  # fmt: skip
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == before
    assert not [p for p in tmp_path.iterdir() if p.name not in ("home", "work", "out")]


def test_why_zero_points_are_no_int8_tensor() -> None:
    """Its products leave zero points of rows out (0.18): a version that takes them could hold such formats faster."""
    from torchao.quantization import Int8Tensor

    codes, scale = torch.arange(-16, 16, dtype=torch.int8).reshape(4, 8), torch.full((4, 1), 0.5)
    weight = Int8Tensor(codes, scale, [1, 8], torch.float32, zero_point=torch.full((4, 1), 5, dtype=torch.int8))
    x = torch.ones(1, 8)
    assert torch.equal(torch.nn.functional.linear(x, weight), torch.nn.functional.linear(x, codes * scale))
    assert not torch.equal(torch.nn.functional.linear(x, weight.dequantize()), x @ (codes * scale).T)
