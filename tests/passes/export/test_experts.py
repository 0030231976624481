"""Mixtures of experts in every form that can hold them, compared with transformers and onnxruntime."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from torch import Tensor, nn

import espalier as es
from espalier.model.errors import ExportError
from tests.patience import PATIENCE

pytestmark = pytest.mark.slow
VOCABULARY, EXPERTS = 61, "grouped_mm_fallback"
INT8 = "scaled_integer(width=8, granularity=group, group=8)"
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
}  # fmt: skip
KINDS: dict[str, Callable[[], Any]] = {
    "mixtral": lambda: hf.MixtralForCausalLM(hf.MixtralConfig(**SIZES, num_local_experts=4, num_experts_per_tok=2)),
    "qwen3_moe": lambda: hf.Qwen3MoeForCausalLM(hf.Qwen3MoeConfig(
        **SIZES, num_experts=5, num_experts_per_tok=2, moe_intermediate_size=24, head_dim=8)),
    "gpt_oss": lambda: hf.GptOssForCausalLM(hf.GptOssConfig(
        **SIZES, num_local_experts=4, num_experts_per_tok=2, head_dim=8, sliding_window=8,
        layer_types=["sliding_attention", "full_attention"],
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0})),
}  # fmt: skip


@pytest.fixture(scope="module", params=KINDS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model whose experts matter: weights are large enough for the router to decide."""
    torch.manual_seed(3)
    model: Any = KINDS[request.param]().eval()
    with torch.no_grad():
        for value in model.parameters():
            value.add_(torch.randn_like(value) * 0.05)
    place = tmp_path_factory.mktemp(request.param)
    model.save_pretrained(place)
    return place


@pytest.fixture(scope="module")
def plain(folder: Path) -> es.Model:
    return es.open(folder)


@pytest.fixture
def quantised(plain: es.Model) -> es.Model:
    """Formats for the experts and for all modules."""
    modules = [n.id for n in plain if n.op == "linear" and n.call == "call_module"]
    return plain.copy().quantize(modules, weight=INT8).quantize(EXPERTS, weight=INT8)


def tokens(rows: int = 3, length: int = 13) -> Tensor:
    return torch.randint(0, VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(5))


def scores(model: es.Model) -> Tensor:
    with torch.no_grad():
        found = model.to_torch()(input_ids=tokens(), attention_mask=torch.ones_like(tokens()))
    return found["logits"] if isinstance(found, dict) else found[0]


def of_transformers(folder: Path) -> Tensor:
    model: Any = hf.AutoModelForCausalLM.from_pretrained(folder).eval()
    with torch.no_grad():
        return model(input_ids=tokens()).logits


def rounded(folder: Path) -> Any:
    """transformers' model with weights of experts and Linears rounded by hand: max|w|/127 of each group of 8 of the
    inputs, as the product sees them.
    """
    model: Any = hf.AutoModelForCausalLM.from_pretrained(folder).eval()
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.Linear):
                module.weight.copy_(by_groups(module.weight))
        for name, value in model.named_parameters():
            if "experts" in name and value.dim() == 3:
                turned = "gpt" in model.config.model_type  # stores [experts, in, out]; others [experts, out, in]
                value.copy_(by_groups(value.mT).mT if turned else by_groups(value))
    return model


def by_groups(value: Tensor) -> Tensor:
    groups = value.reshape(*value.shape[:-1], -1, 8)
    scale = groups.abs().amax(-1, keepdim=True) / 127
    return (torch.round(groups / scale).clamp(-127, 127) * scale).reshape(value.shape)


def test_the_graph_is_the_model(folder: Path, plain: es.Model) -> None:
    assert torch.allclose(scores(plain), of_transformers(folder), atol=1e-6)


def test_checkpoints_hold_experts_with_the_values_of_their_formats(
    folder: Path, plain: es.Model, quantised: es.Model, tmp_path: Path
) -> None:
    """Also those that are read through a transpose."""
    mine = scores(quantised)
    with torch.no_grad():
        reference = rounded(folder)(input_ids=tokens()).logits
    assert torch.allclose(mine, reference, atol=1e-5)
    assert float((mine - scores(plain)).abs().max()) > 1e-3, "the formats change something"
    report = quantised.export("safetensors", tmp_path / "st")
    assert not report.notes
    assert torch.allclose(of_transformers(tmp_path / "st"), mine, atol=1e-6)
    quantised.export("packed", tmp_path / "p.packed.safetensors")
    assert torch.equal(scores(es.open(tmp_path / "p.packed.safetensors")), mine)


