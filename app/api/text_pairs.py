"""Sources with targets in Python: lists of pairs, of dicts with columns, or two lists; also by split."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from espalier.model.data.base import ALL, LoadOptions, TaskData
from espalier.model.data.rows import SPLIT_NAMES, Rows
from espalier.model.data.text_pairs import SEQ2SEQ, SOURCES, TARGETS, pair_data
from espalier.model.errors import DataError
from espalier.model.sources.reading import Limits, Reading
from espalier.passes.running.data_fit import text_limit
from espalier.passes.tasks.base import recognised


def pairs_of(data: Any, reading: Reading) -> TaskData | None:
    """The tokenised texts for an encoder–decoder model; None for other models and data. Raises DataError."""
    rows = _by_split(data) if recognised(reading.limits) == SEQ2SEQ else {}
    if not rows:
        return None
    if not reading.tokenizer:
        raise DataError(
            "These are texts, and the model has no tokenizer.", "Give input_ids, attention_mask and labels."
        )
    limits = reading.limits or Limits()
    length = text_limit(0, reading, reading.tokenizer, SEQ2SEQ).tokens
    options = LoadOptions(tokenizer=reading.tokenizer, max_length=length, start=limits.start)
    return pair_data(rows, f"{type(data).__name__} in Python", options)


def _by_split(data: Any) -> dict[str, Rows]:
    if isinstance(data, Mapping):
        named = cast("Mapping[str, Any]", data)
        if not set(named) <= set(SPLIT_NAMES):
            return {}
        parts = {SPLIT_NAMES[key]: _rows(value) for key, value in named.items()}
        return {key: rows for key, rows in parts.items() if rows} if all(parts.values()) else {}
    rows = _rows(data)
    return {ALL: rows} if rows else {}


def _rows(data: Any) -> Rows | None:
    """The pairs of a list or of two lists; None for others."""
    if isinstance(data, tuple) and len(cast("tuple[Any, ...]", data)) == 2:
        first, second = cast("tuple[Any, Any]", data)
        if _texts(first) and _texts(second) and len(first) == len(second):
            return Rows(tuple(first), tuple(second))
    if not isinstance(data, list | tuple) or not data:
        return None
    pairs = [_pair(item) for item in cast("list[Any]", data)]
    if None in pairs:
        return None
    return Rows(tuple(p[0] for p in pairs if p), tuple(p[1] for p in pairs if p))


def _texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(v, str) for v in cast("list[Any]", value))


def _pair(item: Any) -> tuple[str, str] | None:
    if isinstance(item, Mapping):
        row = cast("Mapping[str, Any]", item)
        item = tuple(next((row[name] for name in names if name in row), None) for names in (SOURCES, TARGETS))
    is_pair = isinstance(item, tuple | list) and len(cast("tuple[Any, ...]", item)) == 2 and _texts(item)
    return cast("tuple[str, str]", tuple(cast("list[str]", item))) if is_pair else None
