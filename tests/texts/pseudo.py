"""The window in a language in which every text that is looked up is bracketed; a process of its own, see `main`."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QSettings, QThreadPool
from PySide6.QtWidgets import QDialog, QMenu, QTabBar, QWidget

from espalier.app import translation
from espalier.model.errors import OptionsError
from tests.texts.results import visit_results
from tests.texts.settling import settle, wait
from tests.texts.walk import Shown, shown

if TYPE_CHECKING:
    from espalier.app.shell.window import Window

OPEN, CLOSE = "⟦", "⟧"


def bracketed(text: str) -> str:
    """The text in the pseudo language: brackets around all of it but the places of its values."""
    parts = re.split(r"(\{[^{}]*(?:\{\d*\}[^{}]*)*\}|%n)", text) if translation.places(text) else [text]
    return "".join(
        f"{OPEN}{p}{CLOSE}" if any(c.isalpha() for c in p) and i % 2 == 0 else p for i, p in enumerate(parts)
    )


def main(spec: str) -> int:
    """Open `spec`, visit all places, and print what was looked up and {place: [[text, part, widget], …]} as JSON."""
    asked: set[str] = set()

    def lookup(text: str, number: int) -> str:
        asked.add(text)
        return bracketed(text)

    translation.install(lookup)
    from espalier.app.settings import Settings
    from espalier.app.shell.application import make_application, make_window

    app = make_application()
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(QSettings(f"{folder}/settings.ini", QSettings.Format.IniFormat))
        window = make_window(app, settings, "light")
        window.resize(1440, 900)
        window.show()
        found: dict[str, set[Shown]] = {}

        def look(place: str, root: QWidget | None = None) -> None:
            settle()
            found.setdefault(place, set()).update(shown(root or window))

        names: set[str] = set()
        try:
            visit(window, spec, look, names)
            names |= names_of(window)
        finally:
            window.close_now()
            QThreadPool.globalInstance().waitForDone(5000)
    result = {
        "names": sorted(names),
        "asked": sorted(asked),
        "shown": {p: sorted(map(list, t)) for p, t in found.items()},
    }
    print("RESULT" + json.dumps(result))
    return 0


def names_of(window: Window) -> set[str]:
    """Names of the model and its data (nodes, operations, axes, types, classes), and keys of what is registered."""
    from espalier.app.features.edits.insertable import OPERATIONS
    from espalier.app.features.edits.offers import ACTIVATIONS, NORMS
    from espalier.app.figures.captions import TITLES
    from espalier.kernels.bench.spec import KERNELS
    from espalier.model.registry import FORMATS, PASSES
    from espalier.model.sources.demos import DEMOS
    from espalier.passes.export.targets import TARGETS
    from espalier.passes.sharding.presets import PRESETS
    from espalier.passes.tasks.base import TASKS

    document = window.session.document
    assert document is not None
    graph, source = document.graph, document.project.source
    found = {source.name, source.spec, *graph.symbols, *map(str, source.inputs)}
    for node in graph:
        found |= {node.id, node.op, node.target, node.module_path, node.source, node.call, *node.ports}
        found |= (
            {m.dtype for m in node.ports.values()}
            | {*map(str, (*node.attrs, *node.attrs.values()))}
            | {p.upper() for p in node.ports}
        )
    for registry in (FORMATS, PASSES, TARGETS, PRESETS, TASKS):
        found |= {str(name) for name in registry}
    found |= {f"demo:{name}" for name in DEMOS} | {*TITLES.values()} | {o.title for o in OPERATIONS}
    found |= {v.name for _, kernel in KERNELS.items() for v in kernel.versions}
    found |= {*ACTIVATIONS.values(), *NORMS.values()} | {t for _, f in FORMATS.items() for t in (f.formula, f.source)}
    return {*found, "negative", "positive", "train", "validation", "test", "all", "English"}  # of the demo


def visit(window: Window, spec: str, look: Callable[..., None], names: set[str]) -> None:
    """Go through the start page, all workspaces and panels, the menus, the dialogs and the forms."""
    look("start")
    window.begin_opening(spec)
    wait(window)
    names |= names_of(window)  # edits remove some
    for menu in window.findChildren(QMenu):
        menu.aboutToShow.emit()
    _visit_panels(window, look)
    _visit_dialogs(window, look)
    _visit_edits(window, look)
    visit_results(window, look)


def _visit_panels(window: Window, look: Callable[..., None]) -> None:
    from espalier.app.shell.docks import DOCKS
    from espalier.app.shell.workspaces import WORKSPACES

    for workspace in WORKSPACES:
        window.pages.workbench.bar.buttons[workspace.id].click()
        look(f"workspace {workspace.id}")
    for dock in DOCKS:
        window.docks.bring(dock.id)
        panel = window.docks.panels[dock.id]
        look(f"panel {dock.id}", panel)
        for bar in panel.findChildren(QTabBar):
            for at in range(bar.count()):
                bar.setCurrentIndex(at)
                look(f"panel {dock.id}, tab {at}", panel)


def _visit_dialogs(window: Window, look: Callable[..., None]) -> None:
    for name in ("shortcuts", "plugins", "about", "history", "tour", "search", "compare"):
        window.actions_table.run(name)
        settle()
        for dialog in window.findChildren(QDialog):
            look(f"dialog {name}", dialog)
            dialog.close()
        look(f"after {name}")
    window.actions_table.run("compare")
    window.services.what_is.explain("mxint4")
    look("what is")
    window.banner.show_error(
        OptionsError("There is no data to measure on.", "Choose a file or folder, or name a demo.")
    )
    look("an error")
    window.banner.clear()


def _visit_edits(window: Window, look: Callable[..., None]) -> None:
    """A selected layer with its menu, several layers, a recipe, and the form of each pass."""
    from espalier.app.features.edits.context_menu import NodeMenu
    from espalier.app.features.options.panel import OptionsWindow
    from espalier.app.shell.sections import sections
    from espalier.model.formats.base import parse_format

    session = window.session
    layers = [n.id for n in session.open_document.graph if n.op == "linear"]
    session.set_format(layers[:1], "weight", parse_format("integer(width=8, frac_width=6)"))
    wait(window)
    for chosen in (layers[:1], layers[:2]):
        session.select(tuple(chosen))
        window.docks.bring("inspector")
        look(f"{len(chosen)} layers")
        menu = NodeMenu(window.host, session.open_document.graph, window)
        look(f"menu of {len(chosen)} layers", menu)
        menu.deleteLater()
    window.docks.bring("recipe")
    look("recipe")
    for spec in (s for specs in sections().values() for s in specs):
        window.services.forms.ask(spec.name)
        settle()
        for form in (w for w in window.findChildren(OptionsWindow) if w.isVisible()):
            look(f"form {spec.name}", form)
            form.close()
    window.actions_table.run("evaluate")
    look("evaluate")
    wait(window)
    look("end")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "roots"))
    sys.exit(main(sys.argv[1]))
