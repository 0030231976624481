"""Texts of passes in the cells of reports, translated where they are shown; names stay as they are. Free of Qt."""

from __future__ import annotations

from espalier.app.translation import is_english, message, tr

# Columns and figures of reports that hold texts, besides those of targets of an export; others hold names, formats,
# paths and numbers.
TEXTS = frozenset((
    "about", "arithmetic", "balance", "before", "blocked", "gains", "host", "kind", "length_from", "line", "note",
    "notes", "problem", "remark", "role", "skipped", "trains", "values", "warning", "why",
))  # fmt: skip
LEADS = ("float", "kept", "folded, not unrolled")  # what stands before a colon; others are names of nodes


def has_texts(column: str) -> bool:
    """Whether a column of a report holds texts."""
    from espalier.passes.export.targets import TARGETS

    return column in TEXTS or column in TARGETS


def cell_text(column: str, value: str) -> str:
    """The translation of a text in a column of a report; in other columns the value."""
    return value if is_english() or not value or not has_texts(column) else reason(value)


def reason(text: str) -> str:
    """The translation of a finished text such as `conv1: it is an output of the model`, but for the name of the node.

    Parts that are separated by semicolons are translated each, unless the whole text has a translation.
    """
    if is_english():
        return text
    head, colon, rest = text.partition(": ")
    if colon and (head in LEADS or " " not in head):
        return f"{tr(head) if head in LEADS else head}: {reason(rest)}"
    shown = message(text)
    return "; ".join(map(reason, text.split("; "))) if shown == text and "; " in text else shown
