"""Reports: made as they were made last, or after their options were asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from espalier.app.shell.pass_defaults import default_options
from espalier.app.shell.pass_forms import tables_of
from espalier.app.shell.sections import section_of
from espalier.model.registry import PASSES
from espalier.passes.base import PassSpec

if TYPE_CHECKING:
    from espalier.app.features.tables.panel import TablesPanel
    from espalier.app.host import Host
    from espalier.app.shell.pass_forms import PassForms


class Reporting:
    """What the submenu Report and the panel Tables ask for."""

    def __init__(self, host: Host, forms: PassForms) -> None:
        self._host, self._session, self._forms = host, host.session, forms

    def _tables(self) -> TablesPanel:
        return tables_of(self._host)

    def make(self, name: str) -> None:
        """Make a report as it was made last; one that can use data is asked for them first where none are known."""
        held = self._tables().used.get(name)
        options = default_options(self._session, PASSES.get(name)) if held is None else held
        if held is None and getattr(options, "data", None) == "":
            self.ask(name)
        else:
            self.make_with(name, options)

    def make_with(self, name: str, options: Any) -> None:
        """Make a report with these options and bring the tables up."""
        self._host.show_dock("tables")
        self._tables().used[name] = options
        self._tables().wait_for(name)
        self._session.run_pass(name, options)

    def show_step_report(self, name: str) -> None:
        """Bring the table of a step that was asked for to the front; of a training its plots stay there."""
        if section_of(name) != "Train":
            self._host.show_dock("tables")

    def ask(self, name: str) -> None:
        """Ask for a report's options, such as its data, then make it."""
        spec: PassSpec = PASSES.get(name)
        options = self._tables().used.get(name) or default_options(self._session, spec)
        self._forms.show(spec, options, lambda o: self.make_with(name, o), "Run")
