"""Number formats as a space lists them: `integer(width=4|8, frac_width=2|4)` is four formats, `all` is every one."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import fields
from math import prod

from espalier.model.errors import EspalierError, OptionsError
from espalier.model.formats.base import Format, parameters, parse_format
from espalier.model.patterns import comma_parts

MOST = 500  # formats of one choice; more is a slip
MOST_WRITTEN = 50_000  # combinations of parameters, those that no format has included
FLOAT = "float"
TELLING = ("width", "element", "levels")  # what tells formats of a family apart is written even where it is the default
_CALL = re.compile(r"([A-Za-z_]\w*)\s*\((.*)\)", re.S)


def formats_of(text: str, where: str = "values") -> tuple[str, ...]:
    """The formats that `text` lists, each once, as text (`float`: none); raises OptionsError that says `where`."""
    found: list[str] = []
    for part in filter(None, (p.strip() for p in comma_parts(text))):
        found += _family(part, where)
        if len(found) > MOST:
            raise OptionsError(f"{where}: that is {len(found)} formats.", f"List at most {MOST}.")
    if not found:
        raise OptionsError(f"{where}: no format is listed.", "Write integer(width=4|8), mxint, float or all.")
    return tuple(dict.fromkeys(found))


def _family(part: str, where: str) -> Iterator[str]:
    if part.lower() == "all":
        from espalier.passes.analysis.format_sqnr import usual_formats

        yield from (unfitted_text(f) for f in usual_formats())
        return
    if part.lower() in (FLOAT, "none"):
        yield FLOAT
        return
    faults: list[EspalierError] = []
    known = False
    for written in _product(part):
        try:
            yield format_text(written)
            known = True
        except EspalierError as error:
            faults.append(error)
    if faults and ("|" not in part or not known):  # of a family, what cannot be is left out
        raise OptionsError(f"{where}: {faults[0].message}", faults[0].hint) from faults[0]


def _product(part: str) -> Iterator[str]:
    """`name(a=1|2, b=3)` → `name(a=1, b=3)`, `name(a=2, b=3)`."""
    match = _CALL.fullmatch(part.strip())
    if match is None:
        yield part
        return
    name, inner = match.groups()
    given = [p.partition("=") for p in comma_parts(inner) if p.strip()]
    if prod(values.count("|") + 1 for _, _, values in given) > MOST_WRITTEN:
        raise OptionsError(f"{name} lists too many formats.", f"List at most {MOST}.")
    rows = [[f"{key.strip()}{equals}{v.strip()}" for v in values.split("|")] for key, equals, values in given]
    yield from (f"{name}({', '.join(row)})" for row in itertools.product(*rows))


def format_text(written: str) -> str:
    """The format in short: what is not as by default; the place of its range only where it was written."""
    fmt = parse_format(written)
    keep = {fmt.shift} & _keys(written)
    held = {f.name: getattr(fmt, f.name) for f in fields(fmt)}
    odd = [n for n in (f.name for f in fields(fmt) if held[f.name] != f.default) if n != fmt.shift or n in keep]
    inner = ", ".join(f"{n}={held[n]}" for n in dict.fromkeys([*TELLING, *odd, *keep]) if n in held)
    return f"{fmt.name}({inner})" if inner else fmt.name


def _keys(written: str) -> set[str | None]:
    match = _CALL.fullmatch(written.strip())
    return {p.partition("=")[0].strip() for p in comma_parts(match.group(2))} if match else set()


def unfitted_text(fmt: Format) -> str:
    """The format as text, the place of its range left open."""
    if fmt.shift is None:
        return format_text(str(fmt))
    inner = ", ".join(f"{k}={v}" for k, v in parameters(fmt).items() if k != fmt.shift)
    return format_text(f"{fmt.name}({inner})")


def is_unfitted(text: str) -> bool:
    """Whether a format's binary point or exponent bias is left to be chosen from the values."""
    fmt = parse_format(text) if text != FLOAT else None
    return fmt is not None and fmt.shift is not None and fmt.shift not in _keys(text)


def format_of(text: str | None) -> Format | None:
    """The format of a value; None: float."""
    return None if text in (None, FLOAT) else parse_format(text)
