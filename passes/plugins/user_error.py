"""What a user's code raises, as one error that names the line."""

from __future__ import annotations

from pathlib import Path

from espalier.model.errors import PassError


def user_error(what: str, error: BaseException, file: Path) -> PassError:
    """One error for whatever the user's code raised, with its innermost line in `file`."""
    line, trace = error.lineno if isinstance(error, SyntaxError) else None, error.__traceback__
    while trace:
        if trace.tb_frame.f_code.co_filename == str(file):
            line = trace.tb_lineno
        trace = trace.tb_next
    text = (error.msg if isinstance(error, SyntaxError) else str(error)).strip().splitlines()
    said = f": {text[0][:300].rstrip('.')}" if text else ""
    place = [f"line {line}"] * bool(line) + [file.name] * (file.name not in what)
    where = f" ({' of '.join(place)})" if place else ""
    return PassError(f"{what} raised {type(error).__name__}{said}{where}.", "Correct the file, then load it again.")
