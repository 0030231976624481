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
# What LoRA files may also say, and this version does not compute: key → its words.
_STRANGE = {
    "use_dora": "weights apart in size and direction (DoRA)", "lora_bias": "biases in the adapters",
    "use_qalora": "QALoRA", "use_bdlora": "block-diagonal matrices", "alora_invocation_tokens": "activated LoRA",
    "trainable_token_indices": "trained tokens", "target_parameters": "adapters of bare parameters",
    "layer_replication": "layers that are repeated", "arrow_config": "Arrow routing", "velora_config": "VeLoRA",
    "kasa_config": "KaSA", "monteclora_config": "MonteCLoRA",
}  # fmt: skip
_MOVED = ("pissa", "olora", "corda", "loftq", "lora_ga")  # initialisations that alter the base model's weights


@dataclass(frozen=True, slots=True)
class Layer:
    """One adapter of the file."""

    alpha: float
    a: Tensor
    b: Tensor
    embedding: bool

    @property
    def rank(self) -> int:
        """The rank, as the matrices have it."""
        return self.a.shape[0] if self.a.shape else 0


@dataclass(frozen=True, slots=True)
class PeftAdapter:
    """What a folder holds: adapters by module path, and whole tensors of other modules by name."""

    base: str
    dropout: float
    rooted: bool
    layers: dict[str, Layer]
    saved: dict[str, Tensor] = field(default_factory=dict[str, Tensor])


def read_peft(folder: Path) -> PeftAdapter:
    """The adapter in `folder`; raises ProjectError where there is none, or one that this version cannot compute."""
    folder = folder.parent if folder.name in (CONFIG, VALUES) else folder
    with reading(folder, ProjectError, "is no adapter that can be read", "Use a complete copy of the adapter."):
        return _read(folder)


def _read(folder: Path) -> PeftAdapter:
    config = _config(folder)
    _refuse(config)
    if not (folder / VALUES).is_file():
        pickled = (folder / "adapter_model.bin").is_file()
        what = "holds its values as a pickle, which could run foreign code" if pickled else f"has no {VALUES}"
        raise ProjectError(f"{folder.name} {what}.", "Save the adapter with safe_serialization=True.")
    places = read_header(folder / VALUES)
    pairs, saved = _sorted_in(places)
    alphas = _alphas(config, pairs)
    layers = {path: Layer(alphas[path], tensor_at(a), tensor_at(b), embedding)
              for path, (a, b, embedding) in pairs.items()}  # fmt: skip
    return PeftAdapter(str(config.get("base_model_name_or_path") or ""), _number(config, "lora_dropout", 0),
                       bool(config.get("use_rslora")), layers,
                       {name: tensor_at(place) for name, place in saved.items()})  # fmt: skip


def _config(folder: Path) -> Mapping[str, Any]:
    with reading(folder / CONFIG, ProjectError, "cannot be read", "Use a complete copy of the adapter.",
                 "Give the folder that PEFT's save_pretrained wrote."):  # fmt: skip
        found = read_json(folder / CONFIG)
    if not isinstance(found, Mapping):
        raise ProjectError(f"{CONFIG} holds no table.", "Use a complete copy of the adapter.")
    return cast("Mapping[str, Any]", found)


def _refuse(config: Mapping[str, Any]) -> None:
    """Raises ProjectError for what would compute something else than the adapter did where it was made."""
    kind, bias = config.get("peft_type", "LORA"), config.get("bias", "none")
    if kind != "LORA":
        raise ProjectError(f"The adapter is of the type {kind}.", "Only LoRA can be loaded.")
    strange = next((words for key, words in _STRANGE.items() if config.get(key)), None)
    if bias not in ("none", None):
        strange = f"trained biases (bias = {bias!r})"
    if strange:
        hint = "Merge it into its model with PEFT (merge_and_unload), and open that."
        raise ProjectError(f"The adapter has {strange}, which this version does not compute.", hint)
    start = str(config.get("init_lora_weights", "")).lower()
    if start.startswith(_MOVED):
        hint = "Convert it with PEFT (path_initial_model_for_weight_conversion), or merge it."
        raise ProjectError(f"The adapter began as {start}, which alters the base model's weights as well.", hint)


def _sorted_in(
    places: Mapping[str, Location],
) -> tuple[dict[str, tuple[Location, Location, bool]], dict[str, Location]]:
    """(module path → places of A and B and whether of an embedding, name → place of whole tensors)."""
    parts: dict[str, dict[str, Location]] = {}
    saved: dict[str, Location] = {}
    embeddings: set[str] = set()
    for key, place in places.items():
        name = key.removeprefix(PREFIX)
        found = _PART.fullmatch(name)
        if found:
            parts.setdefault(found["path"], {})[found["part"]] = place
            embeddings |= {found["path"]} if ".lora_embedding_" in name else set[str]()
        elif ".original_module." not in name:
            saved[name.replace(".modules_to_save.", ".").replace(".base_layer.", ".")] = place
    half = next((path for path, pair in parts.items() if len(pair) != 2), None)
    if half or not parts:
        what = f"lacks a matrix of {half}" if half else "holds no adapter"
        raise ProjectError(f"{VALUES} {what}.", "Use a complete copy of it.")
    return {path: (pair["A"], pair["B"], path in embeddings) for path, pair in parts.items()}, saved


def tensor_at(place: Location) -> Tensor:
    """A tensor of a safetensors file, in memory."""
    count = math.prod(place.shape)
    array = np.fromfile(place.path, Tensor.carrier(place.dtype), count, offset=place.offset)
    return Tensor(array.reshape(place.shape), place.dtype)


def _number(config: Mapping[str, Any], key: str, default: float) -> float:
    value = config.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ProjectError(f"{key} of the adapter is {value!r}.", "It must be a number.")
    return float(value)


def _alphas(config: Mapping[str, Any], paths: Iterable[str]) -> dict[str, float]:
    """By path, as PEFT does: of the first pattern that the end of the path matches."""
    alpha, by_pattern = _number(config, "lora_alpha", 8), config.get("alpha_pattern") or {}
    if not isinstance(by_pattern, Mapping):
        raise ProjectError(f"alpha_pattern of the adapter is {by_pattern!r}.", "It must be a table.")
    keys = {rf"\A(.*\.)?({k})$": k for k in cast("Mapping[str, Any]", by_pattern)}
    try:
        patterns = Patterns(tuple(keys))
        found = {path: patterns.first(path) for path in paths}
    except OptionsError as error:
        raise ProjectError(f"alpha_pattern of the adapter is wrong: {error.message}", error.hint) from error
    return {path: alpha if key is None else _number(by_pattern, keys[key], alpha) for path, key in found.items()}
