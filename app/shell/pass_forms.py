"""Runs passes as steps of the recipe, after a form for their options where they have any."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from PySide6.QtWidgets import QWidget

from espalier.app.features.options.panel import OptionsWindow, make_form
from espalier.app.shell.pass_defaults import default_options
from espalier.app.shell.sections import TOLD, section_of
from espalier.model.document.recipe import Step
from espalier.model.errors import OptionsError
from espalier.model.registry import PASSES
from espalier.passes.base import NoOptions, PassSpec
from espalier.passes.recipes.offered import kept, typed

if TYPE_CHECKING:
    from espalier.app.features.tables.panel import TablesPanel
    from espalier.app.host import Host

PANELS = {"finetune": "training"}  # passes with a panel of their own in place of a form


class PassForms:
    """Forms of passes and of steps that were done, beside the work."""

    def __init__(self, parent: QWidget, host: Host) -> None:
        self._parent, self._host, self._session = parent, host, host.session

    def _tables(self) -> TablesPanel:
        return tables_of(self._host)

    def show(
        self,
        spec: PassSpec,
        options: Any,
        apply: Callable[[Any], object],
        verb: str = "Apply",
        about: object = None,
    ) -> None:
        """Show the form of a pass's options beside the work: one form for one pass, or for one step (`about`)."""
        subject = (spec.name, about)
        windows = self._parent.findChildren(OptionsWindow)
        held = next((p for p in windows if p.subject == subject and not p.isHidden()), None)
        if held:
            held.offer(options)
            return
        form = make_form(options, self._session)
        made = OptionsWindow(self._parent, self._session, spec, form, verb, apply, subject)
        if isinstance(about, Step):
            made.sweepable = True
            made.sweep_wanted.connect(lambda path: self._sweep(about, path))
        made.show()

    def sweep_step(self, index: int) -> None:
        """Begin a sweep of the step at a place in the recipe as it is edited."""
        self._sweep(self._session.recipe.steps[index])

    def _sweep(self, step: Step, path: str | None = None) -> None:
        """Begin a sweep of an option of a step, wherever it stands by now: sweeps are of the recipe that is done."""
        place = next((i for i, s in enumerate(self._session.open_document.recipe.steps) if s is step), None)
        if place is None:
            self._host.banner.tell(
                "This step is not done yet, or has been changed.", "Sweep it when the recipe is done."
            )
        else:
            self._host.show_dock("sweeps")
            from espalier.app.features.sweep.panel import SweepsPanel

            sweeps = self._host.panel("sweeps")
            assert isinstance(sweeps, SweepsPanel)
            sweeps.preset(place, path)

    def train(self, options: Any) -> None:
        """Append a training to the recipe; its plots and its report are shown."""
        self._tables().expect("finetune")
        self._session.run_pass("finetune", options)

    def ask(self, name: str) -> None:
        """Show a pass's options, if it has any; Apply appends the step, and its report is shown when it is done."""
        spec: PassSpec = PASSES.get(name)
        if name in PANELS:
            self._host.enter_dock(PANELS[name])
            return

        def go(options: Any) -> None:
            if section_of(name) in TOLD:
                self._tables().expect(name)
            self._session.run_pass(name, options)

        if spec.options is NoOptions:
            go(spec.options())
        else:
            self.show(spec, default_options(self._session, spec), go)

    def edit_step(self, index: int) -> None:
        """Show the options of a step that was done; Apply replaces them."""
        step = self._session.recipe.steps[index]
        if step.pass_name not in PASSES:
            text = f"The pass {step.pass_name} is not available, so its options cannot be edited."
            self._host.banner.tell(text, "Add its plug-in under Model → Plug-ins…, or switch the step off.")
            return
        spec: PassSpec = PASSES.get(step.pass_name)
        if spec.options is NoOptions:
            self._host.banner.tell(
                f"{spec.title} has no options.", "Switch it off, move it or remove it in the recipe."
            )
            return
        try:
            options = typed(step.pass_name, step.options)
        except OptionsError as error:  # the plug-in has other options by now
            self._host.banner.error(error)
            options = spec.options()
        self.show(spec, options, lambda o: self._replace_step(step, kept(o)), about=step)

    def _replace_step(self, step: Step, options: Any) -> None:
        """Give a step other options, wherever it stands by now; raises OptionsError when it has gone."""
        places = [i for i, s in enumerate(self._session.recipe.steps) if s is step]
        if not places:
            raise OptionsError("This step has been changed or removed.", "Close the form and open it again.")
        self._session.set_step(places[0], replace(step, options=options))

    def run_plugin(self, name: str) -> None:
        """Run a plug-in's pass, after asking for its options if it has any; an analysis makes a table."""
        spec: PassSpec = PASSES.get(name)

        def go(options: Any) -> None:
            if spec.kind == "analysis":
                self._host.show_dock("tables")
                self._tables().wait_for(name)
            self._session.run_pass(name, options)

        options = default_options(self._session, spec)
        if fields(options):
            self.show(spec, options, go, "Run" if spec.kind == "analysis" else "Apply")
        else:
            go(options)


def tables_of(host: Host) -> TablesPanel:
    """The panel of the reports."""
    from espalier.app.features.tables.panel import TablesPanel

    panel = host.panel("tables")
    assert isinstance(panel, TablesPanel)
    return panel
