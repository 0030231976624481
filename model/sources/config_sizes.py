"""Sizes that a configuration of a stranger may ask for: transformers builds one layer after another, without end."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from espalier.model.errors import SourceError

# Counts of what is built one by one, with the most of each; the largest of known models have some hundred layers.
COUNTS: tuple[tuple[re.Pattern[str], int], ...] = (
    (re.compile(r"layers?$|^depths?$|blocks?$|stages?$|^n_layer|^num_.*layers"), 10_000),
    (re.compile(r"experts?$"), 100_000),
    (re.compile(r"^num_labels$|classes$"), 1 << 20),
)
LARGEST = 1 << 40  # of any other whole number
DEEPEST = 20  # configurations within configurations


def check_sizes(config: Mapping[str, Any]) -> None:
    """Raise SourceError where a number of a configuration is larger than any model has."""
    for key, value in _numbers(config, DEEPEST):
        most = next((most for pattern, most in COUNTS if pattern.search(key)), LARGEST)
        if value > most:
            raise SourceError(f"The configuration asks for {key} = {value}.", f"Open a model with at most {most}.")


def _numbers(config: Mapping[str, Any], depth: int) -> Iterator[tuple[str, int]]:
    """Each key with its whole number, or with the sum of its list of them."""
    for key, value in config.items():
        if isinstance(value, bool):
            continue
        if isinstance(value, int):
            yield str(key), value
        elif isinstance(value, list | tuple) and value and all(type(v) is int for v in value):
            yield str(key), max(sum(value), max(value))
        elif isinstance(value, Mapping) and depth:
            yield from _numbers(value, depth - 1)
