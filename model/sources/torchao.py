"""Opens models whose weights are tensors of torchao as what those dequantise to: an ordinary model of transformers."""

from __future__ import annotations

import importlib
import importlib.util
import logging
from collections.abc import Iterator
from typing import Any, cast

from espalier.model.errors import SourceError
from espalier.model.sources.compressed import UNQUANTISED, check_patterns

METHOD = "torchao"
# What a tensor holds for the other operand of its products.
OF_INPUTS = ("act_quant_kwargs", "activation_quantization", "act_quant_scale", "act_pre_scale", "act_per_tensor_scale")
LOUD = ("torchao", "torch.utils._pytree")  # log at the import of torchao, which transformers does where it is installed
# Classes that a configuration may name: torchao builds what it finds under a name in a dozen of its packages.
KNOWN = frozenset((
    "FqnToConfig", "ModuleFqnToConfig", "Int8WeightOnlyConfig", "Int8DynamicActivationInt8WeightConfig",
    "IntxWeightOnlyConfig", "Int8DynamicActivationIntxWeightConfig", "Int4WeightOnlyConfig", "Float8WeightOnlyConfig",
    "Float8DynamicActivationFloat8WeightConfig", "NVFP4WeightOnlyConfig", "MXDynamicActivationMXWeightConfig",
    "NVFP4DynamicActivationNVFP4WeightConfig", "PerRow", "PerGroup", "PerTensor", "PerAxis", "PerToken", "MappingType",
    "IntxPackingFormat", "IntxChooseQParamsAlgorithm", "Int4PackingFormat", "Int4ChooseQParamsAlgorithm",
    "Float8MMConfig", "Float8PackingFormat", "KernelPreference", "ScaleCalculationMode", "torch.dtype",
))  # fmt: skip


def package(name: str) -> Any:
    """A package of torchao, an optional one without types."""
    return importlib.import_module(f"torchao.{name}")


def quiet_import() -> None:
    """Silence what torchao logs when it is imported: kernels for other processors, and torch's notes on it."""
    for name in LOUD:
        logging.getLogger(name).setLevel(logging.ERROR)


def check_settings(settings: Any) -> None:
    """Raise SourceError where the `quantization_config` of a configuration cannot be opened as it is, or safely."""
    if not isinstance(settings, dict) or settings.get("quant_method") != METHOD:
        return
    check_patterns(settings)
    if unknown := sorted({name for name in _types(settings) if name not in KNOWN}):
        raise SourceError(f"The quantization_config names {unknown[0][:60]!r}, which is no configuration of torchao "
                          "that Espalier opens.", UNQUANTISED)  # fmt: skip
    if importlib.util.find_spec("torchao") is None:
        raise SourceError("The weights are tensors of torchao, which is not installed.",
                          "Install it: pip install 'espalier[torchao]'.")  # fmt: skip


def _types(value: Any) -> Iterator[str]:
    """The names of classes in a value of JSON."""
    if isinstance(value, dict):
        if "_type" in value:
            yield str(cast("dict[str, Any]", value)["_type"])
        yield from (name for part in cast("dict[str, Any]", value).values() for name in _types(part))
    elif isinstance(value, list):
        yield from (name for part in cast("list[Any]", value) for name in _types(part))


def dequantise(model: Any) -> None:
    """Replace the tensors of torchao in a loaded model by float weights.

    Raises SourceError where inputs are rounded or scaled, too: that would be lost.
    """
    config = getattr(model.config, "quantization_config", None)
    if getattr(config, "quant_method", None) != METHOD:
        return
    from torch import nn
    from transformers.integrations.torchao import TorchAoDeserialize

    kind, made = package("utils").TorchAOBaseTensor, dict[int, Any]()
    for module in model.modules():
        for name, value in module._parameters.items():
            if not isinstance(value, kind):
                continue
            if any(getattr(value, key, None) is not None for key in OF_INPUTS):
                raise SourceError("The model rounds or scales activations by torchao, which would be lost.",
                                  UNQUANTISED)  # fmt: skip
            if id(value) not in made:
                made[id(value)] = nn.Parameter(value.dequantize())
            module._parameters[name] = made[id(value)]
    for name in ("hf_quantizer", "quantization_method"):
        if hasattr(model, name):
            delattr(model, name)
    # transformers would run them backwards to save the model.
    model._weight_conversions = [
        c for c in getattr(model, "_weight_conversions", None) or ()
        if not any(isinstance(o, TorchAoDeserialize) for o in getattr(c, "operations", ()))
    ]  # fmt: skip
    model.is_quantized = False
    del model.config.quantization_config
