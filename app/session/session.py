"""The only bridge between widgets and the core: owns the document, runs jobs, tells what changed."""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from PySide6.QtCore import QObject, QTimer, Signal

from espalier.app.jobs.router import JobRouter
from espalier.app.session.accuracies import Measures
from espalier.app.session.edits import Edits, Wish
from espalier.app.session.scored import Scored
from espalier.app.step_words import title as step_title
from espalier.app.words import percent
from espalier.model.document.document import Change, Document
from espalier.model.document.project import Project, Saved, keys_of
from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import ProjectError
from espalier.model.formats.base import Format
from espalier.model.graph.check import Problem
from espalier.model.leftovers import WINDOW, Scratch
from espalier.model.registry import PASSES
from espalier.model.store.open_files import Version
from espalier.model.store.weights import WeightStore
from espalier.model.trust import Origin
from espalier.passes.base import Report
from espalier.passes.choices.edits import with_activation_sparsity, with_format, with_sparsity
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
    ReplayJob,
    SaveJob,
)
from espalier.passes.recipes.offered import kept
from espalier.passes.training.checkpoint_folders import note_copied

STAYING = (OpenJob, PluginJob, *KERNEL_JOBS)  # jobs that are not of a document


def _stays(job: Job) -> bool:
    """Whether a job goes on when the document is closed: what is no document's, and what the user saved."""
    return isinstance(job, STAYING) or (isinstance(job, SaveJob) and not job.copy)


def _workdir(job: Job) -> Path:
    """The working folder that a job reads or writes; the present one for those without."""
    return job.store.folder if isinstance(job, SaveJob) else getattr(job, "workdir", Path())


