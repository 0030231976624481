"""Plug-ins in the window: their files, what the worker registered from them, and stand-ins for their passes.

Passes run only in the worker, which sends plain data. Files with formats, costs or data sources also run here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt, Signal

from espalier.app.errors import PLUGINS, PluginsError
from espalier.app.translation import message, tr
from espalier.model.errors import EspalierError
from espalier.model.registry import PASSES
from espalier.passes.base import PassSpec
from espalier.passes.jobs.kinds import TERMINAL, Failed, JobEvent, PluginJob
from espalier.passes.recipes.offered import PluginState, missing_notice, stand_in

if TYPE_CHECKING:
    from espalier.app.session.session import Session
    from espalier.app.settings import Settings


class Plugins(QObject):
    """Loads plug-ins through the worker and stores what each registered."""

    changed = Signal()

    def __init__(self, session: Session, settings: Settings) -> None:
        super().__init__(session)
        self._session, self._settings = session, settings
        self.states: tuple[PluginState, ...] = ()
        self.specs: tuple[PassSpec, ...] = ()
        self.from_command_line: tuple[Path, ...] = ()
        self.loading = False
        # Queued: the panels that show it are reset by the same signal.
        session.opened.connect(self._report_missing, Qt.ConnectionType.QueuedConnection)
        session.job_event.connect(self._job_event)

    def start(self, files: Iterable[str] = ()) -> None:
        """Load the plug-ins of the settings and `files` of the command line; starts no job if there are none."""
        from espalier.passes.plugins.plugins import has_packages, plugin_files

        self.from_command_line = tuple(Path(f).expanduser().absolute() for f in files)
        if self.from_command_line or self._settings.plugins or any(map(plugin_files, self.paths)) or has_packages():
            self.load()

    @property
    def listed(self) -> tuple[Path, ...]:
        """The files and folders in the settings."""
        return tuple(map(Path, self._settings.plugins))

    @property
    def paths(self) -> tuple[Path, ...]:
        """All files and folders that plug-ins are loaded from."""
        from espalier.passes.plugins.plugins import plugin_places

        return tuple(dict.fromkeys((*plugin_places(self._settings.plugins), *self.from_command_line)))

    def add(self, path: Path) -> None:
        """Add a file or folder to the settings and load it."""
        self._store((*self._settings.plugins, str(path.absolute())))

    def remove(self, path: Path) -> None:
        """Remove a file or folder from the settings and unload its passes."""
        self.from_command_line = tuple(p for p in self.from_command_line if p != path)
        self._store(p for p in self._settings.plugins if Path(p) != path)

    def _store(self, paths: Iterable[str]) -> None:
        self._settings.plugins = tuple(paths)
        self._settings.sync()
        self.load()

    def load(self) -> None:
        """Reload all plug-ins, including changed files."""
        self.loading = True
        self._session.submit(tr("Load plug-ins"), PluginJob(self.paths), self._register)
        self.changed.emit()

    def unload(self) -> None:
        """Unregister the stand-ins and the formats."""
        from espalier.passes.plugins.plugins import unload_plugins

        unload_plugins()
        for spec in self.specs:
            PASSES.remove(spec.name)
        self.specs = ()

    def adopt(self, other: Plugins) -> None:
        """Take what another tab of this process has loaded."""
        self.from_command_line = other.from_command_line
        if self.states is other.states:
            return
        self.states, self.specs = other.states, other.specs
        self._session.discard_results()
        self.changed.emit()

    def _register(self, states: tuple[PluginState, ...]) -> None:
        self.unload()
        states = tuple(map(self._with_formats, states))
        passes = [(p, s.source) for s in states for p in s.passes]
        self.specs = tuple(PASSES.add(p.name, stand_in(p), replace=True, source=source) for p, source in passes)
        self.states = states
        self._session.discard_results()
        self._session.resolved.emit(PLUGINS)
        self._report_missing()
        self._report_failed([s for s in states if s.error])

    @staticmethod
    def _with_formats(state: PluginState) -> PluginState:
        """Run a file with formats, costs or data sources here too; returns the state with the error, if any."""
        from espalier.passes.plugins.plugins import load_formats

        if not (state.formats or state.costs or state.sources) or not Path(state.source).is_file():
            return state
        try:
            load_formats(state.source)
        except EspalierError as error:
            return replace(state, error=message(error.message), hint=message(error.hint))
        return state

    def _job_event(self, event: JobEvent) -> None:
        if isinstance(event.job.job, PluginJob) and isinstance(event.event, TERMINAL):
            if isinstance(event.event, Failed):
                self._register(())  # the worker has no plug-ins now
            self.loading = any(isinstance(j.job, PluginJob) for j in self._session.jobs)
            self.changed.emit()

    # -- notices

    def _report_failed(self, failed: list[PluginState]) -> None:
        if len(failed) == 1:
            self._session.problem.emit(PluginsError(failed[0].error, failed[0].hint))
        elif failed:
            names = ", ".join(Path(s.source).name for s in failed)
            text = tr("{} plug-ins could not be loaded: {}.", len(failed), names)
            self._session.problem.emit(PluginsError(text, "Model → Plug-ins… shows why."))

    def _report_missing(self) -> None:
        document = self._session.document
        hint = tr("Add the plug-in under Model → Plug-ins… to run or edit them.")
        if document and (notice := missing_notice(document.recipe, hint)):
            self._session.problem.emit(PluginsError(notice.message, notice.hint, notice.node))
