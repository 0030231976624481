"""The menu Model: passes by section, reports, plug-ins."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from PySide6.QtWidgets import QMenu

from espalier.app.features.tables.panel import reports as report_specs
from espalier.app.menu import Action, always
from espalier.app.shell.sections import sections
from espalier.app.translation import tr
from espalier.passes.base import NoOptions

if TYPE_CHECKING:
    from espalier.app.session.session import Session
    from espalier.app.shell.exports import Exports
    from espalier.app.shell.pass_forms import PassForms
    from espalier.app.shell.plugins import Plugins
    from espalier.app.shell.reports import Reports


def rows(
    session: Session, forms: PassForms, reports: Reports, exports: Exports, show_plugins: Callable[[], object]
) -> list[Action]:
    """Rows for the built-in transforms by section, the reports and the window Plug-ins."""
    # Fields of a row that differ from the default: id, key, title on the toolbar, when it is enabled.
    extras: dict[str, dict[str, Any]] = {
        "quantize": {"id": "quantise", "key": "Ctrl+Shift+Q", "tool": tr("Quantise…")},
        "prune": {"key": "Ctrl+Shift+R", "tool": tr("Prune…")},
        "finetune": {"key": "Ctrl+Shift+T"},
        "remove_dropout": {"needs": partial(has_dropout, session)},
        "fuse_lora": {"needs": exports.has_adapters},
    }
    return [
        *(Action(**{
            "id": s.name, "title": tr(s.title) + "…" * (s.options is not NoOptions), "menu": "Model",
            "run": partial(forms.ask, s.name), "help": s.doc.split("\n")[0], "section": section, "group": group,
            **extras.get(s.name, {}),
        }) for group, (section, specs) in enumerate(sections().items()) for s in specs),
        *(Action(f"report_{s.name}", s.title, "Model/Report", partial(reports.run, s.name),
                 help=s.doc.split("\n")[0], group=20) for s in report_specs()),
        Action("plugins", "Plug-ins…", "Model", show_plugins, needs=always, group=21,
               help="Your own passes and formats: add, remove, reload"),
    ]  # fmt: skip


def has_dropout(session: Session) -> bool:
    """Whether the graph has a dropout node."""
    return session.document is not None and any(n.op == "dropout" for n in session.document.graph)


def fill_plugins(menu: QMenu, plugins: Plugins, forms: PassForms, is_open: bool) -> None:
    """Fill a menu with the passes of plug-ins, enabled if a model is open."""
    menu.clear()
    for spec in plugins.specs:
        action = menu.addAction(tr(spec.title).replace("&", "&&"), partial(forms.run_plugin, spec.name))
        action.setToolTip(tr(spec.doc.split("\n")[0]))
        action.setEnabled(is_open)
    if not plugins.specs:
        menu.addAction(tr("No passes of plug-ins")).setEnabled(False)
