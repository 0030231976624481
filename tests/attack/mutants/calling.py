"""The command line, called in this process."""

from __future__ import annotations

import contextlib
import io


class Failed(Exception):
    """A command ended in exit 1; its cause is what it raised."""


def command(*words: object) -> None:
    """The command line, in this process: raises its error where the command tells one, Failed where it fails."""
    import espalier.app.cli as cli

    caught: list[BaseException] = []

    def note(error: BaseException, words: list[str]) -> None:
        caught.append(error)

    held, cli.write_crash_report = cli.write_crash_report, note  # type: ignore[assignment]
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = cli.main([str(w) for w in words])
    finally:
        cli.write_crash_report = held
    if code == 1:
        raise Failed from (caught[0] if caught else None)
    if code == 2:
        lines = [line for line in err.getvalue().splitlines() if line.strip()]
        from espalier.model.errors import EspalierError

        raise EspalierError(lines[-2] if len(lines) > 1 else "", lines[-1] if lines else "")
