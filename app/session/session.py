"""The only bridge between widgets and the core: owns the document, runs jobs and signals changes."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from PySide6.QtCore import QObject, Signal

from espalier.app.jobs.router import JobRouter
from espalier.app.session.editing_session import EditingSession
from espalier.app.session.measures import Measures
from espalier.app.session.saved_selections import SavedSelections
from espalier.app.session.working_folders import WorkingFolders
from espalier.app.translation import tr
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

DOCUMENT_FREE = (OpenJob, PluginJob, *KERNEL_JOBS)  # jobs that belong to no document


def _outlives_document(job: Job) -> bool:
    """Whether a job continues when the document is closed: jobs of no document, and saves by the user."""
    return isinstance(job, DOCUMENT_FREE) or (isinstance(job, SaveJob) and not job.copy)


class Session(EditingSession):
    """Owns the document and its jobs; all widgets read and change the project through it."""

    about_to_open = Signal()  # create the receivers of `opened` now
    opened = Signal()
    changed = Signal(object)
    arranged = Signal(object)  # a Change of pins or frames alone
    saving = Signal()  # write unsaved results into the project now
    writing = Signal(object)  # a save to this path begins
    saved = Signal()
    selection_changed = Signal(tuple)
    ending = Signal()  # end your processes and threads now

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(lambda listener: JobRouter(listener, self._with_current_locations), parent)
        self.problems: tuple[Problem, ...] = ()
        self.opened_spec = ""  # the source that the user opened
        self.selection: tuple[str, ...] = ()
        self.view_provider: Callable[[], dict[str, Any]] = dict
        self.placing: Callable[[Version], object] | None = None  # called before a save replaces the file
        self.saved_selections = SavedSelections(self, self)
        self._folders = WorkingFolders(self)
        self._store: WeightStore | None = None
        self._copies = itertools.count(1)  # numbers files with tensors of replaced files
        self._is_shut_down = False
        self.job_event.connect(self._job_event)
        self._folders.clearing.connect(self._clear_folders)

    # -- opening and closing

    def open(self, spec: str, inputs: tuple[str, ...] = (), title: str = "") -> None:
        """Open a source in the worker; the present document stays until then. `title`: of the job."""
        workdir = self._folders.new()
        title = title or tr("Open {}", Path(spec).name if "/" in spec else spec)
        job = OpenJob(spec, workdir, inputs, origin=Origin.TYPED)
        self.submit(title, job, lambda result: self._opened(result, workdir, spec))

    def _opened(self, result: OpenResult, workdir: Path, spec: str) -> None:
        self.about_to_open.emit()
        self._drop_document()
        store = WeightStore(workdir)
        store.add(result.locations)
        path = Path(spec).resolve() if spec.endswith(".espalier") else None
        self.document, self.opened_spec, self._store = Document(result.project, store, path), spec, store
        self.document.version = result.version
        self.document.listeners.append(self._on_change)
        self.problems = result.problems
        self.measures.begin(result)
        self.discard_results()
        self.opened.emit()
        self.score_changed.emit()

    def close(self) -> None:
        """Close the document without asking, and cancel its jobs."""
        self._drop_document()
        self.opened.emit()
        self._folders.clear_soon()

    def _drop_document(self) -> None:
        for job in [j for j in self.jobs if not _outlives_document(j.job)]:
            self.cancel(job.id)
        # The results of the cancelled jobs are ignored, even if they still arrive.
        self._on_done = {j.id: self._on_done[j.id] for j in self.jobs if _outlives_document(j.job)}
        if self._store:
            self._store.close()
        self.document, self._store, self.problems = None, None, ()
        self.measures = Measures()
        self.repeats.clear()
        self.saved_selections.forget()
        self.discard_edits()
        self.select(())

    def shutdown(self) -> None:
        """End the worker and delete the working folders."""
        if not self._is_shut_down:
            self._is_shut_down = True
            self.ending.emit()
            self.end_jobs()
            self._folders.end()

    def _clear_folders(self) -> None:
        self._folders.clear((job.job for job in self.jobs), self._store.folder if self._store else None)

    # -- saving

    def save(self, *, anyway: bool = False) -> None:
        """Save to the document's path. Raises ProjectError if it has none.

        `anyway`: overwrite the file even if another program changed it.
        """
        if (path := self.open_document.path) is None:
            raise ProjectError("The project has no file yet.", "Use Save as.")
        self.save_as(path, over=self.open_document.version, anyway=anyway)

    def save_as(self, path: Path, *, copy: bool = False, over: Version | None = None, anyway: bool = False) -> JobInfo:
        """Save to `path`, independent of the worker; a copy leaves the document's path and state unchanged."""
        document, path, begun = self.open_document, path.resolve(), time.monotonic()
        self.saving.emit()
        state, extras, store = document.present, document.project.extras, document.store
        placing = None if copy else self.placing
        job = SaveJob(self._snapshot(), store.view(), path, copy=copy, over=over, anyway=anyway, placing=placing)

        def done(result: Saved) -> None:
            self._folders.note_copied(store.folder, begun)
            if not copy and self.document is document:
                store.moved(path, result.places, by=job.store)
                document.saved(path, state, extras, result.version)
                self.saved.emit()

        if not copy:
            self.writing.emit(path)
        return self.submit(tr("Save {}", path.name), job, done)

    def _with_current_locations(self, job: Job) -> Job:
        """The job with the present locations of its tensors: files may have been replaced since it was queued."""
        store, locations = self._store, getattr(job, "locations", None)
        if store is None or locations is None or getattr(job, "workdir", None) != store.folder:
            return job
        name = f"kept-{next(self._copies)}"
        return replace(cast("Any", job), locations=locations | store.elsewhere(locations, name))

    def export(self, form: str, path: Path, done: Callable[[Any], None], **options: Any) -> None:
        """Export the model in a format of passes.export; `done` receives the Exported result.

        `options`: further fields of ExportJob.
        """
        document, project = self.open_document, self._snapshot()
        locations = document.store.locate(keys_of(project.base, project.graph))
        job = ExportJob(project, locations, path, form, document.store.folder, **options)
        self.submit(f"Export {path.name}", job, done)

    def _snapshot(self) -> Project:
        document = self.open_document
        project = replace(document.snapshot(), view=self.view_provider(), milestones=self.milestones())
        return replace(project, reports={**project.reports, **self.measures.to_json(project.recipe)})

    def select(self, ids: Iterable[str]) -> None:
        """Select nodes; ids that the graph lacks are ignored."""
        nodes = self.document.graph.nodes if self.document else {}
        selection = tuple(i for i in ids if i in nodes)
        if selection != self.selection:
            self.selection = selection
            self.selection_changed.emit(selection)

    def _on_change(self, change: Change) -> None:
        if change.only_arranges:
            self.arranged.emit(change)
            return
        self.select(self.selection)
        self.changed.emit(change)
        self.score_changed.emit()

    def _job_event(self, event: JobEvent) -> None:
        if isinstance(event.event, TERMINAL) and not self._is_shut_down:
            self._folders.clear_soon()
