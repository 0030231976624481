"""What a person writes on a node: a title, a note, a colour. It changes nothing that the model computes."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Literal, get_args

from espalier.model.errors import OptionsError

Colour = Literal["", "red", "orange", "yellow", "green", "blue", "purple", "grey"]
COLOURS: tuple[Colour, ...] = get_args(Colour)
MUTED = "identity"  # operation of a muted node
LONGEST_TITLE, LONGEST_NOTE = 80, 4000  # characters: a file may hold anything
_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")  # let a text read as another

_CONTROL = ("Cc", "Cs", "Zl", "Zp")
_UNSEEN = frozenset("\u115f\u1160\u2800\u3164\uffa0")  # letters and symbols that are drawn as nothing


@dataclass(frozen=True, slots=True)
class Annotation:
    """`title` is shown in place of the node's own name, `note` as its tool tip, `colour` as a mark on its card.

    `muted`: an identity stands for the node for the time being, and its card says so. Raises OptionsError for texts
    that are too long, hold control characters, or have no character that can be seen.
    """

    title: str = ""
    note: str = ""
    colour: Colour = ""
    muted: bool = False

    def __post_init__(self) -> None:
        for name, text, longest, allowed in (("title", self.title, LONGEST_TITLE, ""),
                                             ("note", self.note, LONGEST_NOTE, "\n\t")):  # fmt: skip
            if len(text) > longest:
                raise OptionsError(f"The {name} has {len(text)} characters.", f"Write at most {longest}.")
            if any((unicodedata.category(c) in _CONTROL and c not in allowed) or c in _BIDI for c in text):
                raise OptionsError(f"The {name} holds a control character.", "Write plain text.")
            if text and not any(_seen(c) for c in text):
                raise OptionsError(f"The {name} has no character that can be seen.", "Write some, or leave it empty.")


def _seen(character: str) -> bool:
    """Whether a character is drawn by itself: no space, no mark on another, no format character or code without one."""
    return unicodedata.category(character)[0] not in "CMZ" and character not in _UNSEEN


PLAIN = Annotation()
