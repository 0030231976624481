"""What a number format is: a frozen value that quantises, lists its codes and knows its exact bits.

Fast versions register from above in `FAST`; without one the plain definition runs.
torch is imported when a tensor arrives, never before: the window shows formats without it.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from model.errors import FormatError, nearest
from model.registry import FORMATS

if TYPE_CHECKING:
    from torch import Tensor

Array = NDArray[Any]
Fast = Callable[["Format", "Tensor"], "Tensor"]
FAST: dict[tuple[type[Format], str], Fast] = {}


@dataclass(frozen=True, slots=True)
class Format:
    """Base of all formats. Fields of a subclass are its parameters; NaN in → NaN out, ±inf saturates."""

    name: ClassVar[str]
    title: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    formula: ClassVar[str]
    source: ClassVar[str]

    @property
    @abstractmethod
    def bits(self) -> float:
        """Stored bits per element, shared fields included."""

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
    def encode(self, x: Array) -> Array:
        """Integer codes of `x` (float array, any shape); the inverse of `decode` on representable values."""

    @abstractmethod
    def decode(self, codes: Array) -> Array:
        """float32 values of integer codes."""

    @abstractmethod
    def codes(self) -> Array:
        """All representable values of one element, ascending, float32."""

    def forward(self, x: Tensor) -> Tensor:
        """`x` in this format without gradient: the fast version for x's device, or else `define`."""
        fast = FAST.get((type(self), x.device.type))
        return fast(self, x) if fast else self.define(x)

    def quantize(self, x: Tensor) -> Tensor:
        """`x` in this format, with the straight-through gradient (1 inside the range, 0 outside)."""
        from model.straight_through import straight_through

        return straight_through(self, x)

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


def make_format(name: str, values: dict[str, Any]) -> Format:
    """The format `name` with `values`; raises FormatError for unknown names, keys and impossible values."""
    cls = cast("type[Format]", FORMATS.get(name))
    known = {f.name: f for f in fields(cls)}
    for key in values:
        if key not in known:
            raise FormatError(f"{name} has no parameter {key!r}.", nearest(key, known))
    missing = [n for n, f in known.items() if f.default is MISSING and n not in values]
    if missing:
        raise FormatError(f"{name} needs {', '.join(missing)}.", f"Write {name}({missing[0]}=…).")
    return cls(**values)


_CALL = re.compile(r"^\s*([A-Za-z_]\w*)\s*(?:\((.*)\))?\s*$", re.S)


def parse_format(text: str) -> Format:
    """`integer(width=8, frac_width=4)` → Format; raises FormatError. Words may stand unquoted."""
    match = _CALL.match(text)
    if match is None:
        raise FormatError(
            f"{text!r} is not a format.", "Write name(key=value, …), e.g. integer(width=8, frac_width=4)."
        )
    name, inner = match.group(1), match.group(2) or ""
    return make_format(name, dict(_pairs(name, inner)))


def _pairs(name: str, inner: str) -> Iterator[tuple[str, Any]]:
    for part in filter(str.strip, inner.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise FormatError(f"{name}: {part.strip()!r} is not key=value.", f"Write {name}(key=value, …).")
        yield key.strip(), _literal(value.strip().strip("'\""))


def _literal(word: str) -> int | float | bool | str:
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word


def whole(fmt: str, field: str, value: object, low: int, high: int) -> None:
    """Raise FormatError unless `value` is an integer in low…high."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise FormatError(f"{fmt}: {field} is {value!r}.", f"{field} must be a whole number from {low} to {high}.")


def ascending(values: Any) -> Array:
    """Distinct float32 values in ascending order."""
    return np.unique(np.asarray(values, dtype=np.float32))
