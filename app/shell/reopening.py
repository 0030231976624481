"""Reopens the models of the last session, from the menu or at the start of the program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from espalier.app.settings import is_missing, is_path
from espalier.app.translation import tr
from espalier.model.trust import wanted_code

if TYPE_CHECKING:
    from espalier.app.errors import Banner
    from espalier.app.session.session import Session
    from espalier.app.settings import Settings
    from espalier.app.shell.actions.tabs import TabActions

TITLE, LONGEST = tr("Reopen the last session"), 40  # characters of a name in the menu


class Reopening:
    """`open_spec` opens a source after asking about unsaved changes, `begin` without asking."""

    def __init__(
        self, session: Session, settings: Settings, banner: Banner, open_spec: Callable[[str], object],
        begin: Callable[[str], object], tabs: Callable[[], TabActions | None],
    ) -> None:  # fmt: skip
        self._session, self._settings, self._banner = session, settings, banner
        self._open_spec, self._begin, self._tabs = open_spec, begin, tabs

    @property
    def last(self) -> str:
        """The source that was opened last, besides the one that is open; empty if there is none."""
        document = self._session.document
        present = str(document.path or self._session.opened_spec) if document else ""
        return next((spec for spec in self._settings.recent if spec != present), "")

    @property
    def _several(self) -> list[str]:
        """The tabs of the last session, if there were several and nothing is open yet."""
        tabs = self._tabs()
        is_fresh = tabs is not None and tabs.count == 1 and self._session.document is None
        sources = self._settings.session[0] if is_fresh else []
        return sources if len(sources) > 1 else []

    def title(self) -> str:
        """The title of the row, with the name of what it opens: a click on it names that source."""
        if several := self._several:
            return tr("{}: {} tabs", TITLE, len(several))
        name = Path(self.last).name if is_path(self.last) else self.last
        short = name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"
        return f"{TITLE}: {short.replace('&', '&&')}" if name else TITLE

    def available(self) -> bool:
        """Whether there is a source to reopen."""
        return bool(self.last or self._several)

    def reopen(self) -> None:
        """Open the last source, as a click in File → Open recent does, or the tabs of the last session."""
        if self._several:
            self._restore()
        elif not self._report_missing(self.last):
            self._open_spec(self.last)

    def _restore(self) -> None:
        tabs, (sources, current) = self._tabs(), self._settings.session
        assert tabs is not None
        tabs.restore(sources, current)

    def toggle(self) -> None:
        """Switch reopening at the start on or off."""
        self._settings.reopens = not self._settings.reopens

    def at_start(self, has_unsaved: bool) -> None:
        """Reopen the last source or tabs, if the settings say so and no unsaved work of a crash is offered."""
        if not self._settings.reopens or has_unsaved:
            return
        if self._several:
            self._restore()
        elif self.last:
            self.begin(self.last)

    def begin(self, last: str) -> None:
        """Open a source of the last session.

        Nobody has named it in this run. Code that it names runs only if the user allowed it for good, or says so now.
        """
        if self._report_missing(last):
            return
        code = wanted_code(last)
        if code is None:
            self._begin(last)
            return
        message = tr("The last session needs to run {}, which could do anything with your files ({}).", code.name, code)
        self._banner.offer(
            message, tr("Read the file before you open it."), [(tr("Open"), lambda: self._allowed(last))]
        )

    def _allowed(self, spec: str) -> None:
        self._banner.drop_offer()
        self._open_spec(spec)

    def _report_missing(self, source: str) -> bool:
        missing = is_missing(source)
        if missing:
            self._banner.show_message(
                tr("{} no longer exists.", source), tr("Open another file or name."), kind="error"
            )
        return missing
