"""Metadata of GGUF files: factors of rotary embeddings are those of transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from espalier.model.errors import ExportError
from espalier.model.opening import open_any
from espalier.passes.export import export
from espalier.passes.export.llama_cpp.architectures import architecture_of, rope_factors
from tests.passes.export.models import made

# (head, base, factor, low, high, context): Llama 3.1, Llama 3.2, then sizes at which every branch is taken.
LLAMA3 = [
    (128, 500000.0, 8.0, 1.0, 4.0, 8192),
    (64, 500000.0, 32.0, 1.0, 4.0, 8192),
    (20, 500.0, 8.0, 1.0, 4.0, 32),
    (64, 10000.0, 3.0, 2.0, 2.5, 100),
    (64, 10000.0, 3.0, 2.0, 2.0, 100),
    (64, 10000.0, 3.0, 4.0, 2.0, 100),
]


def llama(head: int, rope: dict[str, Any], **more: Any) -> Any:
    import transformers

    return transformers.LlamaConfig(hidden_size=4 * head, num_attention_heads=4, head_dim=head, rope_parameters=rope,
                                    **more)  # fmt: skip


@pytest.mark.parametrize(("head", "base", "factor", "low", "high", "context"), LLAMA3)
def test_factors_of_llama3_are_those_of_transformers(
    head: int, base: float, factor: float, low: float, high: float, context: int
) -> None:
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    rope = {"rope_type": "llama3", "rope_theta": base, "factor": factor, "low_freq_factor": low,
            "high_freq_factor": high, "original_max_position_embeddings": context}  # fmt: skip
    config = llama(head, rope)
    found = rope_factors(config)["rope_freqs.weight"]
    frequencies, _ = ROPE_INIT_FUNCTIONS["llama3"](config, torch.device("cpu"))
    plain = base ** -(np.arange(0, head, 2) / head)
    assert found.dtype == np.float32 and found.shape == (head // 2,)
    np.testing.assert_allclose(plain / found, frequencies.numpy(), rtol=2e-6)
    assert found.min() == 1.0 and found.max() == factor


def test_linear_scaling_is_metadata() -> None:
    config = llama(16, {"rope_type": "linear", "rope_theta": 100.0, "factor": 4})
    found = architecture_of(config).describe(config)
    assert (found["rope.scaling.type"], found["rope.scaling.factor"]) == ("linear", 4.0)
    assert architecture_of(config).tensors(config) == {}
    plain = llama(16, {"rope_type": "default", "rope_theta": 100.0})
    assert not [name for name in architecture_of(plain).describe(plain) if "scaling" in name]


@pytest.mark.parametrize(("kind", "rope", "message"), [
    ("llama", {"rope_type": "yarn", "factor": 4.0}, "type yarn are not written"),
    ("llama", {"rope_type": "dynamic", "factor": 4.0}, "type dynamic are not written"),
    ("qwen2", {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 32}, "type llama3 are not written"),
])  # fmt: skip
def test_other_scalings_are_refused(kind: str, rope: dict[str, Any], message: str) -> None:
    import transformers

    cls = transformers.LlamaConfig if kind == "llama" else transformers.Qwen2Config
    config = cls(rope_parameters={"rope_theta": 100.0, **rope})
    with pytest.raises(ExportError, match=message) as found:
        architecture_of(config).describe(config)
    assert "default, linear" in found.value.hint


@pytest.mark.slow
def test_a_note_says_that_transformers_reads_no_scaling(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    rope = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}  # fmt: skip
    found = open_any(str(made("llama", tmp_path / "home", rope_parameters=rope)), tmp_path / "work")
    done = export(found.project, found.store, "gguf", tmp_path / "m.gguf")
    assert any("config=…" in note and "llama3" in note for note in done.notes) and done.max_abs_diff == 0.0
    (factors,) = [t for t in gguf.GGUFReader(tmp_path / "m.gguf").tensors if t.name == "rope_freqs.weight"]
    assert factors.tensor_type.name == "F32" and factors.data.tolist()[:4] == [1.0] * 4
    assert 1 < factors.data[4] < 8 and factors.data.tolist()[5:] == [8.0] * 3
