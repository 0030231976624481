"""The formats of a search as families with values of their parameters, from and to text."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace

from espalier.model.errors import OptionsError, nearest
from espalier.model.formats.base import Format
from espalier.model.patterns import comma_parts
from espalier.model.registry import FORMATS

FLOAT, ALL = "float", "all"
WIDTHS = ("2", "3", "4", "5", "6", "8", "12", "16")
ELEMENTS = ("e2m1", "e2m3", "e3m2", "e4m3", "e5m2")
BEGIN: dict[str, str] = {"width": "4|6|8", "element": "e2m1|e4m3", "levels": "1|2"}  # initial values of a new family
_CALL = re.compile(r"([\w ]+)(?:\((.*)\))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Family:
    """One format with the values of its parameters, as text: `integer`, (("width", ("4", "8")),)."""

    name: str
    values: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def __str__(self) -> str:
        inner = ", ".join(f"{k}={'|'.join(v)}" for k, v in self.values)
        return f"{self.name}({inner})" if inner else self.name

    def get(self, parameter: str) -> tuple[str, ...]:
        """The values of a parameter; empty for its default."""
        return dict(self.values).get(parameter, ())

    def put(self, parameter: str, texts: tuple[str, ...]) -> Family:
        """The family with new values of a parameter."""
        values = {**dict(self.values), parameter: texts}
        return replace(self, values=tuple((k, v) for k, v in values.items() if v))

    @property
    def rest(self) -> str:
        """The parameters without chips, as text."""
        return ", ".join(f"{k}={'|'.join(v)}" for k, v in self.values if k != chip_parameter(self.name))


def read(text: str) -> tuple[Family, ...]:
    """The families in `integer(width=4|8), mxint`; raises OptionsError."""
    return tuple(_family(part) for part in comma_parts(text) if part.strip())


def write(families: tuple[Family, ...]) -> str:
    """The inverse of `read`."""
    return ", ".join(map(str, families))


def _family(text: str) -> Family:
    match = _CALL.fullmatch(text.strip())
    name = match.group(1).strip().replace(" ", "_") if match else ""
    if match is None or not (name in (FLOAT, ALL) or name in FORMATS):
        raise OptionsError(f"{text.strip()!r} is not a format.", nearest(name or text.strip(), [FLOAT, ALL, *FORMATS]))
    return Family(name, parameters(match.group(2) or "", name))


def parameters(text: str, name: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """`width=4|8, frac_width=2` → (("width", ("4", "8")), …); raises OptionsError."""
    pairs: list[tuple[str, tuple[str, ...]]] = []
    allowed = {f.name for f in fields(FORMATS.get(name))} if name in FORMATS else set[str]()
    for part in filter(str.strip, text.split(",")):
        key, equals, values = (p.strip() for p in part.partition("="))
        if not equals or not values:
            raise OptionsError(f"{part.strip()!r} is not key=value.", f"Write {name}(width=4|8).")
        if key not in allowed:
            raise OptionsError(f"{name} has no {key!r}.", nearest(key, allowed))
        pairs.append((key, tuple(v.strip() for v in values.split("|") if v.strip())))
    return tuple(pairs)


def chip_parameter(name: str) -> str:
    """The parameter of a format with chips: its width or an equivalent; empty without one."""
    if name not in FORMATS:
        return ""
    names = [f.name for f in fields(FORMATS.get(name))]
    return next((p for p in ("width", "element", "levels") if p in names), "")


def chips(name: str) -> tuple[str, ...]:
    """The values of a format's chips, within its range."""
    parameter = chip_parameter(name)
    if parameter == "element":
        return ELEMENTS
    if not parameter:
        return ()
    cls: type[Format] = FORMATS.get(name)
    about = next(f.metadata for f in fields(cls) if f.name == parameter)
    low, high = about.get("min", 1), about.get("max", 64)
    wished = ("1", "2", "3") if parameter == "levels" else WIDTHS
    return tuple(w for w in wished if low <= int(w) <= high)


def begun(name: str) -> Family:
    """A new family with initial values."""
    wished = BEGIN.get(chip_parameter(name), "").split("|")
    able = tuple(w for w in wished if w in chips(name))
    return Family(name, ((chip_parameter(name), able),) if able else ())
