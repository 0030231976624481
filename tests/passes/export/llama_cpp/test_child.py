"""llama.cpp computes what transformers computes from a file, where transformers rounds what llama.cpp rounds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from espalier.model.errors import ExportError
from espalier.model.opening import open_any
from espalier.passes.export import export
from espalier.passes.export.llama_cpp.child import LlamaCpp
from espalier.passes.export.llama_cpp.file import load
from espalier.passes.export.llama_cpp.server import binding
from espalier.passes.export.settings import GgufOptions, Settings
from tests.passes.export.llama_cpp.tokenizers_of import give, gpt2, pieces
from tests.passes.export.models import KINDS, chosen, made

gguf = pytest.importorskip("gguf")
if not binding():
    pytest.skip("neither llama-cpp-python nor xllamacpp is installed", allow_module_level=True)
G8 = "scaled_integer(width=8,granularity=group,group=32,scale_dtype=float16)"
FORMATS = {
    "float": {},
    "Q8_0": {"linear.weight": G8, "embedding.weight": G8},
    "Q5_0": {"linear.weight": G8.replace("=8", "=5")},
    "Q4_0": {"linear.weight": G8.replace("=8", "=4"), "embedding.weight": G8.replace("=8", "=4")},
    "MXFP4": {"linear.weight": "mxfp(element=e2m1)", "embedding.weight": "mxfp(element=e2m1)"},
}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {"num_hidden_layers": 2, "rms_norm_eps": 1e-2, "head_dim": 32,
                        "rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}),
    "tied": ("tied", {}),
    "odd": ("odd", {}),
    "biased": ("biased", {"mlp_bias": True}),
    "qwen2": ("qwen2", {"num_hidden_layers": 2}),
    "qwen2 tied": ("qwen2", {"tie_word_embeddings": True}),
    "qwen3": ("qwen3", {"num_hidden_layers": 2}),
    "qwen3 tied": ("qwen3", {"tie_word_embeddings": True}),
    "gpt2": ("gpt2", {"n_layer": 2, "layer_norm_epsilon": 1e-3}),
    "gpt2 untied": ("gpt2", {"tie_word_embeddings": False, "n_inner": 96}),
}  # fmt: skip
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}  # fmt: skip
LINEAR = {"rope_type": "linear", "rope_theta": 500.0, "factor": 4.0}
SCALED: dict[str, tuple[str, dict[str, Any]]] = {
    "llama3": ("llama", {"num_hidden_layers": 2, "rope_parameters": LLAMA3, "max_position_embeddings": 128}),
    "llama3 tied": ("tied", {"head_dim": 20, "rope_parameters": LLAMA3, "max_position_embeddings": 128}),
    "linear": ("llama", {"num_hidden_layers": 2, "rope_parameters": LINEAR, "max_position_embeddings": 128}),
    "linear qwen2": ("qwen2", {"rope_parameters": LINEAR, "max_position_embeddings": 128}),
    "linear qwen3": ("qwen3", {"rope_parameters": LINEAR, "max_position_embeddings": 128}),
}
EXACT, HALVES = 2e-5, {"float32": 0.0, "float16": 0.01, "bfloat16": 0.1}


def rounded(value: Tensor) -> Tensor:
    """Rows as ggml stores them before a product with codes: its own definition of Q8_0, in the package gguf."""
    kind = gguf.GGMLQuantizationType.Q8_0
    rows = value.numpy().reshape(-1, value.shape[-1])
    return torch.from_numpy(gguf.quants.dequantize(gguf.quants.quantize(rows, kind), kind).reshape(value.shape))


def as_llama_cpp(model: Any, coded: set[str]) -> Any:
    """A model of transformers that rounds what llama.cpp rounds: inputs of products with codes, and GELU to halves."""
    weights = {p.data_ptr() for n, p in model.named_parameters(remove_duplicate=False) if n in coded}
    for module in model.modules():
        kind = type(module).__name__
        if kind in ("Linear", "Conv1D") and module.weight.data_ptr() in weights:
            module.register_forward_pre_hook(lambda _, args: (rounded(args[0]),))
        elif kind == "NewGELUActivation":
            module.register_forward_pre_hook(lambda _, args: (args[0].half().float(),))
            module.register_forward_hook(lambda _, args, result: result.half().float())
    return model


def exported(name: str, form: str, tmp_path: Path, dtype: str = "float32") -> tuple[Path, Any]:
    """A file, and transformers' model of it."""
    import transformers

    kind, more = (MODELS | SCALED)[name]
    home = made(kind, tmp_path / "home", dtype, **{"vocab_size": 520, "eos_token_id": 0, **more})
    give(gpt2(), home)
    found = open_any(str(home), tmp_path / "work")
    project = replace(found.project, graph=chosen(found.project.graph, FORMATS[form]))
    done = export(project, found.store, "gguf", tmp_path / "m.gguf")
    cls, config = getattr(transformers, KINDS[kind][0]), transformers.AutoConfig.from_pretrained(home)
    coded = {t["tensor"] for t in done.tensors if t["stored"] not in ("F32", "F16", "BF16")}
    assert bool(coded) == (form != "float")
    return tmp_path / "m.gguf", as_llama_cpp(load(tmp_path / "m.gguf", cls, torch.float32, config), coded)


