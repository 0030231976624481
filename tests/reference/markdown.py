"""Pieces of Markdown and of option types that several generated pages share."""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Iterable, Sequence
from typing import Any, Literal, get_args, get_origin

from espalier.model.document.codec import hints

GENERATED = "*This page is generated from the code by `python -m tests.reference`.*"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table; bars inside cells are escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(c) for c in line) + " |" for line in lines)


def _cell(value: object) -> str:
    return re.sub(r"\s+", " ", str(value)).replace("|", "\\|").strip()


def sentence(text: str) -> str:
    """On one line, with a full stop."""
    text = re.sub(r"\s+", " ", text).strip()
    return text + ("" if text.endswith((".", "…")) or not text else ".")


def kind_text(kind: Any) -> str:
    """An option's type as a person reads it."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return ", ".join(f"`{v}`" for v in inner)
    if origin in (typing.Union, types.UnionType):
        some = [k for k in inner if k is not type(None)]
        return " or ".join(map(kind_text, some)) + (" or none" if len(some) < len(inner) else "")
    if origin in (tuple, list):
        return f"list of {kind_text(inner[0])}" if inner else "list"
    if origin is not None and inner and len(inner) == 2:
        return f"{kind_text(inner[0])} → {kind_text(inner[1])}"
    plain = {bool: "yes or no", int: "whole number", float: "number", str: "text"}
    return plain.get(kind) or getattr(kind, "__name__", str(kind))


def default_words(field: dataclasses.Field[Any]) -> str:
    """An option's default."""
    if field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
        return "empty" if isinstance(value, list | tuple | dict) and not value else f"`{_shown(value)}`"
    if field.default is dataclasses.MISSING:
        return "required"
    return "empty" if field.default in ("", ()) else f"`{_shown(field.default)}`"


def _shown(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case None:
            return "none"
        case tuple() | list():
            return ", ".join(map(_shown, value))
        case _:
            return str(value)


def options_table(options: type) -> str:
    """The fields of an options dataclass."""
    kinds, rows = hints(options), list[list[str]]()
    for field in dataclasses.fields(options):
        known = field.metadata
        text = sentence(str(known.get("help", "")))
        low, high = known.get("min"), known.get("max")
        if low is not None or high is not None:
            text += f" Range: {'' if low is None else low} … {'' if high is None else high}."
        rows.append([f"`{field.name}`", kind_text(kinds[field.name]), default_words(field), text])
    return table(("option", "type", "default", "meaning"), rows)


def structures(options: Iterable[type]) -> list[type]:
    """Dataclasses that occur inside options, each once."""
    found: list[type] = []

    def look(kind: Any) -> None:
        for inner in get_args(kind):
            look(inner)
        if dataclasses.is_dataclass(kind) and isinstance(kind, type) and kind not in found:
            found.append(kind)
            fields(kind)

    def fields(kind: type) -> None:
        if not getattr(kind, "__abstractmethods__", None):
            for value in hints(kind).values():
                look(value)

    for one in options:
        fields(one)
    return found


def page(title: str, about: str, *parts: str) -> str:
    """A generated page."""
    return "\n\n".join([f"# {title}", about, GENERATED, *(p for p in parts if p)]) + "\n"
