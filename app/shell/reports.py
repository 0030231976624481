"""Runs analyses whose report the panel Tables shows."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from espalier.app.features.tables.state import document_reports_of
from espalier.app.shell.pass_defaults import default_options
from espalier.app.shell.pass_forms import tables_of
from espalier.app.shell.sections import section_of
from espalier.app.translation import tr
from espalier.model.registry import PASSES
from espalier.passes.base import PassSpec

if TYPE_CHECKING:
    from espalier.app.features.tables.panel import TablesPanel
    from espalier.app.host import Host
    from espalier.app.shell.pass_forms import PassForms


class Reports:
    """Runs the reports of the submenu Report and of the panel Tables."""

    def __init__(self, host: Host, forms: PassForms) -> None:
        self._host, self._session, self._forms = host, host.session, forms
        self._state = document_reports_of(host.session)

    def _tables(self) -> TablesPanel:
        return tables_of(self._host)

    def run(self, name: str) -> None:
        """Run a report with its last options; ask first for data or another required option that is not set."""
        last = self._state.used.get(name)
        options = default_options(self._session, PASSES.get(name)) if last is None else last
        if last is None and _is_incomplete(options):
            self.ask(name)
        else:
            self.run_with(name, options)

    def run_with(self, name: str, options: Any) -> None:
        """Run a report with these options and show the panel Tables."""
        self._host.show_dock("tables")
        self._state.used[name] = options
        self._tables().wait_for(name)
        self._session.run_pass(name, options)

    def show_step_report(self, name: str) -> None:
        """Show the report of a step in the panel Tables; a training keeps its plots in front."""
        if section_of(name) != "Train":
            self._host.show_dock("tables")

    def ask(self, name: str) -> None:
        """Ask for the options of a report, then run it."""
        spec: PassSpec = PASSES.get(name)
        options = self._state.used.get(name) or default_options(self._session, spec)
        self._forms.show(spec, options, lambda o: self.run_with(name, o), tr("Run"))


def _is_incomplete(options: Any) -> bool:
    """Whether the data or a field that is marked as required are not set."""
    required = [f.name for f in fields(options) if f.name == "data" or f.metadata.get("required")]
    return any(getattr(options, name) == "" for name in required)
