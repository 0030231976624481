"""What a GGUF file says of a model beside its tensors, and how its tensors lie there, as llama.cpp's converter has it.

Converter: https://github.com/ggml-org/llama.cpp, convert_hf_to_gguf.py; keys: docs/gguf.md of ggml.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from espalier.model.errors import ExportError
from espalier.model.formats.base import Array
from espalier.model.sources.pruned_class import SHAPES

LIKE = "Export it as compressed-tensors or packed."


@dataclass(frozen=True, slots=True)
class Architecture:
    """`name`: in GGUF. `describe`: a configuration → metadata after the name. `rows`: (tensor, configuration, its name
    in GGUF) → the tensor with its rows in GGUF's order.
    """

    name: str
    describe: Callable[[Any], dict[str, Any]]
    rows: Callable[[Array, Any, str], Array]


def architecture_of(config: Any) -> Architecture:
    """The architecture of a configuration of transformers; raises ExportError where a file cannot say it."""
    kind = str(getattr(config, "model_type", ""))
    if hasattr(config, SHAPES):
        raise ExportError("The layers have different sizes, and a GGUF file has one size for all.",
                          "Prune each layer by the same share, or export as safetensors.")  # fmt: skip
    if kind not in ARCHITECTURES:
        raise ExportError(f"A GGUF file of {kind or 'this model'} is not written.",
                          f"Architectures: {', '.join(ARCHITECTURES)}. {LIKE}")  # fmt: skip
    return ARCHITECTURES[kind]


def _rotary(config: Any) -> dict[str, Any]:
    rope: Mapping[str, Any] = getattr(config, "rope_parameters", None) or {}
    if rope.get("rope_type", "default") != "default":
        raise ExportError(f"Rotary embeddings of type {rope['rope_type']} are not written to GGUF.", LIKE)
    if config.hidden_act != "silu":
        raise ExportError(f"{config.model_type} has the activation {config.hidden_act}, and GGUF only silu.", LIKE)
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return {
        "context_length": config.max_position_embeddings, "embedding_length": config.hidden_size,
        "block_count": config.num_hidden_layers, "feed_forward_length": config.intermediate_size,
        "attention.head_count": config.num_attention_heads, "attention.head_count_kv": config.num_key_value_heads,
        "attention.key_length": head, "attention.value_length": head,
        "attention.layer_norm_rms_epsilon": float(config.rms_norm_eps),
        "rope.dimension_count": head, "rope.freq_base": float(rope.get("rope_theta", 10000.0)),
        "vocab_size": config.vocab_size,
    }  # fmt: skip


def _qwen(config: Any) -> dict[str, Any]:
    if getattr(config, "use_sliding_window", False):
        raise ExportError("Sliding windows are not written to GGUF.", LIKE)
    return _rotary(config)


def _qwen3(config: Any) -> dict[str, Any]:
    if getattr(config, "attention_bias", False):
        raise ExportError("qwen3 in llama.cpp has no biases of attention.", LIKE)
    return _qwen(config)


def _qwen2(config: Any) -> dict[str, Any]:
    found = _qwen(config)
    if found["attention.key_length"] * config.num_attention_heads != config.hidden_size:
        raise ExportError("qwen2 in GGUF has heads of hidden_size / heads.", LIKE)
    return found


def _gpt2(config: Any) -> dict[str, Any]:
    if config.activation_function != "gelu_new":
        raise ExportError(f"gpt2 has the activation {config.activation_function}, and GGUF only gelu_new.", LIKE)
    if config.scale_attn_by_inverse_layer_idx or not config.scale_attn_weights:
        raise ExportError("gpt2 in GGUF divides scores of attention by the root of the head's width alone.", LIKE)
    return {
        "context_length": config.n_positions, "embedding_length": config.n_embd, "block_count": config.n_layer,
        "feed_forward_length": config.n_inner or 4 * config.n_embd, "attention.head_count": config.n_head,
        "attention.layer_norm_epsilon": float(config.layer_norm_epsilon), "vocab_size": config.vocab_size,
    }  # fmt: skip


def _interleaved(value: Array, config: Any, name: str) -> Array:
    """Rows of q and k with the two halves of each head interleaved: ggml rotates neighbours, transformers halves."""
    heads = {".attn_q.": config.num_attention_heads, ".attn_k.": config.num_key_value_heads}
    count = next((n for part, n in heads.items() if part in name), None)
    if count is None:
        return value
    split = value.reshape(count, 2, value.shape[0] // count // 2, *value.shape[1:])
    return np.ascontiguousarray(split.swapaxes(1, 2).reshape(value.shape))


def _as_they_are(value: Array, config: Any, name: str) -> Array:
    return value


ARCHITECTURES = {
    "llama": Architecture("llama", _rotary, _interleaved),
    "qwen2": Architecture("qwen2", _qwen2, _as_they_are),
    "qwen3": Architecture("qwen3", _qwen3, _as_they_are),
    "gpt2": Architecture("gpt2", _gpt2, _as_they_are),
}
