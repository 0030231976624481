"""Opens models of compressed-tensors as what their weights decompress to: an ordinary model of transformers."""

from __future__ import annotations

import contextlib
import io
from typing import Any

from espalier.model.errors import SourceError

METHOD = "compressed-tensors"


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
        raise SourceError("The model rounds activations by compressed-tensors, which would be lost.",
                          "Open the model before it was quantised, or the project that wrote the folder.")  # fmt: skip
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
