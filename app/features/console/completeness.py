"""Whether a text of Python is complete, and how its next line is indented. Free of Qt."""

from __future__ import annotations

import codeop
import warnings

LONGEST = 100_000  # characters; a longer text was pasted whole
INDENT = "    "


def is_complete(text: str) -> bool:
    """Whether Enter runs the text: it is whole, or wrong in a way that more lines do not mend.

    A block ends with an empty line, as in the interactive interpreter.
    """
    if len(text) > LONGEST:
        return True
    lines = text.split("\n")
    if len(lines) > 1 and lines[-1].strip() and lines[-1][:1] in " \t":
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return codeop.compile_command(text, "<console>", "exec") is not None
    except (SyntaxError, ValueError, OverflowError, MemoryError, RecursionError):
        return True


def next_indent(text: str) -> str:
    """The indentation of the line after a text."""
    last = text.rpartition("\n")[2]
    own = last[: len(last) - len(last.lstrip())]
    if last.rstrip().endswith(":"):
        return own + INDENT
    if last.strip().split(" ")[0] in ("return", "pass", "break", "continue", "raise"):
        return own[: -len(INDENT)] if own.endswith(INDENT) else own
    return own
