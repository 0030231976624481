"""Choice of the text and label columns: given by the user, or guessed from common names."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence

from espalier.model.errors import DataError


class ColumnError(DataError):
    """The data have no column of the requested name."""


TEXT_NAMES = ("text", "sentence", "review", "content", "comment", "body", "document", "tweet", "message")
LABEL_NAMES = ("label", "sentiment", "class", "target", "category", "polarity", "labels", "coarse_label")


def choose_columns(
    columns: Sequence[str], text: str | None, label: str | None, source: str, texts: Sequence[str] = (),
    labels: Sequence[str] = (),
) -> tuple[str, str]:  # fmt: skip
    """(text column, label column), by common names, those of the task first; raises DataError listing the columns."""
    chosen = (
        one_of(columns, text, (*texts, *TEXT_NAMES), "--text", source),
        one_of(columns, label, (*labels, *LABEL_NAMES), "--label", source),
    )
    if list(columns).count(chosen[0]) > 1 or list(columns).count(chosen[1]) > 1:
        raise DataError(f"Two columns of {source} have the same name: {', '.join(columns)}.", "Rename one of them.")
    if chosen[0] == chosen[1]:
        raise DataError(f"Text and label of {source} are both {chosen[0]!r}.", "Name two columns.")
    return chosen


def one_of(columns: Sequence[str], wanted: str | None, common: Sequence[str], option: str, source: str) -> str:
    """The wanted column, or the first with a common name; raises DataError listing the columns, a ColumnError if
    `wanted` is not among them."""
    by_name = {column.strip().lower(): column for column in reversed(columns)}
    for name in (wanted,) if wanted is not None else common:
        if name.strip().lower() in by_name:
            return by_name[name.strip().lower()]
    there = f"It has: {', '.join(columns)}."
    if wanted is None:
        raise DataError(f"No column of {source} looks like the {option[2:]}.", f"{there} Name it with {option}.")
    near = difflib.get_close_matches(wanted.lower(), by_name, n=1, cutoff=0.5)
    nearest = f" Did you mean {by_name[near[0]]!r}?" if near else ""
    raise ColumnError(f"{source} has no column {wanted!r}.", there + nearest)


def looks_like_header(cells: Sequence[str], below: Sequence[Collection[str]], named: Sequence[str | None]) -> bool:
    """Whether the first row is a header: it has a known name, or no cell that is a number or recurs in its column."""
    names = {cell.strip().lower() for cell in cells}
    if names & {*TEXT_NAMES, *LABEL_NAMES, *(name.strip().lower() for name in named if name and not name.isdigit())}:
        return True
    recurs = any(cell in column for cell, column in zip(cells, below, strict=True))
    return not recurs and not any(cell.strip().lstrip("-").isdigit() for cell in cells)
