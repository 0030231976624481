"""A condition on free sizes that the model's code tested when it was traced."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SIGNS = {"<=": "≤", ">=": "≥", "<": "<", ">": ">", "==": "=", "!=": "≠"}


@dataclass(frozen=True, slots=True)
class SizeLimit:
    """A condition between sizes ("batch<=5"), and the file and line of the code that tests it ("net.py:7")."""

    condition: str
    source: str = ""

    @property
    def range(self) -> str:
        """The condition as text: "batch ≤ 5"."""
        return re.sub(r"(<=|>=|==|!=|<|>)", lambda m: f" {_SIGNS[m[0]]} ", self.condition)

    @property
    def reason(self) -> str:
        """Where the limit comes from."""
        return f"the model's code tests this size ({self.source})" if self.source else "the exported program says so"
