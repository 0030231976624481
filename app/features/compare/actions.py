"""Actions of the menu rows of Compare, and the connections of its panel to the window."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast
from weakref import WeakKeyDictionary, ref

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence, QShortcut
from shiboken6 import isValid

from espalier.app.translation import tr

if TYPE_CHECKING:
    from espalier.app.features.compare.panel import ComparePanel
    from espalier.app.features.compare.state.comparing import Place
    from espalier.app.host import Host

_PANELS: WeakKeyDictionary[Host, ref[ComparePanel]] = WeakKeyDictionary()


def existing_panel(host: Host) -> ComparePanel | None:
    """The panel, if it was shown before; cached, since actions ask at every selection and a search takes 0.8 ms."""
    panel = reference() if (reference := _PANELS.get(host)) else None
    return panel if panel is not None and isValid(panel) else None


def panel_of(host: Host) -> ComparePanel:
    """The panel, made when it is first shown."""
    from espalier.app.features.compare.panel import ComparePanel

    host.build_panels()
    panel = existing_panel(host)
    if panel is None:
        panel = ComparePanel(host.session, host.canvas.window())
        panel.hide()
        _PANELS[host] = ref(panel)
        connect(host, panel)
    return panel


def connect(host: Host, panel: ComparePanel) -> None:
    """Connect the panel's signals to the window."""
    panel.file_wanted.connect(lambda place: ask_file(host, panel, place))
    panel.save_wanted.connect(lambda: save(host, panel))
    panel.pinned.connect(host.mark_changed)
    panel.comparing.changed.connect(host.refresh_actions)
    panel.selectors.leave.clicked.connect(lambda: hide(host))
    host.session.opened.connect(lambda: leave(host, panel))
    escape = QShortcut(QKeySequence(Qt.Key.Key_Escape), panel)
    escape.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
    escape.activated.connect(lambda: hide(host))


def is_shown(host: Host) -> bool:
    """Whether the panel covers the graph."""
    panel = existing_panel(host)
    return panel is not None and panel.comparing.active


def toggle(host: Host) -> None:
    """Show the panel, or the graph again."""
    (hide if is_shown(host) else show)(host)


def show(host: Host) -> None:
    """Show the panel in place of graph and docks."""
    panel = panel_of(host)
    panel.comparing.set_visible(True)
    host.cover(panel)
    panel.table.setFocus()


def hide(host: Host) -> None:
    """Show the graph again."""
    panel = existing_panel(host)
    if panel is not None and panel.comparing.active:
        panel.comparing.set_visible(False)
        host.cover(None)
        host.canvas.setFocus()


def leave(host: Host, panel: ComparePanel) -> None:
    """Show the graph after a change of documents. The panel may be in front but hidden by the welcome page."""
    panel.comparing.set_visible(False)
    host.cover(None)


def pin(host: Host) -> None:
    """Pin the present state under a name."""
    panel_of(host).ask_pin()


def use(host: Host) -> None:
    """Make B's recipe the document's."""
    panel_of(host).comparing.use("b")


def step(host: Host, by: int) -> None:
    """Go to the next or previous difference."""
    panel_of(host).table.step(by)


def is_compared(host: Host) -> bool:
    """Whether the panel shows a comparison."""
    panel = existing_panel(host)
    return panel is not None and panel.comparing.active and panel.comparing.result is not None


def ask_file(host: Host, panel: ComparePanel, side: str) -> None:
    """Ask for a model or a project to compare with."""
    host.ask_model(tr("Compare with a model or project"), lambda source: panel.choose_file(cast("Place", side), source))


def save(host: Host, panel: ComparePanel) -> None:
    """Ask for a file, and write the differences into it."""
    write = lambda path: host.report_errors(lambda: panel.save(path))  # noqa: E731
    host.ask_path(tr("Save the differences"), write, save=True, names=tr("Differences (*.html *.csv *.json *.txt)"),
                  suggestion="differences.html")  # fmt: skip
