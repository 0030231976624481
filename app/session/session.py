"""The only bridge between widgets and the core: owns the document, runs jobs, tells what changed."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from PySide6.QtCore import QObject, Signal

from espalier.app.jobs.router import JobRouter
from espalier.app.session.accuracies import Measures
from espalier.app.session.edited import Edited
from espalier.app.session.folders import Folders
from espalier.model.document.document import Change, Document
from espalier.model.document.project import Project, Saved, keys_of
from espalier.model.errors import ProjectError
from espalier.model.graph.check import Problem
from espalier.model.store.open_files import Version
from espalier.model.store.weights import WeightStore
from espalier.model.trust import Origin
from espalier.passes.jobs.kernel import KERNEL_JOBS
from espalier.passes.jobs.kinds import (
    TERMINAL,
    ExportJob,
    Job,
    JobEvent,
    JobInfo,
    OpenJob,
    OpenResult,
    PluginJob,
    SaveJob,
)
from espalier.passes.training.checkpoint_folders import note_copied

STAYING = (OpenJob, PluginJob, *KERNEL_JOBS)  # jobs that are not of a document


def _stays(job: Job) -> bool:
    """Whether a job goes on when the document is closed: what is no document's, and what the user saved."""
    return isinstance(job, STAYING) or (isinstance(job, SaveJob) and not job.copy)


class Session(Edited):
    """Owns the document and its jobs; every widget reads and changes the project through it."""

    arriving = Signal()  # whoever hears `opened` is to be there by now
    opened = Signal()
    changed = Signal(object)
    saving = Signal()  # whoever holds what belongs into the project puts it there
    saved = Signal()
    selection_changed = Signal(tuple)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(lambda listener: JobRouter(listener, self._prepared), parent)
        self.problems: tuple[Problem, ...] = ()
        self.named = ""  # what the user opened
        self.selection: tuple[str, ...] = ()
        self.view_provider: Callable[[], dict[str, Any]] = dict
        self.placing: Callable[[Version], object] | None = None  # hears each version of the file before it is there
        self._folders = Folders(self)
        self._store: WeightStore | None = None
        self._kept_files = itertools.count(1)
        self._shut = False
        self.job_event.connect(self._heard_end)
        self._folders.clearing.connect(self._clear_folders)

    # -- opening and closing

    def open(self, spec: str, inputs: tuple[str, ...] = (), title: str = "") -> None:
        """Open what the user named, in the worker; the present document stays until it arrives. `title`: the job's."""
        workdir = self._folders.new()
        title = title or f"Open {Path(spec).name if '/' in spec else spec}"
        self.submit(
            title, OpenJob(spec, workdir, inputs, origin=Origin.TYPED), lambda result: self._take(result, workdir, spec)
        )

    def _take(self, result: OpenResult, workdir: Path, spec: str) -> None:
        self.arriving.emit()
        self._drop_document()
        store = WeightStore(workdir)
        store.add(result.locations)
        path = Path(spec).resolve() if spec.endswith(".espalier") else None
        self.document, self.named, self._store = Document(result.project, store, path), spec, store
        self.document.version = result.version
        self.document.listeners.append(self._on_change)
        self.problems = result.problems
        self.measures.begin(result)
        self.forget_results()
        self.opened.emit()
        self.score_changed.emit()

    def close(self) -> None:
        """Close the document without asking; running jobs of it are cancelled."""
        self._drop_document()
        self.opened.emit()
        self._folders.clear_soon()

    def _drop_document(self) -> None:
        for job in [j for j in self.jobs if not _stays(j.job)]:
            self.cancel(job.id)
        # Whatever of this document still runs has nobody left to tell.
        self._on_done = {j.id: self._on_done[j.id] for j in self.jobs if _stays(j.job)}
        if self._store:
            self._store.close()
        self.document, self._store, self.problems = None, None, ()
        self.measures = Measures()
        self.forget_edits()
        self.select(())

    def shutdown(self) -> None:
        """End the worker and remove working folders."""
        if not self._shut:
            self._shut = True
            self._folders.forgo()
            self.end_jobs()
            self._folders.end()

    def _clear_folders(self) -> None:
        self._folders.clear((job.job for job in self.jobs), self._store.folder if self._store else None)

    # -- saving

    def save(self, *, anyway: bool = False) -> None:
        """Save to the document's path; raises ProjectError when it has none yet.

        `anyway`: also where another program wrote the file since.
        """
        if (path := self.open_document.path) is None:
            raise ProjectError("The project has no file yet.", "Use Save as.")
        self.save_as(path, over=self.open_document.version, anyway=anyway)

    def save_as(self, path: Path, *, copy: bool = False, over: Version | None = None, anyway: bool = False) -> JobInfo:
        """Save to `path`, whatever the worker does; a copy leaves the document's own path and state alone."""
        document, path, begun = self.open_document, path.resolve(), time.monotonic()
        self.saving.emit()
        state, extras, store = document.present, document.project.extras, document.store
        placing = None if copy else self.placing
        job = SaveJob(self._snapshot(), store.view(), path, copy=copy, over=over, anyway=anyway, placing=placing)

        def done(written: Saved) -> None:
            note_copied(store.folder, begun)
            if not copy and self.document is document:
                store.moved(path, written.places, by=job.store)
                document.saved(path, state, extras, written.version)
                self.saved.emit()

        return self.submit(f"Save {path.name}", job, done)

    def _prepared(self, job: Job) -> Job:
        """A job as it is sent: its tensors where they lie by then, out of files that were replaced meanwhile."""
        store, places = self._store, getattr(job, "locations", None)
        if store is None or places is None or getattr(job, "workdir", None) != store.folder:
            return job
        name = f"kept-{next(self._kept_files)}"
        return replace(cast("Any", job), locations=places | store.elsewhere(places, name))

    def export(self, form: str, path: Path, done: Callable[[Any], None]) -> None:
        """Hand the result on in a form of passes.export; `done` gets what was Exported."""
        document, project = self.open_document, self._snapshot()
        places = document.store.locate(keys_of(project.base, project.graph))
        self.submit(f"Export {path.name}", ExportJob(project, places, path, form, document.store.folder), done)

    def _snapshot(self) -> Project:
        document = self.open_document
        kept = self.milestones()
        project = replace(document.snapshot(), view=self.view_provider(), milestones=kept)
        return replace(project, reports={**project.reports, **self.measures.to_json(project.recipe)})

    def select(self, ids: Iterable[str]) -> None:
        """Select nodes everywhere."""
        known = self.document.graph.nodes if self.document else {}
        chosen = tuple(i for i in ids if i in known)
        if chosen != self.selection:
            self.selection = chosen
            self.selection_changed.emit(chosen)

    def _on_change(self, change: Change) -> None:
        self.select(self.selection)
        self.changed.emit(change)
        self.score_changed.emit()

    def _heard_end(self, heard: JobEvent) -> None:
        if isinstance(heard.event, TERMINAL) and not self._shut:
            self._folders.clear_soon()
