"""Limits of sizes in untrusted configurations: transformers would build layers without limit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from espalier.model.errors import SourceError

# Limits of counts of modules that are built one by one; the largest known models have a few hundred layers.
COUNTS: tuple[tuple[re.Pattern[str], int], ...] = (
    (re.compile(r"layers?$|depths?$|blocks?$|stages?$|^n_layer|^num_.*layers|groups?$|_group_num$|loops$"), 10_000),
    (re.compile(r"experts?$"), 100_000),
    (re.compile(r"^num_labels$|classes$"), 1 << 20),
)
LARGEST = 1 << 40  # limit of any other integer
DEEPEST = 20  # largest depth of nested configurations


def check_sizes(config: Mapping[str, Any]) -> None:
    """Raise SourceError if a number of a configuration is larger than in any model."""
    for key, value in _numbers(config, DEEPEST):
        limit = next((limit for pattern, limit in COUNTS if pattern.search(key)), LARGEST)
        if value > limit:
            raise SourceError(f"The configuration asks for {key} = {value}.", f"Open a model with at most {limit}.")


def _numbers(config: Mapping[str, Any], depth: int) -> Iterator[tuple[str, int]]:
    """(key, integers) of a configuration; lists of depths also with their sum."""
    for key, value in config.items():
        if isinstance(value, bool):
            continue
        if isinstance(value, int):
            yield str(key), value
        elif isinstance(value, list | tuple) and depth:
            numbers = [v for v in value if type(v) is int]
            if numbers:
                yield str(key), sum(numbers) if str(key).startswith("depth") else max(numbers)
            parts = {str(i): v for i, v in enumerate(value) if isinstance(v, list | tuple | Mapping)}
            yield from ((str(key) if k.isdigit() else k, n) for k, n in _numbers(parts, depth - 1))
        elif isinstance(value, Mapping) and depth:
            yield from _numbers(value, depth - 1)