class Session(Scored):
    """Owns the document and its jobs; every widget reads and changes the project through it."""

    arriving = Signal()  # whoever hears `opened` is to be there by now
    opened = Signal()
    changed = Signal(object)
    wished = Signal()  # an edit waits for the worker, or one that waited is done or dropped
    saving = Signal()  # whoever holds what belongs into the project puts it there
    saved = Signal()
    selection_changed = Signal(tuple)
    report_ready = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(lambda listener: JobRouter(listener, self._prepared), parent)
        self.problems: tuple[Problem, ...] = ()
        self.named = ""  # what the user opened
        self.selection: tuple[str, ...] = ()
        self.view_provider: Callable[[], dict[str, Any]] = dict
        self.placing: Callable[[Version], object] | None = None  # hears each version of the file before it is there
        self._edits = Edits(self)
        self._folders: dict[Path, Scratch] = {}  # of documents, by place
        self._store: WeightStore | None = None
        self._kept_files = itertools.count(1)
        self._shut = False
        self.job_event.connect(self._heard_end)
        self._clearing = QTimer(self, singleShot=True)  # a document may be about to arrive: its folder is nobody's yet
        self._clearing.timeout.connect(self._clear_folders)

    # -- opening and closing

    def open(self, spec: str, inputs: tuple[str, ...] = (), title: str = "") -> None:
        """Open what the user named, in the worker; the present document stays until it arrives. `title`: the job's."""
        made = Scratch(WINDOW)
        workdir = made.folder
        self._folders[workdir] = made
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
        self._clearing.start()

    def _drop_document(self) -> None:
        for job in [j for j in self.jobs if not _stays(j.job)]:
            self.cancel(job.id)
        # Whatever of this document still runs has nobody left to tell.
        self._on_done = {j.id: self._on_done[j.id] for j in self.jobs if _stays(j.job)}
        if self._store:
            self._store.close()
        self.document, self._store, self.problems = None, None, ()
        self._edits, self.measures = Edits(self), Measures()
        self.select(())

    def shutdown(self) -> None:
        """End the worker and remove working folders."""
        if not self._shut:
            self._shut = True
            self._clearing.stop()
            for folder in self._folders:  # what was not saved is not wanted
                note_copied(folder, math.inf)
            self.end_jobs()
            for folder in self._folders.values():
                folder.close()

    def _clear_folders(self) -> None:
        """Delete the working folders that neither the document nor a job needs any more."""
        used = {f for job in self.jobs for f in (_workdir(job.job), *_workdir(job.job).parents)}
        for folder in self._folders.keys() - used - {self._store.folder if self._store else None}:
            # It may hold gigabytes, and nobody waits for it.
            threading.Thread(target=self._folders.pop(folder).close, name="espalier-clearing").start()

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
        kept = self._edits.milestones(document)
        project = replace(document.snapshot(), view=self.view_provider(), milestones=kept)
        return replace(project, reports={**project.reports, **self.measures.to_json(project.recipe)})

    # -- editing

    def undo(self) -> None:
        """Take the last edit back; one that still waits for the worker is dropped instead."""
        if self._edits.drop_last():
            self.wished.emit()
        elif self.document:
            self.document.undo()

    def redo(self) -> None:
        """Do the last undone edit again."""
        if self.document:
            self.document.redo()

    def select(self, ids: Iterable[str]) -> None:
        """Select nodes everywhere."""
        known = self.document.graph.nodes if self.document else {}
        chosen = tuple(i for i in ids if i in known)
        if chosen != self.selection:
            self.selection = chosen
            self.selection_changed.emit(chosen)

    @property
    def recipe(self) -> Recipe:
        """The recipe with the edits that still wait."""
        return self._edits.recipe or self.open_document.recipe

    @property
    def waiting(self) -> tuple[str, ...]:
        """The edits that still wait, in words."""
        return self._edits.waiting

    def run_pass(self, name: str, options: Any) -> None:
        """Append a step of a transform, or run an analysis and emit its report."""
        spec, step = PASSES.get(name), Step(name, kept(options))
        if spec.kind == "analysis":
            self.analyse(spec.title, step, self.report_ready.emit)
        else:
            self.set_recipe(self.recipe.append(step), spec.title)

    def set_format(self, ids: Sequence[str], port: str, fmt: Format | None) -> None:
        """Give a port of nodes a format by hand; edits in a row of one format's parameters are one undo step."""
        label, key = f"{port} → {fmt.label if fmt else 'float'}", ("format", tuple(ids), port, fmt and fmt.name)
        self.set_recipe(with_format(self.recipe, tuple(ids), port, fmt), label, key)

    def set_sparsity(
        self, ids: Sequence[str], ratio: float, method: str = "l1", scope: str = "local", **more: Any
    ) -> None:
        """Prune the weights of nodes by hand; `more`: further options of the pass."""
        recipe = with_sparsity(self.recipe, tuple(ids), ratio, method, scope, **more)
        self.set_recipe(recipe, f"Prune {percent(ratio, 0)}", ("prune", tuple(ids)))

    def set_activation_sparsity(self, ids: Sequence[str], values: dict[str, Any]) -> None:
        """Prune what flows into nodes by hand; `values`: options of the pass."""
        recipe = with_activation_sparsity(self.recipe, tuple(ids), values)
        self.set_recipe(recipe, f"Prune inputs {percent(values['sparsity'], 0)}", ("prune inputs", tuple(ids)))

    def set_step(self, index: int, step: Step) -> None:
        """Replace a step."""
        self.set_recipe(self.recipe.set(index, step), f"Edit {step_title(step)}")

    def remove_step(self, index: int) -> None:
        """Remove a step."""
        self.set_recipe(self.recipe.remove(index), f"Remove {step_title(self.recipe.steps[index])}")

    def move_step(self, index: int, to: int) -> None:
        """Move a step to place `to`."""
        self.set_recipe(self.recipe.move(index, to), f"Move {step_title(self.recipe.steps[index])}")

    def enable_step(self, index: int, enabled: bool) -> None:
        """Switch a step on or off."""
        verb = "Enable" if enabled else "Disable"
        self.set_recipe(self.recipe.enable(index, enabled), f"{verb} {step_title(self.recipe.steps[index])}")

    def set_recipe(self, recipe: Recipe, label: str, merge_key: object = None) -> None:
        """Make `recipe` the recipe: at once where no worker is needed, else as a job."""
        self._edits.wish(Wish(label, recipe, merge_key))
        self.wished.emit()

    def forget_results(self) -> None:
        """Let steps run anew when they are next needed, because a plug-in changed; what is shown stays."""
        self._edits.restart(self.document)

    def step_reports(self, recipe: Recipe | None = None) -> tuple[Report | None, ...]:
        """The report of each active step of the document's recipe or another; None where this session knows none."""
        return self._edits.reports(recipe or self.document.recipe) if self.document else ()

    def _on_change(self, change: Change) -> None:
        self.select(self.selection)
        self.changed.emit(change)
        self.score_changed.emit()

    def _heard_end(self, heard: JobEvent) -> None:
        if isinstance(heard.event, TERMINAL) and not self._shut:
            self._clearing.start()

    def _ended(self, job: JobInfo) -> None:
        if isinstance(job.job, ReplayJob):
            self._edits.next()
            self.wished.emit()
