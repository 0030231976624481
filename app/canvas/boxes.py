"""Names of what a layout holds: boxes that can be moved, frames around nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["node", "group", "fold"]


@dataclass(frozen=True, slots=True)
class Item:
    """A box that can be moved: a node, a collapsed group or a fold, by its index in the layout."""

    kind: Kind
    place: int


@dataclass(frozen=True, slots=True)
class OwnFrame:
    """A frame that a person has put around nodes. `number`: its place in the arrangement; `colour`: one of tags."""

    number: int
    rect: tuple[float, float, float, float]
    title: str
    colour: str
    tab: tuple[float, float, float, float]  # the part that holds the title
