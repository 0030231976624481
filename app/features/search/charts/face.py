"""What every chart of a study says of itself, plotted or painted: subclasses give what they have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from espalier.app.figures.study.data import Study


@dataclass(frozen=True, slots=True)
class Option:
    """What can be chosen of a chart in its head: one of `values`, or a switch where that is None."""

    name: str
    values: tuple[Any, ...] | None = None
    texts: tuple[str, ...] = ()
    hint: str = ""

    def offered(self, drawn: bool) -> bool:
        """Whether there is something to choose: no list without values, no switch while nothing is drawn."""
        return drawn if self.values is None else len(self.values) > (0 if drawn else 1)


class Face:
    """Options in the tile's head, words where there is nothing to draw, the legend."""

    study: Study

    def options(self) -> list[Option]:
        """What can be chosen in the head."""
        return []

    def option(self, name: str) -> Any:
        """What is chosen."""
        return None

    def choose(self, name: str, value: Any) -> None:
        """Choose another value of an option."""

    def empty(self) -> str:
        """Why there is nothing to draw, in words; empty where there is something."""
        return "" if len(self.study) else "No trial yet. The first one is drawn here as soon as it has ended."

    def legend(self) -> str:
        """The legend in words, as rich text."""
        return ""
