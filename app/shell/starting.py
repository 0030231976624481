"""Starts the window in its language: modules that hold texts are imported once the language is installed."""

from __future__ import annotations

from collections.abc import Sequence

from espalier.app.settings import Settings
from espalier.app.shell.language import ENGLISH, LANGUAGE


def open_window(
    target: str | None, plugins: Sequence[str] = (), theme: str | None = None, language: str | None = None
) -> int:
    """Show the window on `target` until it closes; returns the exit status.

    `language`: overrides the one of the settings. Raises OptionsError or FileError if it cannot be installed; one of
    the settings that cannot leaves English and a message.
    """
    if language:
        LANGUAGE.install(language)
    else:
        LANGUAGE.start(Settings().language)
    from espalier.app.shell.application import open_window as show

    return show(target, plugins, theme)


def render_screenshot(
    target: str | None,
    file: str,
    size: tuple[int, int],
    theme: str,
    panel: str | None,
    plugins: Sequence[str] = (),
    language: str | None = None,
) -> None:
    """Draw the window offscreen into a file, in English by default. Raises EspalierError."""
    LANGUAGE.install(language or ENGLISH)
    from espalier.app.shell.application import render_screenshot as render

    render(target, file, size, theme, panel, plugins)
