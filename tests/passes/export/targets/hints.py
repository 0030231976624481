"""What the hint for rows that groups do not divide names, as formats."""

from __future__ import annotations

import re


def choices(hint: str, text: str) -> list[str]:
    """Each choice of a hint about the format `text`, for rows of 20 values."""
    name = text.partition("(")[0]
    other = {"block that divides": f"{name}(block=10)", "group that divides": text.replace("16", "10", 1),
             "granularity=channel": text.replace("granularity=group,group=16", "granularity=channel")}  # fmt: skip
    named: list[str] = re.findall(r"[a-z]\w+\([^)]*\)|block that divides|group that divides|granularity=channel", hint)
    assert named
    return [other.get(wish, wish) for wish in named]
