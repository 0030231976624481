"""The editing part of a session: each edit is a new recipe, applied at once or by the worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from PySide6.QtCore import QObject, Signal

from espalier.app.jobs.lane import Listener
from espalier.app.jobs.queue import Runner
from espalier.app.number_text import percent
from espalier.app.session.edit_queue import EditQueue, EditRequest, Ended
from espalier.app.session.saved_selections import SavedSelections
from espalier.app.session.scoring_session import ScoringSession
from espalier.app.step_text import title as step_title
from espalier.app.translation import tr
from espalier.model.document.arrangement import Arrangement
from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import JobError
from espalier.model.formats.base import Format
from espalier.model.graph.graph import Graph
from espalier.model.graph.ops import offered
from espalier.model.registry import PASSES
from espalier.passes.base import Report
from espalier.passes.choices.edits import with_activation_sparsity, with_format, with_sparsity
from espalier.passes.jobs.kinds import JobInfo, ReplayJob
from espalier.passes.recipes.offered import kept
from espalier.passes.saved import recipe_with_members, with_members
from espalier.passes.unpruned import prunable


class EditingSession(ScoringSession):
    """Edits the recipe of the document, with undo and redo."""

    pending_changed = Signal()  # an edit was queued, applied or dropped
    report_ready = Signal(object)
    noticed = Signal(str, str)  # a message and a hint which are no error
    resolved = Signal(str)  # errors of this cause hold no more
    saved_selections: SavedSelections

    def __init__(self, runner: Callable[[Listener], Runner], parent: QObject | None = None) -> None:
        super().__init__(runner, parent)
        self._edits = EditQueue(self)

    def discard_edits(self) -> None:
        """Discard the queued edits, because the document is closed."""
        self._edits = EditQueue(self)

    def milestones(self) -> dict[int, Graph]:
        """Graphs after long-running steps, by their number of steps, which the project stores."""
        return self._edits.milestones(self.open_document)

    def undo(self) -> None:
        """Undo the last edit; a queued one is dropped instead."""
        if self._edits.drop_last():
            self.pending_changed.emit()
        elif self.document:
            self.document.undo()

    def redo(self) -> None:
        """Redo the last undone edit."""
        if self.document:
            self.document.redo()

    @property
    def recipe(self) -> Recipe:
        """The recipe after all queued edits."""
        return self._edits.recipe or self.open_document.recipe

    @property
    def pending_edits(self) -> tuple[str, ...]:
        """The labels of the queued edits."""
        return self._edits.labels

    def run_pass(self, name: str, options: Any) -> None:
        """Append a step of a transform, or run an analysis and emit its report."""
        options = with_members(kept(options), self.saved_selections.saved, strict=False)
        spec, step = PASSES.get(name), Step(name, options)
        if spec.kind == "analysis":
            job = self.analyse(tr(spec.title), step, self.report_ready.emit)
            self.repeats.note(job, lambda: self.run_pass(name, options), self.open_document.recipe)
        else:
            self.set_recipe(self.recipe.append(step), tr(spec.title))

    def set_format(self, ids: Sequence[str], port: str, fmt: Format | None) -> None:
        """Set the format of a port of nodes; consecutive edits of the same format type are one undo step."""
        label, key = f"{port} → {fmt.label if fmt else tr('float')}", ("format", tuple(ids), port, fmt and fmt.name)
        nodes = self.saved_selections.selecting(ids, lambda n: port in offered(n))
        self.set_recipe(with_format(self.recipe, nodes, port, fmt), label, key)

    def set_sparsity(
        self, ids: Sequence[str], ratio: float, method: str = "l1", scope: str = "local", **options: Any
    ) -> None:
        """Prune the weights of nodes. `ratio`: share of zeros; `options`: further options of the pass."""
        nodes = self.saved_selections.selecting(ids, lambda n: prunable(n, self.open_document.graph))
        recipe = with_sparsity(self.recipe, nodes, ratio, method, scope, **options)
        self.set_recipe(recipe, tr("Prune {}", percent(ratio, 0)), ("prune", tuple(ids)))

    def set_activation_sparsity(self, ids: Sequence[str], values: dict[str, Any]) -> None:
        """Prune the inputs of nodes. `values`: options of the pass."""
        recipe = with_activation_sparsity(self.recipe, self.saved_selections.selecting(ids), values)
        self.set_recipe(recipe, tr("Prune inputs {}", percent(values["sparsity"], 0)), (tr("prune inputs"), tuple(ids)))

    def set_step(self, index: int, step: Step) -> None:
        """Replace a step."""
        self.set_recipe(self.recipe.set(index, step), tr("Edit {}", step_title(step)))

    def remove_step(self, index: int) -> None:
        """Remove a step."""
        self.set_recipe(self.recipe.remove(index), tr("Remove {}", step_title(self.recipe.steps[index])))

    def move_step(self, index: int, to: int) -> None:
        """Move a step to index `to`."""
        self.set_recipe(self.recipe.move(index, to), tr("Move {}", step_title(self.recipe.steps[index])))

    def enable_step(self, index: int, enabled: bool) -> None:
        """Enable or disable a step."""
        verb = tr("Enable") if enabled else tr("Disable")
        self.set_recipe(self.recipe.enable(index, enabled), f"{verb} {step_title(self.recipe.steps[index])}")

    def set_recipe(
        self, recipe: Recipe, label: str, merge_key: object = None, *, ended: Ended | None = None
    ) -> None:  # fmt: skip
        """Replace the recipe: at once if no worker is needed, otherwise by a job. `ended`: as of EditRequest.

        Steps that name a saved selection without its nodes take those of the project.
        """
        recipe = recipe_with_members(recipe, self.saved_selections.saved, strict=False)
        self._edits.submit(EditRequest(label, recipe, merge_key, ended))
        self.pending_changed.emit()

    def arrange(self, arrangement: Arrangement, label: str) -> None:
        """Replace pins and frames on the canvas, as one undo step; nothing is computed."""
        document = self.open_document
        document.commit(label, replace(document.present, arrangement=arrangement))

    def withdraw(self, recipe: Recipe) -> None:
        """Take the edit back that leads to this very recipe: it leaves the queue, or its job is stopped."""
        if self._edits.withdraw(recipe):
            self.pending_changed.emit()
            return
        for job in [j for j in self.jobs if isinstance(j.job, ReplayJob) and j.job.recipe is recipe]:
            self.cancel(job.id)

    def graph_of(self, recipe: Recipe) -> Graph | None:
        """The graph that a recipe leads to, if it is remembered or needs no worker; else None. Raises EspalierError."""
        return self._edits.graph_of(self.open_document, recipe)

    def compute_graph(
        self, recipe: Recipe, title: str, done: Callable[[Graph], None], failed: Callable[[JobError], None]
    ) -> JobInfo:
        """Run a recipe in the worker without changing the document; `done` receives the graph."""
        return self._edits.compute(self.open_document, recipe, title, done, failed)

    def discard_results(self) -> None:
        """Discard remembered results, because plug-ins changed; steps run again when next needed."""
        self._edits.restart(self.document)

    def step_reports(self, recipe: Recipe | None = None) -> tuple[Report | None, ...]:
        """The report of each active step of a recipe, by default the document's; None where there is none."""
        return self._edits.reports(recipe or self.document.recipe) if self.document else ()

    def _ended(self, job: JobInfo) -> None:
        if isinstance(job.job, ReplayJob) and not job.job.beside:
            self._edits.start_next()
            self.pending_changed.emit()
