"""The window's side of plug-ins: which files there are, what the worker made of them, stand-ins for their passes.

Passes run in the worker alone; what comes here is plain data. Files with formats, costs or data sources run here, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt, Signal

from espalier.model.errors import EspalierError, PassError
from espalier.model.registry import PASSES
from espalier.passes.base import PassSpec
from espalier.passes.jobs.kinds import TERMINAL, Done, JobEvent, PluginJob
from espalier.passes.recipes.offered import PluginState, missing_notice, stand_in

if TYPE_CHECKING:
    from espalier.app.session.session import Session
    from espalier.app.settings import Settings


class Plugins(QObject):
    """Loads plug-ins through the worker and keeps what each registered."""

    changed = Signal()

    def __init__(self, session: Session, settings: Settings) -> None:
        super().__init__(session)
        self._session, self._settings = session, settings
        self.states: tuple[PluginState, ...] = ()
        self.specs: tuple[PassSpec, ...] = ()
        self.given: tuple[Path, ...] = ()
        self.loading = False
        # Queued: the panels that show it begin anew with each document.
        session.opened.connect(self._tell_missing, Qt.ConnectionType.QueuedConnection)
        session.job_event.connect(self._heard)

    def start(self, given: Iterable[str] = ()) -> None:
        """Load what the settings name and `given`, the files of the command line; no job where there is nothing."""
        from espalier.passes.plugins.plugins import has_packages, plugin_files

        self.given = tuple(Path(g).expanduser().absolute() for g in given)
        if self.given or self._settings.plugins or any(map(plugin_files, self.places)) or has_packages():
            self.load()

    @property
    def listed(self) -> tuple[Path, ...]:
        """The files and folders of the user's list."""
        return tuple(map(Path, self._settings.plugins))

    @property
    def places(self) -> tuple[Path, ...]:
        """All files and folders that are loaded from."""
        from espalier.passes.plugins.plugins import plugin_places

        return tuple(dict.fromkeys((*plugin_places(self._settings.plugins), *self.given)))

    def add(self, place: Path) -> None:
        """Put a file or folder on the list and load it."""
        self._list((*self._settings.plugins, str(place.absolute())))

    def remove(self, place: Path) -> None:
        """Take a file or folder off the list; its passes go."""
        self.given = tuple(g for g in self.given if g != place)
        self._list(p for p in self._settings.plugins if Path(p) != place)

    def _list(self, places: Iterable[str]) -> None:
        self._settings.plugins = tuple(places)
        self._settings.sync()
        self.load()

    def load(self) -> None:
        """Load all plug-ins afresh, changed files too."""
        self.loading = True
        self._session.submit("Load plug-ins", PluginJob(self.places), self._take)
        self.changed.emit()

    def forget(self) -> None:
        """Withdraw the stand-ins, and the formats."""
        from espalier.passes.plugins.plugins import unload_plugins

        unload_plugins()
        for spec in self.specs:
            PASSES.remove(spec.name)
        self.specs = ()

    def _take(self, states: tuple[PluginState, ...]) -> None:
        self.forget()
        states = tuple(map(self._with_formats, states))
        offered = [(o, s.source) for s in states for o in s.passes]
        self.specs = tuple(PASSES.add(o.name, stand_in(o), replace=True, source=source) for o, source in offered)
        self.states = states
        self._session.forget_results()
        self._tell_failed([s for s in states if s.error])

    @staticmethod
    def _with_formats(state: PluginState) -> PluginState:
        """Formats, costs and data sources are needed here, too: a file with some that the worker could load is run."""
        from espalier.passes.plugins.plugins import load_formats

        if not (state.formats or state.costs or state.sources) or not Path(state.source).is_file():
            return state
        try:
            load_formats(state.source)
        except EspalierError as error:
            return replace(state, error=error.message, hint=error.hint)
        return state

    def _heard(self, heard: JobEvent) -> None:
        if isinstance(heard.job.job, PluginJob) and isinstance(heard.event, TERMINAL):
            if not isinstance(heard.event, Done):
                self._take(())  # the worker has none now
            self.loading = any(isinstance(j.job, PluginJob) for j in self._session.jobs)
            self.changed.emit()

    # -- notices

    def _tell_failed(self, failed: list[PluginState]) -> None:
        if len(failed) == 1:
            self._session.problem.emit(PassError(failed[0].error, failed[0].hint))
        elif failed:
            names = ", ".join(Path(s.source).name for s in failed)
            text = f"{len(failed)} plug-ins could not be loaded: {names}."
            self._session.problem.emit(PassError(text, "Model → Plug-ins… shows why."))

    def _tell_missing(self) -> None:
        document = self._session.document
        hint = "Add the plug-in under Model → Plug-ins… to run or edit them; all else works."
        if document and (notice := missing_notice(document.recipe, hint)):
            self._session.problem.emit(notice)