@pytest.mark.parametrize("form", ["compressed-tensors", "torchao"])
def test_folders_of_codes_hold_modules_and_say_what_experts_are(
    form: str, plain: es.Model, quantised: es.Model, tmp_path: Path
) -> None:
    with pytest.raises(ExportError, match=rf"{form} cannot hold {EXPERTS} weight .*is no Linear or Embedding module"):
        quantised.export(form, tmp_path / "refused")
    assert not (tmp_path / "refused").exists()
    report = quantised.export(form, tmp_path / "left", leave_float=True)
    assert any(n.startswith(f"Left in float with the values of its format: weight of {EXPERTS}") for n in report.notes)
    modules = plain.copy().quantize([n.id for n in plain if n.op == "linear" and n.call == "call_module"], weight=INT8)
    modules.export(form, tmp_path / "modules")
    for place, model in ((tmp_path / "left", quantised), (tmp_path / "modules", modules)):
        assert torch.allclose(of_transformers(place), scores(model), atol=1e-5), place


def test_llama_cpp_is_refused_by_the_type_of_the_model(plain: es.Model, quantised: es.Model, tmp_path: Path) -> None:
    for model in (plain, quantised):
        with pytest.raises(ExportError, match=r"A GGUF file of \w+ is not written") as error:
            model.export("gguf", tmp_path / "m.gguf")
        assert "compressed-tensors" in error.value.hint


def test_onnxruntime_computes_the_same(quantised: es.Model, tmp_path: Path) -> None:
    """At sizes other than the traced ones, and where some experts get no token."""
    import onnxruntime

    report = quantised.export("onnx", tmp_path / "m.onnx")
    assert report.max_abs_diff < 1e-5
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    module = quantised.to_torch()
    for ids in (tokens(), tokens(2, 5), tokens(1, 3) * 0 + 7):
        given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        with torch.no_grad():
            wanted = module(**given)
        found = session.run(None, {k: v.numpy() for k, v in given.items()})[0]
        assert np.abs(found - (wanted["logits"] if isinstance(wanted, dict) else wanted[0]).numpy()).max() < 1e-5


@pytest.mark.parametrize("folder", ["mixtral"], indirect=True)
def test_a_program_of_torch_names_what_it_needs(plain: es.Model, tmp_path: Path) -> None:
    """In another process, which imports nothing else."""
    report = plain.export("pt2", tmp_path / "m.pt2")
    note = "The program calls transformers::grouped_mm_fallback: import transformers.integrations.moe before"
    assert [n for n in report.notes if n.startswith(note)] and report.max_abs_diff < 1e-6
    torch.save(tokens(), tmp_path / "ids.pt")
    code = (
        "import torch, transformers.integrations.moe\n"
        f"ids = torch.load({str(tmp_path / 'ids.pt')!r})\n"
        f"found = torch.export.load({str(tmp_path / 'm.pt2')!r}).module()(input_ids=ids, "
        "attention_mask=torch.ones_like(ids))\n"
        "found = found['logits'] if isinstance(found, dict) else found[0]\n"
        f"torch.save(found.detach(), {str(tmp_path / 'out.pt')!r})\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=PATIENCE)
    assert torch.allclose(torch.load(tmp_path / "out.pt"), scores(plain), atol=1e-6)


class Histogram(nn.Module):
    """Counts beside a layer, so that there is a weight."""

    def __init__(self, *ends: float) -> None:
        super().__init__()
        self.layer, self.ends = nn.Linear(6, 6), ends

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.layer(x), torch.histc(x, 5, *self.ends)


@pytest.mark.parametrize("ends", [(), (0.0, 0.0), (-0.5, 1.5)])
def test_histograms_are_those_of_torch(ends: tuple[float, ...], tmp_path: Path) -> None:
    """Of the values themselves where the ends are equal, also where all values are equal."""
    import onnxruntime

    model = Histogram(*ends).eval()
    es.trace(model, torch.randn(3, 6)).export("onnx", tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    for x in (torch.randn(4, 6), torch.full((2, 6), 0.25), torch.arange(12.0).reshape(2, 6)):
        found = session.run(None, {"x": x.numpy()})[1]
        assert found.tolist() == model(x)[1].tolist()
