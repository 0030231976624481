"""Base of Model for steps: passes, recipe, undo. Every step creates a new frozen project."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from espalier.app.api.data import Data, Given, check_labels, given
from espalier.app.api.methods import method, options_from, positional
from espalier.app.api.reports import Report, Steps, UnknownNameError
from espalier.app.api.selections import SavedSelections
from espalier.app.api.task import with_task
from espalier.app.commands.known_steps import known_steps
from espalier.app.commands.opening import Target, explaining, functions_of
from espalier.model.document.recipe import Recipe, Step
from espalier.model.document.selections import with_selections
from espalier.model.errors import OptionsError, SourceError, nearest
from espalier.model.leftovers import Scratch
from espalier.model.opening import Opened
from espalier.model.registry import PASSES
from espalier.model.store.open_files import Version
from espalier.passes.base import Context, PassSpec, run_step
from espalier.passes.recipes.config import load_recipe
from espalier.passes.recipes.replay import check_ready, milestones, replay
from espalier.passes.recipes.set_up import check_set_up, extended, from_anywhere, options_of
from espalier.passes.saved import recipe_with_members, with_members

if TYPE_CHECKING:
    from espalier.model.document.project import Project
    from espalier.model.graph.graph import Graph
    from espalier.passes.tasks.own import Functions

Progress = Callable[[int, int, str], None]
MEASURING = ("evaluate", "sensitivity")  # passes with the source's data as default
LABELLED = ("evaluate", "predictions")  # passes that need labels


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Workplace:
    """State shared by all copies of a model: working folder, opened source, functions of its code, and `versions` of
    the project files that they opened or saved.

    The folder is deleted with the last copy or at exit.
    """

    scratch: Scratch
    opened: Opened
    callables: dict[str, Any]
    refused: SourceError | None
    progress: Progress
    versions: dict[Path, Version] = field(default_factory=dict[Path, Version])

    @classmethod
    def of(cls, opened: Opened, scratch: Scratch, progress: Progress, *, is_project: bool) -> Workplace:
        """Create with the functions of opaque nodes; a project's source is reopened for them."""
        callables, refused = opened.callables, None
        if not callables and is_project:
            callables, refused = functions_of(opened.project, scratch.folder)
        place = cls(scratch, opened, callables, refused, progress)
        weakref.finalize(place, scratch.close)
        return place


