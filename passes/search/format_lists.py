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

MAX_FORMATS = 500  # of one choice
MAX_COMBINATIONS = 50_000  # of parameters, invalid ones included
FLOAT = "float"
ALWAYS_WRITTEN = ("width", "element", "levels")  # parameters that tell formats of a family apart
_CALL = re.compile(r"([A-Za-z_]\w*)\s*\((.*)\)", re.S)


def formats_of(text: str, where: str = "values") -> tuple[str, ...]:
    """The distinct formats that `text` lists, as text (`float`: none); raises OptionsError that names `where`."""
    formats: list[str] = []
    for part in filter(None, (p.strip() for p in comma_parts(text))):
        formats += _family(part, where)
        if len(formats) > MAX_FORMATS:
            raise OptionsError(f"{where} lists {len(formats)} formats.", f"List at most {MAX_FORMATS}.")
    if not formats:
        raise OptionsError(f"{where}: no format is listed.", "Write integer(width=4|8), mxint, float or all.")
    return tuple(dict.fromkeys(formats))


def _family(part: str, where: str) -> Iterator[str]:
    if part.lower() == "all":
        from espalier.passes.analysis.format_sqnr import usual_formats

        yield from (unfitted_text(f) for f in usual_formats())
        return
    if part.lower() in (FLOAT, "none"):
        yield FLOAT
        return
    errors: list[EspalierError] = []
    valid = False
    for written in _product(part):
        try:
            yield format_text(written)
            valid = True
        except EspalierError as error:
            errors.append(error)
    if errors and ("|" not in part or not valid):  # invalid members of a family are left out
        raise OptionsError(f"{where}: {errors[0].message}", errors[0].hint) from errors[0]


def _product(part: str) -> Iterator[str]:
    """`name(a=1|2, b=3)` → `name(a=1, b=3)`, `name(a=2, b=3)`."""
    match = _CALL.fullmatch(part.strip())
    if match is None:
        yield part
        return
    name, inner = match.groups()
    pairs = [p.partition("=") for p in comma_parts(inner) if p.strip()]
    if prod(values.count("|") + 1 for _, _, values in pairs) > MAX_COMBINATIONS:
        raise OptionsError(f"{name} lists too many formats.", f"List at most {MAX_FORMATS}.")
    rows = [[f"{key.strip()}{equals}{v.strip()}" for v in values.split("|")] for key, equals, values in pairs]
    yield from (f"{name}({', '.join(row)})" for row in itertools.product(*rows))


def format_text(written: str) -> str:
    """The format with its non-default parameters; its binary point or bias only if it was written."""
    fmt = parse_format(written)
    keep = {fmt.shift} & _keys(written)
    values = {f.name: getattr(fmt, f.name) for f in fields(fmt)}
    changed = [n for n in (f.name for f in fields(fmt) if values[f.name] != f.default) if n != fmt.shift or n in keep]
    inner = ", ".join(f"{n}={values[n]}" for n in dict.fromkeys([*ALWAYS_WRITTEN, *changed, *keep]) if n in values)
    return f"{fmt.name}({inner})" if inner else fmt.name


def _keys(written: str) -> set[str | None]:
    match = _CALL.fullmatch(written.strip())
    return {p.partition("=")[0].strip() for p in comma_parts(match.group(2))} if match else set()


def unfitted_text(fmt: Format) -> str:
    """The format as text without its binary point or bias."""
    if fmt.shift is None:
        return format_text(str(fmt))
    inner = ", ".join(f"{k}={v}" for k, v in parameters(fmt).items() if k != fmt.shift)
    return format_text(f"{fmt.name}({inner})")


def is_unfitted(text: str) -> bool:
    """Whether a format has a binary point or exponent bias that the text leaves open."""
    fmt = parse_format(text) if text != FLOAT else None
    return fmt is not None and fmt.shift is not None and fmt.shift not in _keys(text)


def format_of(text: str | None) -> Format | None:
    """The format of a text; None: float."""
    return None if text in (None, FLOAT) else parse_format(text)
