"""Presets of formats by the names that compressed-tensors and llm-compressor give them.

Schemes: compressed_tensors.quantization.quant_scheme.PRESET_SCHEMES (0.20), which a test compares them with.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from espalier.model.errors import OptionsError, nearest
from espalier.model.formats.base import Format
from espalier.model.formats.mxfp import MXFP
from espalier.model.formats.nvfp4 import NVFP4
from espalier.model.formats.scaled_element import ScaledElement
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.formats.stored_scale import ScaleType
from espalier.passes.select import Select

Name = Literal[
    "w8a8_dynamic", "w8a16", "w4a16_g128", "w4a16_asym", "fp8_dynamic", "w4afp8", "w4a8", "w4a4", "w3a16_g128",
    "w2a16_g128", "nvfp4", "nvfp4a16", "mxfp4", "mxfp4a16", "mxfp8", "mxfp8a16",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Preset:
    """A scheme. `scheme`: its name in compressed-tensors; `data_in`: None for activations in float.

    `about`: one line for tables.
    """

    scheme: str
    weight: Format
    data_in: Format | None
    about: str


_TOKEN8, _TOKEN4 = ScaledElement("int8", "channel"), ScaledElement("int4", "channel")
_FP8, _GROUP = ScaledElement("e4m3", "channel"), ScaledElement("int4", "group", 128)
PRESETS: dict[str, Preset] = {
    "w4a16_g128": Preset("W4A16", _GROUP, None, "4-bit weights in groups of 128"),
    "w4a16_asym": Preset("W4A16_ASYM", ScaledInteger(4, "group", 128, symmetric=False), None,
                         "the same with zero points"),
    "w8a8_dynamic": Preset("W8A8", _TOKEN8, _TOKEN8, "8-bit weights by channel, 8-bit activations by token"),
    "w8a16": Preset("W8A16", replace(_GROUP, element="int8"), None, "8-bit weights in groups of 128"),
    "fp8_dynamic": Preset("FP8_DYNAMIC", _FP8, _FP8, "E4M3 weights by channel, E4M3 activations by token"),
    "w4afp8": Preset("W4AFP8", _GROUP, _FP8, "4-bit weights in groups of 128, E4M3 activations by token"),
    "w4a8": Preset("W4A8", _GROUP, _TOKEN8, "4-bit weights in groups of 128, 8-bit activations by token"),
    "w4a4": Preset("W4A4", _GROUP, _TOKEN4, "4-bit weights in groups of 128, 4-bit activations by token"),
    "w3a16_g128": Preset("W3A16", replace(_GROUP, element="int3"), None, "3-bit weights in groups of 128"),
    "w2a16_g128": Preset("W2A16", replace(_GROUP, element="int2"), None, "2-bit weights in groups of 128"),
    "nvfp4": Preset("NVFP4", NVFP4(), NVFP4(), "NVFP4 weights and activations"),
    "nvfp4a16": Preset("NVFP4A16", NVFP4(), None, "NVFP4 weights"),
    "mxfp4": Preset("MXFP4", MXFP("e2m1"), MXFP("e2m1"), "MXFP4 weights and activations"),
    "mxfp4a16": Preset("MXFP4A16", MXFP("e2m1"), None, "MXFP4 weights"),
    "mxfp8": Preset("MXFP8", MXFP("e4m3"), MXFP("e4m3"), "MXFP8 (E4M3) weights and activations"),
    "mxfp8a16": Preset("MXFP8A16", MXFP("e4m3"), None, "MXFP8 (E4M3) weights"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class QuantizePresetOptions:
    """A preset, and what of it differs."""

    preset: Name = field(
        default="w8a8_dynamic", metadata={"help": "weights and activations (w4a16: 4 and 16 bits)", "positional": True}
    )
    group: int = field(
        default=0, metadata={"min": 0, "max": 65536, "help": "elements that share a scale; 0: the preset's own"}
    )
    uneven: Literal["error", "channel"] = field(
        default="error", metadata={"help": "rows that groups do not divide: stop, or one scale for the row"}
    )
    head: bool = field(default=False, metadata={"help": "quantise the output layer of a language model as well"})
    select: Select = field(default=Select(), metadata={"help": "which Linears; all by default"})

    def __post_init__(self) -> None:
        if self.group == 1:
            raise OptionsError("group is 1.", "It must be 0 or at least 2.")
        if self.group and group_of(PRESETS[self.preset].weight) is None:
            raise OptionsError(f"{self.preset} has no group size to choose.", "Leave group at 0.")


def preset_named(text: str) -> str:
    """The preset of a name in any spelling: `W4A16`, `w8a8`, `FP8-Dynamic`; raises OptionsError."""
    name = text.strip().lower().replace("-", "_")
    schemes = {p.scheme.lower(): key for key, p in PRESETS.items()} | {"int8": "w8a8_dynamic"}
    if name in PRESETS or name in schemes:
        return name if name in PRESETS else schemes[name]
    raise OptionsError(f"There is no preset {text!r}.", nearest(name, [*PRESETS, *schemes]))


def group_of(fmt: Format) -> int | None:
    """The group size of a format with groups that can be chosen."""
    match fmt:
        case ScaledElement(granularity="group", group=group) | ScaledInteger(granularity="group", group=group):
            return group
        case _:
            return None


def in_group(fmt: Format, group: int) -> Format:
    """The format with another group size; 0 leaves it."""
    return replace(fmt, group=group) if group and isinstance(fmt, ScaledElement | ScaledInteger) else fmt


def by_channel(fmt: Format) -> Format:
    """The format with a scale for each row."""
    return replace(fmt, granularity="channel") if isinstance(fmt, ScaledElement | ScaledInteger) else fmt


def in_dtype(fmt: Format, dtype: str) -> Format:
    """The format with scales in the 16-bit type of the tensor, as compressed-tensors stores them."""
    halves: dict[str, ScaleType] = {"bfloat16": "bfloat16", "float16": "float16"}
    scaled = dtype in halves and isinstance(fmt, ScaledElement | ScaledInteger)
    return replace(fmt, scale_dtype=halves[dtype]) if scaled else fmt
