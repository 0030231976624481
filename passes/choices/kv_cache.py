"""Options of a quantised key/value cache: formats of keys and values, and what shares a scale."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from espalier.model.errors import FormatError, OptionsError, nearest
from espalier.model.formats.base import Format, parse_format
from espalier.model.formats.mxfp import MXFP
from espalier.model.formats.nvfp4_row import NVFP4Row
from espalier.model.formats.scaled_element import ScaledElement
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.formats.stored_scale import ScaleType
from espalier.passes.select import Select

Scales = Literal["head", "token", "group", "tensor", "static_head", "channel"]
FLOAT = "float"
NAMES: dict[str, Format | None] = {
    FLOAT: None,
    "int8": ScaledInteger(8),
    "int4": ScaledInteger(4),
    "int2": ScaledInteger(2, symmetric=False),
    "fp8": ScaledElement("e4m3"),
    "mxfp8": MXFP("e4m3"),
    "mxfp4": MXFP("e2m1"),
    "nvfp4": NVFP4Row(),
}
_NAMED = f"{', '.join(NAMES)}, or a format with its parameters"
_SHARED = (
    "what shares a scale: head (of a token), token (all heads), group (within a head); static, to be calibrated: "
    "tensor, static_head, channel"
)


@dataclass(frozen=True, slots=True)
class KVCacheOptions:
    """Formats of keys and values, and the sizes at which the cache is counted."""

    key: str = field(default="int8", metadata={"help": f"format of keys: {_NAMED}"})
    value: str = field(default="int8", metadata={"help": f"format of values: {_NAMED}"})
    key_scales: Scales = field(default="head", metadata={"help": f"keys: {_SHARED}"})
    value_scales: Scales = field(default="head", metadata={"help": f"values: {_SHARED}"})
    group: int = field(default=32, metadata={"min": 2, "max": 65536, "help": "elements of a group"})
    scale_dtype: ScaleType = field(
        default="float16", metadata={"help": "type in which scales of integers and fp8 are stored"}
    )
    context: int = field(default=4096, metadata={"min": 1, "max": 1 << 30, "help": "tokens of a text, for its bytes"})
    sequences: int = field(default=1, metadata={"min": 1, "max": 1 << 20, "help": "texts at once, for its bytes"})
    select: Select = field(default=Select(), metadata={"help": "which attentions, by themselves or their caches"})

    def __post_init__(self) -> None:
        for name in ("key", "value"):
            format_named(getattr(self, name))
        for name, low in (("group", 2), ("context", 1), ("sequences", 1)):
            if getattr(self, name) < low:
                raise OptionsError(f"{name} is {getattr(self, name)}.", f"It must be at least {low}.")

    def of(self, part: str) -> tuple[Format | None, str]:
        """(format of keys or values, what a row of the format is)."""
        text, scales = (self.key, self.key_scales) if part == "key" else (self.value, self.value_scales)
        named = text.strip().lower() in NAMES
        rows = "head" if scales in ("group", "tensor") else scales
        return _shared(format_named(text), scales, self.group, self.scale_dtype if named else None), rows


def format_named(text: str) -> Format | None:
    """A name of NAMES or a format as text; None for float. Raises OptionsError."""
    name = text.strip().lower()
    if name in NAMES:
        return NAMES[name]
    try:
        return parse_format(text)
    except FormatError as error:
        hint = error.hint if "(" in text else nearest(name, NAMES)
        raise OptionsError(error.message, hint or f"Give {_NAMED}.") from error


def _shared(fmt: Format | None, scales: str, group: int, dtype: ScaleType | None) -> Format | None:
    """The format with a scale per group, row or tensor; block formats have their own blocks."""
    if not isinstance(fmt, ScaledInteger | ScaledElement):
        return fmt
    granularity = scales if scales in ("group", "tensor") else "channel"
    if granularity == "channel" and dtype is None:  # written with its parameters
        return fmt
    changes: dict[str, Any] = {"granularity": granularity, "group": group}
    return replace(cast("Any", fmt), **changes, **({} if dtype is None else {"scale_dtype": dtype}))
