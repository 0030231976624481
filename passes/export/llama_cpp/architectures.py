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


def _none(config: Any) -> dict[str, Array]:
    return {}


@dataclass(frozen=True, slots=True)
class Architecture:
    """`name`: in GGUF. `describe`: a configuration → metadata after the name. `rows`: (tensor, configuration, its name
    in GGUF) → the tensor with its rows in GGUF's order. `tensors`: a configuration → tensors that follow from it.
    """

    name: str
    describe: Callable[[Any], dict[str, Any]]
    rows: Callable[[Array, Any, str], Array]
    tensors: Callable[[Any], dict[str, Array]] = _none


def architecture_of(config: Any) -> Architecture:
    """The architecture of a configuration of transformers; raises ExportError where a file cannot say it."""
    kind = str(getattr(config, "model_type", ""))
    if hasattr(config, SHAPES):
        raise ExportError("The layers have different sizes, and a GGUF file has one size for all.",
                          "Prune each layer by the same share, or export as safetensors.")  # fmt: skip
    check_type(kind)
    return ARCHITECTURES[kind]


def check_type(kind: str | None) -> None:
    """Raise ExportError for a type of model of which no file is written; None is unknown."""
    if kind is not None and kind not in ARCHITECTURES:
        raise ExportError(f"A GGUF file of {kind or 'this model'} is not written.",
                          f"Architectures: {', '.join(ARCHITECTURES)}. {LIKE}")  # fmt: skip


def _rope(config: Any) -> Mapping[str, Any]:
    return getattr(config, "rope_parameters", None) or {}


def scaling(config: Any) -> str:
    """The type of rotary embeddings that a configuration scales, such as llama3; empty where it scales none."""
    kind = str(_rope(config).get("rope_type", "default"))
    return "" if kind == "default" else kind


def _rotary(config: Any, scalings: tuple[str, ...] = ("linear",)) -> dict[str, Any]:
    rope, scaled = _rope(config), scaling(config)
    if scaled and scaled not in scalings:
        raise ExportError(f"Rotary embeddings of type {scaled} are not written to GGUF.",
                          f"Types for {config.model_type}: default, {', '.join(scalings)}. {LIKE}")  # fmt: skip
    if config.hidden_act != "silu":
        raise ExportError(f"{config.model_type} has the activation {config.hidden_act}, and GGUF only silu.", LIKE)
    head = _head(config)
    linear = {"rope.scaling.type": "linear", "rope.scaling.factor": float(rope["factor"])} if scaled == "linear" else {}
    return {
        "context_length": config.max_position_embeddings, "embedding_length": config.hidden_size,
        "block_count": config.num_hidden_layers, "feed_forward_length": config.intermediate_size,
        "attention.head_count": config.num_attention_heads, "attention.head_count_kv": config.num_key_value_heads,
        "attention.key_length": head, "attention.value_length": head,
        "attention.layer_norm_rms_epsilon": float(config.rms_norm_eps),
        "rope.dimension_count": head, "rope.freq_base": _base(config), **linear,
        "vocab_size": config.vocab_size,
    }  # fmt: skip


def _head(config: Any) -> int:
    return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)


def _base(config: Any) -> float:
    return float(_rope(config).get("rope_theta", 10000.0))


def _llama(config: Any) -> dict[str, Any]:
    return _rotary(config, ("linear", "llama3"))


def rope_factors(config: Any) -> dict[str, Array]:
    """`rope_freqs.weight` of llama3: float32 [head / 2], by which ggml divides the frequency of each pair.

    Source: apply_scaling of Llama 3.1's reference, github.com/meta-llama/llama-models.
    """
    if scaling(config) != "llama3":
        return {}
    rope, head = _rope(config), _head(config)
    low, high = float(rope["low_freq_factor"]), float(rope["high_freq_factor"])
    factor, context = float(rope["factor"]), float(rope["original_max_position_embeddings"])
    wavelengths = 2 * np.pi * _base(config) ** (np.arange(0, head, 2) / head)
    with np.errstate(divide="ignore", invalid="ignore"):
        plain = (context / wavelengths - low) / (high - low)  # share of the plain frequency between the two limits
        between = 1 / ((1 - plain) / factor + plain)
    factors = np.where(wavelengths > context / low, factor, np.where(wavelengths < context / high, 1.0, between))
    return {"rope_freqs.weight": factors.astype(np.float32)}


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
    "llama": Architecture("llama", _llama, _interleaved, rope_factors),
    "qwen2": Architecture("qwen2", _qwen2, _as_they_are),
    "qwen3": Architecture("qwen3", _qwen3, _as_they_are),
    "gpt2": Architecture("gpt2", _gpt2, _as_they_are),
}
