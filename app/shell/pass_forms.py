"""Forms for the options of passes; a form appends a step, edits a step or runs an analysis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from PySide6.QtWidgets import QWidget

from espalier.app.features.options.panel import OptionsWindow, make_form
from espalier.app.features.tables.state import document_reports_of
from espalier.app.shell.pass_defaults import default_options
from espalier.app.shell.sections import TABULATED, section_of
from espalier.app.translation import tr
from espalier.model.document.recipe import Step
from espalier.model.errors import OptionsError
from espalier.model.registry import PASSES
from espalier.passes.base import NoOptions, PassSpec
from espalier.passes.recipes.offered import kept, typed

if TYPE_CHECKING:
    from espalier.app.features.tables.panel import TablesPanel
    from espalier.app.host import Host

PANELS = {"finetune": "training"}  # passes with a panel instead of a form


class PassForms:
    """Shows the forms of one window, as windows beside it."""

    def __init__(self, parent: QWidget, host: Host) -> None:
        self._parent, self._host, self._session = parent, host, host.session

    def _tables(self) -> TablesPanel:
        return tables_of(self._host)

    def show(
        self,
        spec: PassSpec,
        options: Any,
        apply: Callable[[Any], object],
        verb: str = tr("Apply"),
        about: object = None,
    ) -> None:
        """Show the form of a pass; one form per pass, or per step if `about` is a Step."""
        subject = (spec.name, about)
        windows = self._parent.findChildren(OptionsWindow)
        window = next((w for w in windows if w.subject == subject and not w.isHidden()), None)
        if window:
            window.offer(options)
            return
        form = make_form(options, self._session)
        window = OptionsWindow(self._parent, self._session, spec, form, verb, apply, subject)
        if isinstance(about, Step):
            window.sweepable = True
            window.sweep_wanted.connect(lambda path: self._sweep(about, path))
        window.show()

    def sweep_step(self, index: int) -> None:
        """Set up a sweep of the step at `index` of the recipe."""
        self._sweep(self._session.recipe.steps[index])

    def _sweep(self, step: Step, path: str | None = None) -> None:
        """Set up a sweep of an option of a step, at its index in the document's recipe, which sweeps read."""
        index = next((i for i, s in enumerate(self._session.open_document.recipe.steps) if s is step), None)
        if index is None:
            message = tr("This step has not run yet, or has changed.")
            self._host.banner.show_message(message, tr("Sweep it when the queued edits are done."))
        else:
            self._host.show_dock("sweeps")
            from espalier.app.features.sweep.panel import SweepsPanel

            sweeps = self._host.panel("sweeps")
            assert isinstance(sweeps, SweepsPanel)
            sweeps.preset(index, path)

    def train(self, options: Any) -> None:
        """Append a training step; its report is shown when it is done."""
        document_reports_of(self._session).expect("finetune")
        self._session.run_pass("finetune", options)

    def ask(self, name: str) -> None:
        """Show the form of a pass, if it has options; Apply appends a step, whose report is shown when it is done."""
        spec: PassSpec = PASSES.get(name)
        if name in PANELS:
            self._host.enter_dock(PANELS[name])
            return

        def append(options: Any) -> None:
            if section_of(name) in TABULATED:
                document_reports_of(self._session).expect(name)
            self._session.run_pass(name, options)

        if spec.options is NoOptions:
            append(spec.options())
        else:
            self.show(spec, default_options(self._session, spec), append)

    def edit_step(self, index: int) -> None:
        """Show the options of a step; Apply replaces them."""
        step = self._session.recipe.steps[index]
        if step.pass_name not in PASSES:
            text = tr("The pass {} is not available, so its options cannot be edited.", step.pass_name)
            self._host.banner.show_message(text, tr("Add its plug-in under Model → Plug-ins…, or switch the step off."))
            return
        spec: PassSpec = PASSES.get(step.pass_name)
        if spec.options is NoOptions:
            self._host.banner.show_message(
                tr("{} has no options.", tr(spec.title)), tr("Switch it off, move it or remove it in the recipe.")
            )
            return
        try:
            options = typed(step.pass_name, step.options)
        except OptionsError as error:  # the options of the plug-in have changed
            self._host.banner.show_error(error)
            options = spec.options()
        self.show(spec, options, lambda o: self._replace_step(step, kept(o)), about=step)

    def _replace_step(self, step: Step, options: Any) -> None:
        """Replace the options of a step at its present index. Raises OptionsError if the step was removed."""
        indices = [i for i, s in enumerate(self._session.recipe.steps) if s is step]
        if not indices:
            raise OptionsError("This step has been changed or removed.", "Close the form and open it again.")
        self._session.set_step(indices[0], replace(step, options=options))

    def run_plugin(self, name: str) -> None:
        """Run a pass of a plug-in, after its form if it has options; the report of an analysis becomes a table."""
        spec: PassSpec = PASSES.get(name)

        def run(options: Any) -> None:
            if spec.kind == "analysis":
                self._host.show_dock("tables")
                self._tables().wait_for(name)
            self._session.run_pass(name, options)

        options = default_options(self._session, spec)
        if fields(options):
            self.show(spec, options, run, tr("Run") if spec.kind == "analysis" else tr("Apply"))
        else:
            run(options)


def tables_of(host: Host) -> TablesPanel:
    """The panel of the reports."""
    from espalier.app.features.tables.panel import TablesPanel

    panel = host.panel("tables")
    assert isinstance(panel, TablesPanel)
    return panel
