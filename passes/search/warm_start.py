"""What a study tries first, before its sampler knows anything."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from espalier.passes.search.space import Choice, Space


def uniform(space: Space, count: int) -> Iterator[dict[str, Any]]:
    """`count` configurations in which all choices stand equally high, from the cheapest to the dearest."""
    for i in range(count):
        level = i / (count - 1) if count > 1 else 1.0
        everything = {c.name: _at(c, level) for c in space.choices}
        yield {c.name: everything[c.name] for c in space.active(everything)}


def _at(choice: Choice, level: float) -> Any:
    if choice.values:
        return choice.values[round(level * (len(choice.values) - 1))] if choice.ordered else choice.values[0]
    assert choice.low is not None and choice.high is not None
    if choice.log:
        value = math.exp(math.log(choice.low) + level * (math.log(choice.high) - math.log(choice.low)))
    else:
        value = choice.low + level * (choice.high - choice.low)
    value = min(max(value, choice.low), choice.high)
    return round(value) if choice.whole else value
