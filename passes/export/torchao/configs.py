"""Configurations with which torchao (0.18) quantises to tensors like those of a scheme."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from espalier.model.sources.torchao import package
from espalier.passes.export.targets.torchao import FLOAT8, INT8, NV, Scheme
from espalier.passes.export.torchao.tensors import rounded_inputs, small_float


def config_of(scheme: Scheme) -> Any:
    """The configuration of a module."""
    if scheme.tensor == NV:
        return package("prototype.mx_formats").NVFP4WeightOnlyConfig()
    if scheme.tensor == FLOAT8:
        dtype = small_float(scheme.element)
        make = package("quantization").Float8WeightOnlyConfig
        return make(dtype, set_inductor_config=False, granularity=_granularity(scheme))
    return _int8(scheme) if scheme.tensor == INT8 else _intx(scheme)


def _granularity(scheme: Scheme) -> Any:
    ao = package("quantization")
    match scheme.granularity:
        case "group":
            return ao.PerGroup(scheme.group)
        case "tensor":
            return ao.PerTensor()
        case _:
            return ao.PerRow()


def _int8(scheme: Scheme) -> Any:
    ao = package("quantization")
    if scheme.inputs is None:
        return ao.Int8WeightOnlyConfig(granularity=_granularity(scheme), set_inductor_config=False)
    given = rounded_inputs(scheme.inputs)
    return ao.Int8DynamicActivationInt8WeightConfig(
        act_mapping_type=given.mapping_type, granularity=[given.granularity, _granularity(scheme)],
        set_inductor_config=False,
    )  # fmt: skip


def _intx(scheme: Scheme) -> Any:
    """A scale of the whole tensor, which these configurations do not have, is one of each row."""
    import torch

    ao = package("quantization")
    granularity = ao.PerGroup(scheme.group) if scheme.granularity == "group" else ao.PerAxis(0)
    mapping = ao.MappingType.SYMMETRIC if scheme.symmetric else ao.MappingType.ASYMMETRIC
    dtype = getattr(torch, f"int{scheme.bits}")
    if scheme.inputs is None:
        return ao.IntxWeightOnlyConfig(dtype, granularity, mapping)
    return ao.Int8DynamicActivationIntxWeightConfig(dtype, granularity, mapping)


def config_by_module(schemes: Mapping[str, Scheme]) -> Any:
    """The configuration of a model: name of the weight → that of its scheme.

    By weights, since transformers (5.24) gives one of a module to its bias, too.
    """
    configs = OrderedDict((f"{path}.weight", config_of(scheme)) for path, scheme in schemes.items())
    return package("quantization").FqnToConfig(configs)
