"""Completions of the word before the cursor: names, attributes, arguments of a call, and ids of nodes in a text."""

from __future__ import annotations

import inspect
import re
import rlcompleter
from collections.abc import Callable, Iterable
from typing import Any

WORD = re.compile(r"[A-Za-z_][\w.]*$")
IN_TEXT = re.compile(r"""["']([\w.]*)$""")
CALL = re.compile(r"([A-Za-z_][\w.]*)\(([^()]*)$")
MOST = 200  # completions


def completions(text: str, namespace: dict[str, Any], node_ids: Callable[[], Iterable[str]]) -> tuple[int, list[str]]:
    """(length of the word, its completions); a word in quotes is completed as the id of a node."""
    if _in_quotes(text):
        word = match.group(1) if (match := IN_TEXT.search(text)) else ""
        return len(word), sorted(i for i in node_ids() if i.startswith(word))[:MOST] if match else []
    word = match.group() if (match := WORD.search(text)) else ""
    names = _arguments(text, word, namespace) if "." not in word else []
    if word:
        names += _names(word, namespace)
    return len(word), list(dict.fromkeys(names))[:MOST]


def _in_quotes(text: str) -> bool:
    """Whether the last line ends within a text."""
    line, quote = text.rpartition("\n")[2], ""
    for letter in line:
        if letter in "\"'" and (not quote or letter == quote):
            quote = "" if quote else letter
    return bool(quote)


def _names(word: str, namespace: dict[str, Any]) -> list[str]:
    completer = rlcompleter.Completer(namespace)
    try:
        matches = completer.attr_matches(word) if "." in word else completer.global_matches(word)
    # Values of the user: their attributes may raise anything.
    except Exception:  # noqa: BLE001
        return []
    plain = [m.rstrip("()").rstrip() for m in matches]
    hidden = word.rpartition(".")[2].startswith("_")
    return sorted(m for m in plain if hidden or not m.rpartition(".")[2].startswith("_"))


def _arguments(text: str, word: str, namespace: dict[str, Any]) -> list[str]:
    """The keyword arguments of the call around the word."""
    call = CALL.search(text)
    if call is None:
        return []
    value: Any = None
    try:
        head, *rest = call.group(1).split(".")
        value = namespace[head]
        for name in rest:
            value = getattr(value, name)
        parameters = inspect.signature(value).parameters.values()
    # Values of the user: their attributes and signatures may raise anything.
    except Exception:  # noqa: BLE001
        return []
    kinds = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    given = set(re.findall(r"(\w+)\s*=", call.group(2)))
    return [f"{p.name}=" for p in parameters if p.kind in kinds and p.name.startswith(word) and p.name not in given]
