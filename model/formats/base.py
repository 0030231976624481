"""Base class and registry of number formats: immutable values that quantise, list their codes and count their bits.

Fast versions register from above in `FAST`; without one the plain definition runs.
torch is imported when a tensor arrives, never before: the window shows formats without it.
"""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray

from espalier.model.errors import FormatError, nearest, unknown
from espalier.model.patterns import comma_parts
from espalier.model.registry import FORMATS, Registry

if TYPE_CHECKING:
    from torch import Tensor

Array = NDArray[Any]
Kind = Literal["sign", "integer", "fraction", "exponent", "mantissa", "shared"]


@dataclass(frozen=True, slots=True)
class BitField:
    """A field of the stored layout: `bits` wide, stored once per `per` elements (0: once per row or tensor).

    `places`: binary places that the field's part of the number has, where more than are stored.
    """

    name: str
    kind: Kind
    bits: int
    per: int = 1
    places: int = 0


@dataclass(frozen=True, slots=True)
class Shared:
    """A field shared by several elements: unsigned integers of `bits` bits each (floats as bit patterns)."""

    name: str
    values: Array
    bits: int


@dataclass(frozen=True, slots=True)
class Encoded:
    """A tensor as stored: `codes` (int64, the tensor's shape, each below 2^element_bits in magnitude) and shared
    fields."""

    codes: Array
    shared: tuple[Shared, ...] = ()


@dataclass(frozen=True, slots=True)
class Fast:
    """A fast implementation of a format for a type of device, bit-identical to `define`.

    `value`: (format, x, scale) → the value; `scale` is None or the shared scale that is given from outside.
    `masked`: (format, x) → (value, gate): the gate is what `gradient` needs, None where all of x lies inside.
    `gradient`: (gradient of the value, gate, whether nobody else has that gradient) → gradient of x.
    `encode` and `decode`: as the format's own, None where only these will do; codes may come in smaller integers.
    `over`: (format, x, scale, gated) → (value, gate), the value written over x; None where x is as it was.
    """

    value: Callable[[Format, Tensor, Tensor | None], Tensor]
    masked: Callable[[Format, Tensor], tuple[Tensor, Tensor | None]]
    gradient: Callable[[Tensor, Tensor, bool], Tensor]
    encode: Callable[[Format, Array], Encoded | None] = lambda fmt, x: None
    decode: Callable[[Format, Encoded], Array | None] = lambda fmt, encoded: None
    over: Callable[[Format, Tensor, Tensor | None, bool], tuple[Tensor, Tensor | None] | None] = (
        lambda fmt, x, scale, gated: None
    )


FAST: Registry[tuple[type[Format], str], Fast] = Registry("fast version of", FormatError)


def fast_for(fmt: Format, x: Tensor) -> Fast | None:
    """The fast implementation of a format for x's device; None under torch.compile, which fuses the definition."""
    import torch

    return None if torch.compiler.is_compiling() else FAST.find((type(fmt), x.device.type))


