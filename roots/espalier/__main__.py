"""Starts Espalier: a headless subcommand, or the window."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

if not __package__:  # run as a file: its folder is a package, no place to import from
    sys.path[0] = str(Path(__file__).absolute().parents[1])


class _Window:
    """Loads Qt only when a window is wanted."""

    def open(self, target: str | None, plugins: Sequence[str], theme: str | None, language: str | None) -> int:
        """Show the window until it is closed."""
        from espalier.app.shell.starting import open_window

        return open_window(target, plugins, theme, language)

    def render(
        self, target: str | None, plugins: Sequence[str], file: Path, size: tuple[int, int], theme: str,
        panel: str | None, language: str | None,
    ) -> None:  # fmt: skip
        """Draw the window into a file."""
        from espalier.app.shell.starting import render_screenshot

        render_screenshot(target, str(file), size, theme, panel, plugins, language)


def main() -> int:
    """The program's entry point; returns the exit code."""
    try:
        from espalier.app.cli import process
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return 130
    return process(_Window())


if __name__ == "__main__":
    sys.exit(main())
