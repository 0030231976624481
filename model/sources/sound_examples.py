"""Example inputs of transformers' models of sounds: a waveform, or the features of a spectrogram."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from espalier.model.borders import read_json, tried
from espalier.model.data.class_names import local_file
from espalier.model.data.extractors import FILE
from espalier.model.data.wav import RATES

SOUNDS = ("input_values", "input_features")  # main inputs
LENGTH, MASK = "audio_length", "audio_mask"  # of the example, which no configuration has
SECOND = 16_000  # samples of a waveform where nothing names another length


def takes_sounds(model: Any) -> bool:
    """Whether the model's input is a sound, and no decoder needs further inputs."""
    return getattr(model, "main_input_name", "") in SOUNDS and not _decodes(model)


def _decodes(model: Any) -> bool:
    return bool(getattr(model.config, "is_encoder_decoder", False)) and "Classification" not in type(model).__name__


def set_length(config: Any, name: str) -> None:
    """Set the length of waveforms to a second at the rate of the model's feature extractor, if it has one."""
    file = local_file(name, FILE)
    facts = tried(lambda: read_json(Path(file)), {}) if file else {}
    facts = facts if isinstance(facts, dict) else {}
    rate = facts.get("sampling_rate")
    if isinstance(rate, int) and RATES[0] <= rate <= RATES[1]:
        setattr(config, LENGTH, getattr(config, LENGTH, rate))
        setattr(config, MASK, facts.get("return_attention_mask") is True)


def sound_inputs(model: Any) -> dict[str, Any]:
    """Inputs of two sounds; "?labels" of a classifier are only used if chosen by name."""
    import torch

    config, main = model.config, str(model.main_input_name)
    bins = int(getattr(config, "num_mel_bins", 0) or 0)
    if main == "input_features" and (positions := getattr(config, "max_source_positions", None)):
        inputs: dict[str, Any] = {main: torch.randn(2, bins, 2 * int(positions))}
    elif bins and (frames := getattr(config, "max_length", None)):
        inputs = {main: torch.randn(2, int(frames), bins)}
    else:
        length = max(int(getattr(config, LENGTH, SECOND)), _shortest(config))
        inputs = {main: torch.randn(2, length)}
        inputs |= {"attention_mask": torch.ones(2, length, dtype=torch.long)} if getattr(config, MASK, False) else {}
    if "Classification" in type(model).__name__:
        inputs["?labels"] = torch.randint(0, int(getattr(config, "num_labels", 2)), (2,))
    return inputs


def _shortest(config: Any) -> int:
    """Samples from which strided convolutions make two frames."""
    strides = getattr(config, "conv_stride", ())
    return 2 * math.prod(strides) + sum(getattr(config, "conv_kernel", ())) if strides else 0
