"""Reads the folder of a PEFT adapter (LoRA): adapter_config.json and adapter_model.safetensors, never a pickle."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np

from espalier.model.borders import read_json, reading
from espalier.model.errors import OptionsError, ProjectError
from espalier.model.patterns import Patterns
from espalier.model.store.weights import Location, Tensor, read_header

CONFIG, VALUES = "adapter_config.json", "adapter_model.safetensors"
PREFIX = "base_model.model."
_PART = re.compile(r"(?P<path>.+)\.lora_(?:embedding_)?(?P<part>[AB])(?:\.[^.]+)?(?:\.weight)?")
# Options of LoRA files that are not implemented: key → text for the error.
_UNSUPPORTED = {
    "use_dora": "weights decomposed into magnitude and direction (DoRA)", "lora_bias": "biases in the adapters",
    "use_qalora": "QALoRA", "use_bdlora": "block-diagonal matrices", "alora_invocation_tokens": "activated LoRA",
    "trainable_token_indices": "trained tokens", "target_parameters": "adapters of parameters without a module",
    "layer_replication": "replicated layers", "arrow_config": "Arrow routing", "velora_config": "VeLoRA",
    "kasa_config": "KaSA", "monteclora_config": "MonteCLoRA",
}  # fmt: skip
_WEIGHT_CHANGING = ("pissa", "olora", "corda", "loftq", "lora_ga")  # initialisations that change base weights


@dataclass(frozen=True, slots=True)
class Layer:
    """One adapter of the file."""

    alpha: float
    a: Tensor
    b: Tensor
    embedding: bool

    @property
    def rank(self) -> int:
        """The rank, from the shape of A."""
        return self.a.shape[0] if self.a.shape else 0


@dataclass(frozen=True, slots=True)
class PeftAdapter:
    """The contents of an adapter folder: adapters by module path, and complete tensors of other modules by name."""

    base: str
    dropout: float
    rooted: bool
    layers: dict[str, Layer]
    saved: dict[str, Tensor] = field(default_factory=dict[str, Tensor])


def read_peft(folder: Path) -> PeftAdapter:
    """Read the adapter in `folder`. Raises ProjectError if there is none or if it uses unsupported options."""
    folder = folder.parent if folder.name in (CONFIG, VALUES) else folder
    with reading(folder, ProjectError, "is not a readable adapter", "Use a complete copy of the adapter."):
        return _read(folder)


def _read(folder: Path) -> PeftAdapter:
    config = _config(folder)
    _check_supported(config)
    if not (folder / VALUES).is_file():
        pickled = (folder / "adapter_model.bin").is_file()
        fault = "stores its values as a pickle, which could run foreign code" if pickled else f"has no {VALUES}"
        raise ProjectError(f"{folder.name} {fault}.", "Save the adapter with safe_serialization=True.")
    tensors = read_header(folder / VALUES)
    pairs, saved = _split_tensors(tensors)
    alphas = _alphas(config, pairs)
    layers = {path: Layer(alphas[path], tensor_at(a), tensor_at(b), embedding)
              for path, (a, b, embedding) in pairs.items()}  # fmt: skip
    return PeftAdapter(str(config.get("base_model_name_or_path") or ""), _number(config, "lora_dropout", 0),
                       bool(config.get("use_rslora")), layers,
                       {name: tensor_at(location) for name, location in saved.items()})  # fmt: skip


def _config(folder: Path) -> Mapping[str, Any]:
    with reading(folder / CONFIG, ProjectError, "cannot be read", "Use a complete copy of the adapter.",
                 "Give the folder that PEFT's save_pretrained wrote."):  # fmt: skip
        config = read_json(folder / CONFIG)
    if not isinstance(config, Mapping):
        raise ProjectError(f"{CONFIG} is not a JSON object.", "Use a complete copy of the adapter.")
    return cast("Mapping[str, Any]", config)


def _check_supported(config: Mapping[str, Any]) -> None:
    """Raise ProjectError for options that are not implemented, as the results would differ from PEFT's."""
    kind, bias = config.get("peft_type", "LORA"), config.get("bias", "none")
    if kind != "LORA":
        raise ProjectError(f"The adapter has peft_type = {kind}.", "Use a LoRA adapter.")
    unsupported = next((text for key, text in _UNSUPPORTED.items() if config.get(key)), None)
    if bias not in ("none", None):
        unsupported = f"trained biases (bias = {bias!r})"
    if unsupported:
        hint = "Merge it into its model with PEFT (merge_and_unload) and open the merged model."
        raise ProjectError(f"The adapter has {unsupported}, which Espalier does not support.", hint)
    init = str(config.get("init_lora_weights", "")).lower()
    if init.startswith(_WEIGHT_CHANGING):
        hint = "Convert it with PEFT (path_initial_model_for_weight_conversion), or merge the adapter."
        raise ProjectError(f"The adapter was initialised by {init}, which also changes the base model's weights.", hint)


def _split_tensors(
    tensors: Mapping[str, Location],
) -> tuple[dict[str, tuple[Location, Location, bool]], dict[str, Location]]:
    """(module path → (A, B, whether of an embedding), name → complete tensor)."""
    parts: dict[str, dict[str, Location]] = {}
    saved: dict[str, Location] = {}
    embeddings: set[str] = set()
    for key, location in tensors.items():
        name = key.removeprefix(PREFIX)
        match = _PART.fullmatch(name)
        if match:
            parts.setdefault(match["path"], {})[match["part"]] = location
            embeddings |= {match["path"]} if ".lora_embedding_" in name else set[str]()
        elif ".original_module." not in name:
            saved[name.replace(".modules_to_save.", ".").replace(".base_layer.", ".")] = location
    incomplete = next((path for path, pair in parts.items() if len(pair) != 2), None)
    if incomplete or not parts:
        fault = f"lacks a matrix of {incomplete}" if incomplete else "contains no adapter"
        raise ProjectError(f"{VALUES} {fault}.", "Use a complete copy of the adapter.")
    return {path: (pair["A"], pair["B"], path in embeddings) for path, pair in parts.items()}, saved


def tensor_at(location: Location) -> Tensor:
    """Read a tensor of a safetensors file into memory."""
    count = math.prod(location.shape)
    array = np.fromfile(location.path, Tensor.carrier(location.dtype), count, offset=location.offset)
    return Tensor(array.reshape(location.shape), location.dtype)


def _number(config: Mapping[str, Any], key: str, default: float) -> float:
    value = config.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ProjectError(f"{key} of the adapter is {value!r}.", "Set it to a number.")
    return float(value)


def _alphas(config: Mapping[str, Any], paths: Iterable[str]) -> dict[str, float]:
    """Module path → alpha, as in PEFT: of the first pattern that matches the end of the path."""
    alpha, by_pattern = _number(config, "lora_alpha", 8), config.get("alpha_pattern") or {}
    if not isinstance(by_pattern, Mapping):
        raise ProjectError(f"alpha_pattern of the adapter is {by_pattern!r}.", "Set it to a JSON object.")
    keys = {rf"\A(.*\.)?({k})$": k for k in cast("Mapping[str, Any]", by_pattern)}
    try:
        patterns = Patterns(tuple(keys))
        matches = {path: patterns.first(path) for path in paths}
    except OptionsError as error:
        raise ProjectError(f"alpha_pattern of the adapter is invalid: {error.message}", error.hint) from error
    return {path: alpha if key is None else _number(by_pattern, keys[key], alpha) for path, key in matches.items()}
