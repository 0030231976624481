"""Opens models of compressed-tensors as what their weights decompress to: an ordinary model of transformers."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from typing import Any, cast

from espalier.model.errors import SourceError

METHOD = "compressed-tensors"
SETTINGS = "quantization_config"
UNQUANTISED = "Open the model before it was quantised, or the project that wrote the folder."
REGEX = "re:"
MOST_CHARACTERS, MOST_REPEATS = 500, 5  # of a pattern
_REPEAT, _NESTED = re.compile(r"[*+{]"), re.compile(r"\)[*+{]")


def settings_in(config: Any) -> Iterator[Any]:
    """Each `quantization_config` of a configuration; transformers takes that of a part, such as `text_config`, too."""
    if isinstance(config, dict):
        known = cast("dict[str, Any]", config)
        if known.get(SETTINGS) is not None:
            yield known[SETTINGS]
        for name, part in known.items():
            yield from settings_in(part) if name != SETTINGS else ()


def check_settings(settings: Any) -> None:
    """Raise SourceError where the `quantization_config` of a configuration cannot be opened as it is, or safely.

    compressed-tensors searches names of modules by the regular expressions of the file, without a limit of time.
    """
    if not isinstance(settings, dict) or settings.get("quant_method") != METHOD:
        return
    for key in ("kv_cache_scheme", "transform_config", "sparsity_config"):
        if settings.get(key):
            raise SourceError(f"The model has a {key} of compressed-tensors, which would be lost.", UNQUANTISED)
    check_patterns(settings)


def check_patterns(settings: Any) -> None:
    """Raise SourceError where a regular expression of a `quantization_config` may take too long to search."""
    for pattern in _patterns(settings):
        if len(pattern) > MOST_CHARACTERS or len(_REPEAT.findall(pattern)) > MOST_REPEATS or _NESTED.search(pattern):
            shown = pattern if len(pattern) <= 60 else f"{pattern[:60]}…"
            raise SourceError(f"The pattern {shown!r} of quantization_config may take too long to search.",
                              "Name modules instead, or write a pattern without repeated groups.")  # fmt: skip


def _patterns(value: Any) -> Iterator[str]:
    """The regular expressions among the texts of a value of JSON."""
    if isinstance(value, str):
        if value.startswith(REGEX):
            yield value.removeprefix(REGEX)
    elif isinstance(value, dict | list):
        for part in cast("list[Any]", [*value, *value.values()] if isinstance(value, dict) else value):
            yield from _patterns(part)


def decompress(model: Any) -> bool:
    """Replace the codes of a loaded model by float weights; False for a model without codes.

    Raises SourceError where inputs are rounded, too: that would be lost.
    """
    config = getattr(model.config, "quantization_config", None)
    if getattr(config, "quant_method", None) != METHOD:
        return False
    from compressed_tensors.compressors import decompress_module

    coded = [m for m in model.modules() if getattr(m, "quantization_scheme", None) is not None]
    if any(m.quantization_scheme.input_activations or m.quantization_scheme.output_activations for m in coded):
        raise SourceError("The model rounds activations by compressed-tensors, which would be lost.", UNQUANTISED)
    with contextlib.redirect_stderr(io.StringIO()):
        for module in coded:
            decompress_module(module, leave_decompressed=False)
    model.hf_quantizer.compressor.remove_decompression_hook(model)
    for name in ("hf_quantizer", "quantization_method"):
        if hasattr(model, name):
            delattr(model, name)
    model.is_quantized = False
    del model.config.quantization_config
    model.tie_weights()
    return True
