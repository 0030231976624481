"""What a person has arranged on the canvas: boxes put somewhere (pins) and frames around nodes. Undoable, and saved.

It changes nothing that is computed, and no part of the recipe.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, cast

from espalier.model.borders import parse_json, tried

if TYPE_CHECKING:
    from espalier.model.document.project import Project

MEMBER = "arrangement.json"  # of the project's file
Kind = Literal["node", "group", "fold"]
Flow = Literal["down", "right"]
LONGEST_TITLE = 120  # characters
FARTHEST = 1e7  # canvas units
DEFAULT_COLOUR = "blue"


@dataclass(frozen=True, slots=True)
class Pin:
    """A box that was put at (x, y), relative to the corner of the group around it, in layouts of one flow direction.

    `name`: a node's id, a group's path, or the paths of the first and the last group of a fold.
    """

    kind: Kind
    name: str
    x: float
    y: float
    flow: Flow = "down"

    @property
    def key(self) -> tuple[str, str, str]:
        """What it pins; one pin of each key is kept."""
        return self.kind, self.name, self.flow


@dataclass(frozen=True, slots=True)
class Frame:
    """A titled frame around nodes. `colour`: a name of the colours of tags."""

    title: str
    nodes: tuple[str, ...]
    colour: str = DEFAULT_COLOUR


@dataclass(frozen=True, slots=True)
class Arrangement:
    """All pins and frames of a document."""

    pins: tuple[Pin, ...] = ()
    frames: tuple[Frame, ...] = ()

    def with_pins(self, pins: Iterable[Pin]) -> Arrangement:
        """With these pins, which replace those of the same boxes."""
        new = {p.key: p for p in pins}
        return replace(self, pins=(*(p for p in self.pins if p.key not in new), *new.values()))

    def without_pins(self, keys: Collection[tuple[str, str, str]]) -> Arrangement:
        """Without the pins of these boxes."""
        return replace(self, pins=tuple(p for p in self.pins if p.key not in keys))

    def with_frame(self, frame: Frame, place: int | None = None) -> Arrangement:
        """With one more frame, or with another one at a place."""
        if place is None:
            return replace(self, frames=(*self.frames, frame))
        return replace(self, frames=(*self.frames[:place], frame, *self.frames[place + 1 :]))

    def without_frame(self, place: int) -> Arrangement:
        """Without a frame."""
        return replace(self, frames=(*self.frames[:place], *self.frames[place + 1 :]))


UNARRANGED = Arrangement()


def to_bytes(arrangement: Arrangement) -> bytes | None:
    """The member of the project's file; None where nothing is arranged."""
    if arrangement == UNARRANGED:
        return None
    return json.dumps(to_json(arrangement)).encode()  # as ASCII: UTF-8 has no lone surrogates, which names may have


def from_bytes(data: bytes | None) -> Arrangement:
    """The arrangement in a member of the project's file; what cannot be read is left out."""
    return from_json(tried(lambda: parse_json((data or b"{}").decode()), None))


def arrangement_of(project: Project) -> Arrangement:
    """The arrangement that a project keeps."""
    return from_bytes(project.extras.get(MEMBER))


def to_json(arrangement: Arrangement) -> dict[str, object]:
    """The pins and frames as plain JSON."""
    pins = [{"kind": p.kind, "name": p.name, "at": [p.x, p.y], "flow": p.flow} for p in arrangement.pins]
    frames = [{"title": f.title, "nodes": list(f.nodes), "colour": f.colour} for f in arrangement.frames]
    return {"pins": pins, "frames": frames}


def from_json(value: object) -> Arrangement:
    """The arrangement of plain JSON; what cannot be read is left out."""
    if not isinstance(value, dict):
        return UNARRANGED
    entries = cast("dict[str, object]", value)
    pins = [pin for entry in _items(entries.get("pins")) if (pin := _pin(entry)) is not None]
    frames = tuple(frame for entry in _items(entries.get("frames")) if (frame := _frame(entry)) is not None)
    return Arrangement(frames=frames).with_pins(pins)


def shortened(title: str) -> str:
    """A title of one line, without control and formatting characters, of at most LONGEST_TITLE characters."""
    return "".join(c for c in " ".join(title[: 4 * LONGEST_TITLE].split()) if c.isprintable())[:LONGEST_TITLE]


def _items(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _pin(entry: object) -> Pin | None:
    match entry:
        case {"kind": ("node" | "group" | "fold") as kind, "name": str(name), "at": [x, y],
              "flow": ("down" | "right") as flow} if _is_place(x) and _is_place(y):  # fmt: skip
            return Pin(cast("Kind", kind), name, float(cast("float", x)), float(cast("float", y)), cast("Flow", flow))
        case _:
            return None


def _is_place(value: object) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(cast("float", value)) and abs(cast("float", value)) <= FARTHEST


def _frame(entry: object) -> Frame | None:
    match entry:
        case {"title": str(title), "nodes": list(nodes), "colour": str(colour)}:
            ids = tuple(n for n in cast("list[object]", nodes) if isinstance(n, str))
            return Frame(shortened(title), ids, colour) if ids else None
        case _:
            return None
