"""Texts of the window in the language of the user: English texts are the keys. Free of Qt.

The catalogue is installed before any module of the window is imported, as constants hold translated texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from string import Formatter
from typing import Any, TypeVar

from espalier.model.errors import EspalierError

T = TypeVar("T")
Lookup = Callable[[str, int], str]  # (English text, a number for plural forms or -1) → the translation; empty: none

BETWEEN = re.compile(r"(?<=[.?!]) ")  # sentences
MOST = 5000  # texts remembered: also those of messages that are shown once
_lookup: Lookup | None = None
_patterns: tuple[str, ...] = ()  # English messages of the layers below, with places
_shown: dict[str, str] = {}
_english: dict[str, str] = {}


def install(lookup: Lookup | None, messages: Iterable[str] = ()) -> None:
    """Translate by `lookup` from now on; None: English. `messages`: patterns of `message`, with {} for their values."""
    global _lookup, _patterns
    _lookup, _patterns = lookup, tuple(sorted((m for m in messages if is_pattern(m)), key=len, reverse=True))
    _shown.clear()
    _english.clear()
    _message.cache_clear()


def is_english() -> bool:
    """Whether no catalogue is installed."""
    return _lookup is None


def tr(text: str, *values: object) -> str:
    """The translation of an English text, with `values` in its places.

    Places are those of str.format, without names: `{}`, `{:.2f}`, `{0:.{1}f}`. A translation may change their order;
    one whose places differ otherwise is ignored. Without values, braces stay as they are.
    """
    shown = text if _lookup is None else _shown.get(text) or _translated(text)
    return shown.format(*values) if values else shown


def translated(value: T) -> T:
    """A constant with its texts translated: those of tuples and lists, and the values of dicts, but not their keys."""
    found: Any = value
    if isinstance(value, str):
        found = tr(value)
    elif isinstance(value, dict):
        found = {k: translated(v) for k, v in value.items()}
    elif isinstance(value, tuple | list):
        found = type(value)(translated(v) for v in value)
    return found


def numerus(text: str, number: int) -> str:
    """The translated form of `text` for a number, with `%n` in the place of the number; empty without translation."""
    return "" if _lookup is None else _lookup(text, number)


def message(text: str) -> str:
    """The translation of a finished message, such as an error of the core: by the whole text, else by its pattern."""
    return text if _lookup is None or not text else _message(text)


@lru_cache(maxsize=1000)
def _message(text: str) -> str:
    shown = tr(text)
    if shown != text or text in _english:
        return shown
    sentences = BETWEEN.split(text)  # a message and its hint on one line
    for pattern in _patterns:
        values = values_of(pattern, text)
        if values is not None and (len(sentences) == 1 or not any(map(BETWEEN.search, values))):
            return tr(pattern, *values)
    if len(sentences) > 1:
        return " ".join(map(message, sentences))
    option, colon, rest = text.partition(": ")  # `learning rate: 2 is out of range.`
    return f"{tr(option)}: {message(rest)}" if colon else text


def error_text(error: object) -> str:
    """The message of an error with its hint, translated."""
    if isinstance(error, EspalierError):
        return f"{message(error.message)} {message(error.hint)}".strip()
    return message(str(error))


def is_pattern(text: str) -> bool:
    """Whether a text has places, and enough beside them to be recognised by."""
    return "{}" in text and len(text.replace("{}", "").strip()) > 3


def values_of(pattern: str, text: str) -> list[str] | None:
    """The values of a text that was made from a pattern with the places `{}`; None for another text.

    Each place takes as little as possible, without going back: linear in the length of the text.
    """
    first, *parts = pattern.split("{}")
    if not parts or not text.startswith(first) or not text.endswith(parts[-1]):
        return None
    values: list[str] = []
    at, end = len(first), len(text) - len(parts[-1])
    for part in parts[:-1]:
        found = text.find(part, at, end)
        if found < 0:
            return None
        values.append(text[at:found])
        at = found + len(part)
    return [*values, text[at:end]] if at <= end else None


def english(shown: str) -> str:
    """The English text of a translated one without values; other texts unchanged."""
    return _english.get(shown, shown)


def _translated(text: str) -> str:
    assert _lookup is not None
    if not text or text in _english:  # translated before
        return text
    shown = _lookup(text, -1) or text
    if places(shown) != places(text):
        shown = text
    if len(_shown) < MOST:
        _shown[text] = shown
        if shown != text:
            _english[shown] = text
    return shown


def places(text: str) -> frozenset[tuple[int, str, str]] | None:
    """The places of a text for values: (index, conversion, format specification); None if they are not valid."""
    found: list[tuple[int, str, str]] = []
    counter = 0

    def index(name: str) -> int:
        nonlocal counter
        if name:
            return int(name)  # attributes and keys are refused
        counter += 1
        return counter - 1

    try:
        for _, name, spec, conversion in Formatter().parse(text):
            if name is not None:
                at = index(name)
                inner = [index(n) for _, n, _, _ in Formatter().parse(spec or "") if n is not None]
                literal = re.sub(r"\{\d*\}", "*", spec or "")
                found.append((at, conversion or "", f"{literal} {inner}"))
    except ValueError:
        return None
    return frozenset(found)