class Editable:
    """Passes, recipe and undo of a model."""

    def __init__(self, place: Workplace, project: Project, *, held: Iterable[Any] = ()) -> None:
        self._place = place
        self._project = project
        self._held = list[Any](held)  # keeps arrays and functions of steps alive
        self._undone: list[Project] = []
        self._before: list[Project] = []

    # -- state

    @property
    def project(self) -> Project:
        """The frozen project behind it (graph, recipe, source); its classes are no part of the stable interface."""
        return self._project

    @property
    def graph(self) -> Graph:
        """The graph as a frozen value: `nodes` by id, `weights`, `edges()`; its classes are not part of the interface.

        Example:
            len(m.graph)
        """
        return self._project.graph

    @property
    def recipe(self) -> Steps:
        """The steps so far, as a value: `.rows`, `.to_dict()`, `.to_toml()`, and an argument of `apply`.

        Example:
            m.quantize("linear", weight="int8").recipe.rows[0]["pass"]    # 'quantize'
        """
        return Steps(self._project.recipe)

    @property
    def selections(self) -> SavedSelections:
        """The saved selections of the project: name → node ids, read and written as a dict is.

        A step that selects by "saved:NAME" takes the nodes of then; a later change of the selection leaves it as it is.

        Example:
            m.selections["queries"] = m.nodes("regex:query$")
            m.quantize("saved:queries", weight="int4")
        """
        return SavedSelections(lambda: self._project, self._keep_selections)

    @property
    def _graph(self) -> Graph:
        return self._project.graph

    def _context(self, seed: int = 0) -> Context:
        place, project = self._place, self._project
        return Context(place.opened.store, seed, place.progress, place.callables, project.source.reading,
                       base=project.base, source=project.source)  # fmt: skip

    def _target(self, seed: int = 0) -> Target:
        """The model as Target for functions of the command line."""
        return Target(replace(self._place.opened, project=self._project), self._context(seed))

    # -- steps

    def run(self, pass_name: str, select: Any = None, /, *, seed: int = 0, **options: Any) -> Any:
        """Run a registered pass by its name; every pass is also a method of that name.

        A pass with the option `task` also takes `loss=` and `metric=`, functions of (outputs, labels): see `es.Task`.

        Args:
            pass_name: such as "quantize"; a plug-in's pass too.
            select: the nodes, for passes that select some: a type, a name, a list, "all", "regex:…", "module:…". For
                passes of the whole model that take data: the data.
            seed: of what the pass draws; equal seeds give equal results.
            options: the pass's own, as `espalier run` and the form in the window have them.

        Returns:
            The model itself after a transform, a Report after an analysis.

        Raises:
            OptionsError: there is no such pass or option, or a value is impossible; names the nearest.
            PassError, DataError: the pass cannot work on this model, or on these data.

        Example:
            m.run("prune", "linear", sparsity=0.5)
        """
        spec: PassSpec = PASSES.get(pass_name)
        if select is not None and positional(spec) == "data":
            if "data" in options:
                raise OptionsError(f"{spec.name} is given data twice.", "Leave out the first argument or data=.")
            select, options = None, {**options, "data": select}
        options, task = with_task(options, spec.options)
        data = self._given(options["data"], spec, options, task) if options.get("data") is not None else None
        values = options if data is None else {**options, "data": data.spec}
        if pass_name in MEASURING and "data" not in values:
            values = {**values, "data": self._project.source.data or ""}
        options = with_members(options_from(spec, select, values, self._graph), self.selections)
        step = Step(spec.name, options, seed)
        if spec.kind == "analysis":
            return self._analysed(step)
        self._held += [held for held in (data if data and data.held else None, task) if held is not None]
        return self._applied(Recipe((step,)))

    def apply(self, recipe: Steps | str | PathLike[str] | Mapping[str, Any], *, seed: int = 0) -> Self:
        """Run the steps of a recipe after the present ones.

        Args:
            recipe: another model's `recipe`, the `recipe` of an allocation or a study, a TOML or JSON file, or a dict
                `{"steps": […]}`, or one from pass names to options (also those of the MASE labs).
            seed: of steps that name none.

        Returns:
            The model itself.

        Raises:
            OptionsError: with the path of what is wrong in the recipe.
            PassError, DataError: a step cannot run; those before it are not kept.

        Example:
            m.apply({"quantize": {"by": "type", "linear": {"config": {"name": "integer", "weight_width": 8}}}})
        """
        if isinstance(recipe, Steps):
            return self._replaced(recipe.recipe) if recipe.from_opened else self._applied(recipe.recipe)
        source = recipe if isinstance(recipe, Mapping) else Path(recipe)
        return self._applied(load_recipe(source, seed))

    def undo(self, count: int = 1) -> Self:
        """Undo the last `count` calls that changed the model; no effect if there are none.

        Example:
            m.prune("linear", sparsity=0.9).undo()
        """
        for _ in range(min(count, len(self._before))):
            self._undone.append(self._project)
            self._project = self._before.pop()
        return self

    def redo(self, count: int = 1) -> Self:
        """Redo the last `count` undone calls.

        Example:
            m.undo().redo()
        """
        for _ in range(min(count, len(self._undone))):
            self._before.append(self._project)
            self._project = self._undone.pop()
        return self

    def copy(self) -> Self:
        """An independent model with the same steps and history; tensors are shared, so that it costs nothing.

        Example:
            half = m.copy().prune("linear", sparsity=0.5)
            es.diff(m, half)
        """
        copy = type(self)(self._place, self._project, held=self._held)
        copy._before, copy._undone = list(self._before), list(self._undone)
        return copy

    def __getattr__(self, name: str) -> Any:
        """A pass of a plug-in; other names raise the nearest."""
        if name.startswith("_"):
            raise AttributeError(name)
        if name in PASSES:
            return method(PASSES.get(name)).__get__(self)
        known = {n for n in dir(type(self)) if not n.startswith("_")} | set(PASSES)
        raise UnknownNameError(f"A model has no pass or method {name!r}.", nearest(name, known))

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(n for n in PASSES if n.isidentifier())})

    # -- inner

    def _given(self, data: Data, spec: PassSpec, options: Mapping[str, Any], task: Functions | None) -> Given:
        if not hasattr(spec.options, "__dataclass_fields__") or "data" not in spec.options.__dataclass_fields__:
            raise OptionsError(f"{spec.name} takes no data.", "Leave data out.")
        source = given(data, self._graph, self._context(), int(options.get("limit") or 0), task)
        if spec.name in LABELLED:
            check_labels(source)
        return source

    def _analysed(self, step: Step) -> Report:
        context = self._context(step.seed)
        with explaining(self._place.refused):
            done = run_step(self._graph, step, context)
        return Report(step.pass_name, dict(done.report.summary), tuple(map(dict, done.report.rows)), done.seconds)

    def _applied(self, recipe: Recipe) -> Self:
        recipe = recipe_with_members(from_anywhere(recipe), self.selections)
        check_ready(recipe)
        context = self._context()
        with explaining(self._place.refused):
            check_set_up(options_of(recipe.active), self._graph, context)
            done = replay(self._graph, recipe, context)
        self._change(extended(self._project, recipe, done))
        return self

    def _replaced(self, recipe: Recipe) -> Self:
        """Replace the complete recipe; common leading steps do not run again."""
        context = self._context()
        with explaining(self._place.refused):
            done = replay(self._project.base, recipe, context, known_steps(self._target()))
        stored = milestones(recipe, done.results)
        self._change(replace(self._project, recipe=recipe, graph=done.graph, milestones=stored))
        return self

    def _keep_selections(self, selections: dict[str, tuple[str, ...]]) -> None:
        self._change(with_selections(self._project, selections))

    def _change(self, project: Project) -> None:
        self._before.append(self._project)
        self._undone.clear()
        self._project = project
