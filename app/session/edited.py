"""The part of a session that edits: each edit is another recipe, made at once or by the worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from PySide6.QtCore import QObject, Signal

from espalier.app.jobs.queue import Runner
from espalier.app.jobs.runner import Listener
from espalier.app.session.edits import Edits, Wish
from espalier.app.session.scored import Scored
from espalier.app.step_words import title as step_title
from espalier.app.words import percent
from espalier.model.document.recipe import Recipe, Step
from espalier.model.formats.base import Format
from espalier.model.graph.graph import Graph
from espalier.model.registry import PASSES
from espalier.passes.base import Report
from espalier.passes.choices.edits import with_activation_sparsity, with_format, with_sparsity
from espalier.passes.jobs.kinds import JobInfo, ReplayJob
from espalier.passes.recipes.offered import kept


class Edited(Scored):
    """Changes the recipe of the document."""

    wished = Signal()  # an edit waits for the worker, or one that waited is done or dropped
    report_ready = Signal(object)

    def __init__(self, runner: Callable[[Listener], Runner], parent: QObject | None = None) -> None:
        super().__init__(runner, parent)
        self._edits = Edits(self)

    def forget_edits(self) -> None:
        """Drop what waits: the document is closed."""
        self._edits = Edits(self)

    def milestones(self) -> dict[int, Graph]:
        """Graphs after steps that took long, by their number of steps: the project keeps them."""
        return self._edits.milestones(self.open_document)

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

    def _ended(self, job: JobInfo) -> None:
        if isinstance(job.job, ReplayJob):
            self._edits.next()
            self.wished.emit()
