"""The last states of the history of edits with their figures, for the traces of the score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from espalier.app.translation import tr

if TYPE_CHECKING:
    from espalier.app.session.measures import Measures
    from espalier.model.document.document import Document, State

LONGEST = 12  # states in a trace
START = tr("Before these edits")


@dataclass(frozen=True, slots=True)
class Position:
    """A state of the history: how many edits are done there, the last of them, and the figures that are known."""

    count: int
    label: str
    accuracy: float | None
    size_bytes: float | None
    weight_bits: float | None


def positions_of(document: Document, measures: Measures) -> tuple[tuple[Position, ...], int]:
    """The last states of the history, undone ones included, and the index of the present one.

    Edits that change no recipe, such as those of pins, are left out. A figure that is not measured is None.
    """
    edits, done = document.history
    states: list[tuple[int, str, State]] = [(0, START, edits[0].before if edits else document.present)]
    for count, edit in enumerate(edits, 1):
        if edit.after.recipe != states[-1][2].recipe:
            states.append((count, edit.label, edit.after))
    present = max(i for i, (count, _, _) in enumerate(states) if count <= done)
    first = max(0, min(present, len(states) - LONGEST))
    shown = states[first : first + LONGEST]
    return tuple(_position(*state, measures) for state in shown), present - first


def _position(count: int, label: str, state: State, measures: Measures) -> Position:
    score = measures.score(state.graph, state.recipe)
    return Position(count, label, score.accuracy, score.size_bytes, score.weight_bits)