def ids(rows: int = 2, length: int = 11) -> dict[str, Tensor]:
    found = torch.randint(3, 500, (rows, length), generator=torch.Generator().manual_seed(1))
    return {"input_ids": found, "attention_mask": torch.ones_like(found)}


def wanted(model: Any, inputs: dict[str, Tensor]) -> Tensor:
    with torch.no_grad():
        return model(**inputs).logits.float().log_softmax(-1)


CASES = [(name, form) for name in MODELS for form in FORMATS if name != "odd" or form == "float"]


@pytest.mark.slow
@pytest.mark.sampled(0.3)
@pytest.mark.parametrize(("name", "form"), CASES)
def test_llama_cpp_computes_the_same(name: str, form: str, tmp_path: Path) -> None:
    path, model = exported(name, form, tmp_path)
    inputs = ids()
    with LlamaCpp() as process:
        (got,) = process.run(path, inputs, exact=True)
        apart = (got - wanted(model, inputs)).abs().amax(-1)
        # A float sum of another order moves a value between two codes here and there, and what follows with it.
        rounds = form != "float" or "gpt2" in name
        assert float((apart < EXACT).float().mean()) >= (0.25 if rounds else 1) and float(apart.max()) < 0.15
        (usual,) = process.run(path, inputs)  # keys and values in float16
    assert 0 < float((usual - got).abs().max()) < 0.15
    assert torch.allclose(usual.exp().sum(-1), torch.ones(2, 11), atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCALED)
def test_scaled_rotary_embeddings_are_the_same_beyond_the_first_context(name: str, tmp_path: Path) -> None:
    import transformers

    path, model = exported(name, "float", tmp_path)
    inputs = ids(1, 96)
    with LlamaCpp() as process:
        (got,) = process.run(path, inputs, exact=True)
    assert float((got - wanted(model, inputs)).abs().max()) < EXACT
    plain = transformers.AutoConfig.from_pretrained(tmp_path / "home")
    plain.rope_parameters = {"rope_type": "default", "rope_theta": 500.0}
    unscaled = load(path, type(model), torch.float32, plain)
    assert float((got - wanted(unscaled, inputs)).abs().max()) > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_weights_of_sixteen_bits_round_activations_to_their_type(dtype: str, tmp_path: Path) -> None:
    path, model = exported("llama", "float", tmp_path, dtype)
    with LlamaCpp() as process:
        (got,) = process.run(path, ids(), exact=True)
    assert EXACT < float((got - wanted(model, ids())).abs().max()) < HALVES[dtype]