@dataclass(frozen=True, slots=True)
class Format:
    """Base of all formats. Fields of a subclass are its parameters; NaN in → NaN out, ±inf saturates."""

    name: ClassVar[str]
    title: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}  # alias → implied parameters
    formula: ClassVar[str]
    source: ClassVar[str]
    rowwise: ClassVar[bool] = False  # whether values depend on their neighbours: blocks, scales of rows or tensors
    stochastic = False  # stochastic rounding; not annotated, since a format may have it as a parameter
    keeps_zero: ClassVar[bool] = True  # whether 0 stays 0, so that a mask holds through it
    shift: ClassVar[str | None] = None  # the parameter that halves all values when it grows by one

    @abstractmethod
    def layout(self) -> tuple[BitField, ...]:
        """The stored fields: those of one element from the most significant down, then shared ones."""

    @property
    def element_bits(self) -> int:
        """Bits of one element's code."""
        return sum(f.bits for f in self.layout() if f.per == 1)

    @property
    def bits(self) -> float:
        """Stored bits per element, including fields shared by blocks; fields of a row or tensor are in
        `stored_bits`, which knows the shape."""
        return float(sum(f.bits / f.per for f in self.layout() if f.per))

    def stored_bits(self, shape: tuple[int, ...]) -> int:
        """Total bits of a tensor of `shape`, including shared fields (blocks and rows are along the last axis)."""
        return math.prod(shape) * self.element_bits

    @property
    @abstractmethod
    def label(self) -> str:
        """Short text for badges, such as `int 8/4`."""

    @abstractmethod
    def define(self, x: Tensor) -> Tensor:
        """The plain definition: the value of `x` (any shape, floating) in this format, same shape and dtype."""

    @abstractmethod
    def inside(self, x: Tensor) -> Tensor:
        """Bool tensor of x's shape: where the straight-through gradient is 1."""

    @abstractmethod
    def encode(self, x: Array) -> Encoded:
        """Encode `x` (finite float array, any shape) with numpy only, so that the window needs no torch."""

    @abstractmethod
    def decode(self, encoded: Encoded) -> Array:
        """Decode to float32 values, bit-identical to `define`."""

    def preimage(self, encoded: Encoded, dtype: str = "float32") -> Array:
        """Values that quantise to `encoded`, under its scale where one can be given: what it decodes to, unless
        quantising twice is not quantising once. float32, to be cast to `dtype`."""
        return self.decode(encoded)

    @abstractmethod
    def codes(self) -> Array:
        """All representable values of an element, ascending, float32, for a shared scale of 1."""

    def rounded(self, x: Array) -> Array:
        """float32 values of `x` in this format, with numpy only, for display in the window."""
        return self.decode(self.encode(x))

    def forward(self, x: Tensor, *, overwrite: bool = False) -> Tensor:
        """`x` in this format without gradient: the fast version for x's device, or else `define`.
        With gradient: `straight_through`.

        `overwrite`: `x` is not needed any more, so that the result may be written over it.
        """
        fast = fast_for(self, x)
        if fast is None:
            return self.define(x)
        return x if overwrite and fast.over(self, x, None, False) else fast.value(self, x, None)

    @classmethod
    def normalise(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """`values` with alternative names of parameters (those of the MASE labs) replaced; a copy."""
        return dict(values)

    def describe(self) -> dict[str, Any]:
        """Name, parameters, bits, formula and source, for tables and help."""
        return {"name": self.name, "title": self.title, "parameters": parameters(self), "bits": self.bits,
                "formula": self.formula, "source": self.source, "aliases": list(self.aliases)}  # fmt: skip

    def __str__(self) -> str:
        inner = ", ".join(f"{k}={v}" for k, v in parameters(self).items())
        return f"{self.name}({inner})"


def parameters(fmt: Format) -> dict[str, Any]:
    """Field name → value of a format."""
    return {f.name: getattr(fmt, f.name) for f in fields(fmt)}


def named_format(name: str) -> tuple[type[Format], dict[str, Any]]:
    """The format of a name or alias, and the parameters that an alias implies; raises FormatError for other names.

    Capitals, hyphens and underscores do not matter in an alias.
    """
    if name not in FORMATS:
        for _, cls in FORMATS.items():
            for alias in (cls.name, *cls.aliases):
                if _folded(alias) == _folded(name):
                    return cls, dict(cls.presets.get(alias, {}))
        raise FormatError(f"There is no format {name!r}.", _instead(name))
    return cast("type[Format]", FORMATS.get(name)), {}


def _instead(name: str) -> str:
    """A hint for an unknown name; an alias with another width, such as `int5`, is written as a parameter."""
    stem = name.rstrip("0123456789")
    for _, cls in FORMATS.items():
        for alias, preset in cls.presets.items():
            if name != stem and alias == f"{stem}{preset.get('width')}":
                return f"Write {cls.name}(width={name.removeprefix(stem)})."
    return unknown(name, [n for key, cls in FORMATS.items() for n in (key, *cls.aliases)])


def _folded(name: str) -> str:
    return re.sub(r"[\W_]", "", name).lower()


def make_format(name: str, values: dict[str, Any]) -> Format:
    """The format `name` (or alias) with `values`; raises FormatError for unknown names, keys and impossible values."""
    cls, preset = named_format(name)
    values = cls.normalise({**preset, **values})
    parameters_by_name = {f.name: f for f in fields(cls)}
    for key in values:
        if key not in parameters_by_name:
            raise FormatError(f"{name} has no parameter {key!r}.", nearest(key, parameters_by_name))
    missing = [n for n, f in parameters_by_name.items() if f.default is MISSING and n not in values]
    if missing:
        raise FormatError(f"{name} needs {', '.join(missing)}.", f"Write {name}({missing[0]}=…).")
    return cls(**values)


_CALL = re.compile(r"([A-Za-z_]\w*)\s*(?:\((.*)\))?", re.S)


def parse_format(text: str) -> Format:
    """`integer(width=8, frac_width=4)` → Format; raises FormatError. Texts may be unquoted."""
    match = _CALL.fullmatch(text.strip())
    if match is None:
        raise FormatError(
            f"{text!r} is not a format.", "Write name(key=value, …), e.g. integer(width=8, frac_width=4)."
        )
    name, inner = match.group(1), match.group(2) or ""
    return make_format(name, dict(_pairs(name, inner)))


def _pairs(name: str, inner: str) -> Iterator[tuple[str, Any]]:
    keys = set[str]()
    for part in filter(str.strip, comma_parts(inner)):
        key, equals, value = part.partition("=")
        if not equals:
            raise FormatError(f"{name}: {part.strip()!r} is not key=value.", f"Write {name}(key=value, …).")
        if key.strip() in keys:
            raise FormatError(f"{name}: {key.strip()} is given twice.", f"Write each key once: {name}(key=value, …).")
        keys.add(key.strip())
        yield key.strip(), _literal(value.strip().strip("'\""))


def _literal(text: str) -> Any:
    if text.startswith("[") and text.endswith("]"):
        return [_literal(part.strip()) for part in text[1:-1].split(",")]
    if text.lower() == "none":
        return None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if text[:1].isalpha():  # the value of `reserved=nan` is a name, not a number
        return text
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def whole(fmt: str, field: str, value: object, low: int, high: int) -> None:
    """Raise FormatError unless `value` is an integer in low…high."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise FormatError(f"{fmt}: {field} is {value!r}.", f"{field} must be a whole number from {low} to {high}.")


def without_implied(values: Mapping[str, Any], **always: Any) -> dict[str, Any]:
    """`values` without keys that are implied by a format, which the MASE labs write explicitly."""
    return {k: v for k, v in values.items() if k not in always or v is not always[k]}


def ascending(values: Any) -> Array:
    """Distinct float32 values in ascending order."""
    return np.unique(np.asarray(values, dtype=np.float32))


def by_rule(fmt: Format | None) -> Format | None:
    """The deterministic version of a format with stochastic rounding, for reproducible files."""
    if fmt is not None and fmt.stochastic and any(f.name == "stochastic" for f in fields(fmt)):
        return replace(fmt, stochastic=False)  # type: ignore[call-arg]
    return fmt