@pytest.mark.slow
def test_greedy_continuations_are_the_same(tmp_path: Path) -> None:
    path, model = exported("qwen3", "Q4_0", tmp_path)
    inputs = ids(1, 4)
    with LlamaCpp() as process:
        for _ in range(12):
            scores = wanted(model, inputs)[0, -1]
            (got,) = process.run(path, inputs, exact=True)
            assert int(got[0, -1].argmax()) == int(scores.argmax())
            row = torch.cat([inputs["input_ids"], scores.argmax().view(1, 1)], 1)
            inputs = {"input_ids": row, "attention_mask": torch.ones_like(row)}


@pytest.mark.slow
def test_what_llama_cpp_does_not_run_is_named(tmp_path: Path) -> None:
    path, _ = exported("gpt2", "float", tmp_path)
    padded = ids()
    padded["attention_mask"][0, -1] = 0
    with LlamaCpp() as process:
        with pytest.raises(ExportError, match="some are padded"):
            process.run(path, padded)
        (whole,) = process.run(path, ids(1, 63))
        assert whole.shape == (1, 63, 520)
        broken = tmp_path / "broken.gguf"
        broken.write_bytes(path.read_bytes()[:2000])
        with pytest.raises(ExportError, match=r"llama\.cpp cannot take the model"):
            process.run(broken, ids())
        assert bool(process.run(path, ids())[0].isfinite().all()), "the process answers after an error"


@pytest.mark.slow
def test_rows_as_long_as_the_context_run(tmp_path: Path) -> None:
    home = made("llama", tmp_path / "home", vocab_size=520, max_position_embeddings=16, eos_token_id=0)
    give(gpt2(), home)
    found = open_any(str(home), tmp_path / "work")
    export(found.project, found.store, "gguf", tmp_path / "m.gguf")
    before = (tmp_path / "m.gguf").read_bytes()
    whole = ids(1, 16)
    with LlamaCpp() as process:
        (got,) = process.run(tmp_path / "m.gguf", whole, exact=True)
        (part,) = process.run(tmp_path / "m.gguf", {name: value[:, :15] for name, value in whole.items()}, exact=True)
    torch.testing.assert_close(got[:, :15], part, rtol=0, atol=EXACT)
    assert (tmp_path / "m.gguf").read_bytes() == before


@pytest.mark.slow
def test_a_file_of_token_ids_runs_in_the_library_alone(tmp_path: Path) -> None:
    found = open_any(str(made("llama", tmp_path / "home")), tmp_path / "work")
    export(found.project, found.store, "gguf", tmp_path / "m.gguf", Settings(gguf=GgufOptions(ids_only=True)))
    inputs = {name: value % 100 for name, value in ids().items()}
    with LlamaCpp() as process:
        if binding() == "llama_cpp":
            assert process.run(tmp_path / "m.gguf", inputs)[0].shape == (2, 11, 100)
        else:
            with pytest.raises(ExportError, match="no vocabulary, which xllamacpp needs"):
                process.run(tmp_path / "m.gguf", inputs)


@pytest.mark.slow
def test_a_file_with_sentence_pieces_runs(tmp_path: Path) -> None:
    import transformers

    home = made("llama", tmp_path / "home", vocab_size=1000, bos_token_id=1, eos_token_id=2)
    give(pieces("first"), home, unk_token="<unk>", bos_token="<s>", eos_token="</s>")
    found = open_any(str(home), tmp_path / "work")
    export(found.project, found.store, "gguf", tmp_path / "m.gguf")
    model = load(tmp_path / "m.gguf", transformers.LlamaForCausalLM, torch.float32)
    with LlamaCpp() as process:
        (got,) = process.run(tmp_path / "m.gguf", ids(), exact=True)
    assert float((got - wanted(model, ids())).abs().max()) < EXACT
