"""Everything that can be done by menu, toolbar, key or command palette: one table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from PySide6.QtCore import QTimer
from PySide6.QtGui import QAction, QKeySequence, QShortcut
from PySide6.QtWidgets import QMenu, QToolBar, QWidgetAction

from espalier.app.canvas.colouring import MODES
from espalier.app.features.kernels import actions as kernels
from espalier.app.features.kernels import measurement_actions as measurements
from espalier.app.features.search import actions as searches
from espalier.app.features.tables.panel import reports
from espalier.app.shell import larger
from espalier.app.shell.actions import file as files
from espalier.app.shell.actions import model as models
from espalier.app.shell.actions import view as views
from espalier.app.widgets.heading import heading
from espalier.passes.base import NoOptions

if TYPE_CHECKING:
    from espalier.app.host import Host
    from espalier.app.shell.window import Window

Test = Callable[["Window"], bool]
T = TypeVar("T")


def _always(window: Window) -> bool:
    return True


def _held(window: Window) -> bool:
    return window.session.document is not None


def _chosen(window: Window) -> bool:
    return bool(window.session.selection)


def _on(act: Callable[[Host], T]) -> Callable[[Window], T]:
    """An act of a feature: it is given the window's host."""
    return lambda window: act(window.host)


@dataclass(frozen=True, slots=True)
class Action:
    """One row. `menu` may hold a submenu ("View/Colour by"); `tool` is its word on the toolbar."""

    id: str
    title: str
    menu: str
    run: Callable[[Window], object]
    key: str = ""
    tool: str = ""
    needs: Test = _held
    checked: Test | None = None
    words: Callable[[Window], str] | None = None
    help: str = ""
    group: int = 0  # a separator stands between groups of a menu
    section: str = ""  # what a group is called


def _undo(redo: bool) -> Callable[[Window], str | None]:
    return lambda w: (
        None if w.session.document is None else w.session.document.redo_label if redo else w.session.document.undo_label
    )


def _undo_words(verb: str, label: Callable[[Window], str | None]) -> Callable[[Window], str]:
    return lambda w: f"{verb} {label(w)}" if label(w) else verb


FILE = (
    Action("open", "Open…", "File", files.open_file, "Ctrl+O", "Open", _always, help="Open a project or model file"),
    Action("open_folder", "Open folder…", "File", files.open_folder, "Ctrl+Shift+O", needs=_always,
           help="Open a Hugging Face folder"),
    Action("open_name", "Open by name…", "File", files.open_name, "Ctrl+Alt+O", needs=_always,
           help="Open hf:NAME, config:…, demo:NAME or file.py:factory"),
    Action("save", "Save", "File", files.save, "Ctrl+S", "Save", group=1),
    Action("save_as", "Save as…", "File", files.save_as, "Ctrl+Shift+S", group=1),
    Action("load_recipe", "Load a recipe…", "File", files.load_recipe, group=1,
           help="Add the steps of a TOML or JSON file, or of the labs' dict"),
    Action("export_safetensors", "Safetensors folder…", "File/Export", lambda w: files.export(w, "safetensors"),
           words=files.folder_words, help="Weights as computed; transformers opens its own classes"),
    Action("export_packed", "Packed model…", "File/Export", lambda w: files.export(w, "packed"),
           words=files.packed_words, help="One file in the bits of the formats, which Espalier opens again"),
    Action("export_onnx", "ONNX…", "File/Export", lambda w: files.export(w, "onnx"),
           help="Integer weights, formats as QuantizeLinear; run in onnxruntime and compared"),
    Action("export_pt2", "Torch program (pt2)…", "File/Export", lambda w: files.export(w, "pt2"),
           help="A torch.export file, which torch opens without Espalier"),
    Action("export_adapter", "LoRA adapters…", "File/Export", lambda w: files.export(w, "adapter"),
           needs=files.has_adapters, help="A folder that PEFT opens on the source's model"),
    Action("export_recipe", "Recipe…", "File/Export", lambda w: files.export(w, "recipe")),
    Action("export_script", "Python script…", "File/Export", lambda w: files.export(w, "script")),
    Action("export_graphml", "GraphML…", "File/Export", lambda w: files.export(w, "graphml"),
           help="The graph with operations, shapes and formats, for Gephi, yEd or networkx"),
    Action("export_picture", "Picture of the graph…", "File/Export", files.export_picture),
    Action("close", "Close", "File", files.close, "Ctrl+W", group=2),
    Action("quit", "Quit", "File", lambda w: w.close(), "Ctrl+Q", needs=_always, group=2),
)  # fmt: skip

EDIT = (
    Action("undo", "Undo", "Edit", lambda w: w.session.undo(), "Ctrl+Z", "↶ Undo", lambda w: bool(_undo(False)(w)),
           words=_undo_words("Undo", _undo(False))),
    Action("redo", "Redo", "Edit", lambda w: w.session.redo(), "Ctrl+Shift+Z", "↷ Redo", lambda w: bool(_undo(True)(w)),
           words=_undo_words("Redo", _undo(True))),
    Action("select_all", "Select all nodes", "Edit", models.select_all, "Ctrl+A", group=1),
    Action("select_alike", "Select all of the same type", "Edit", models.select_alike, "Ctrl+Shift+A", needs=_chosen,
           group=1),
    Action("select_none", "Select nothing", "Edit", lambda w: w.session.select(()), needs=_chosen, group=1),
    Action("find", "Find a node or a command", "Edit", lambda w: w.finder.begin(), "Ctrl+F", needs=_always, group=2),
)  # fmt: skip

PLUGINS = (
    Action("plugins", "Plug-ins…", "Model", models.show_plugins, needs=_always, group=21,
           help="Your own passes and formats: add, remove, load again"),
)  # fmt: skip
# What a pass's row has besides its title: its id, key, word on the toolbar, and when there is something to do.
EXTRAS: dict[str, dict[str, Any]] = {
    "quantize": {"id": "quantise", "key": "Ctrl+Shift+Q", "tool": "Quantise…"},
    "prune": {"key": "Ctrl+Shift+R", "tool": "Prune…"},
    "finetune": {"key": "Ctrl+Shift+T"},
    "remove_dropout": {"needs": models.has_dropout},
    "fuse_lora": {"needs": files.has_adapters},
}

RUN = (
    Action("evaluate", "Evaluate", "Run", models.evaluate, "F5", "Evaluate", help="Measure accuracy and loss"),
    Action("evaluate_on", "Evaluate on…", "Run", models.evaluate_on, "Shift+F5"),
    Action("live", "Measure after every edit", "Run", models.toggle_live, needs=_always,
           checked=lambda w: w.live.enabled, words=models.live_words),
    Action("stop", "Stop the running job", "Run", models.stop, "Ctrl+.",
           needs=lambda w: bool(w.session.jobs), group=1),
    Action("stop_and_keep", "Stop the training and keep its best weights", "Run", models.stop_and_keep,
           "Ctrl+Shift+.", needs=models.can_stop_and_keep, group=1),
    Action("kernels_run", "Run kernels", "Run", _on(kernels.run), "F7", needs=_always, group=2,
           words=_on(kernels.run_title),
           help="Measure the selected kernels, or what the front tab of Kernels is for"),
    Action("kernels_stop", "Cancel the run of kernels", "Run", _on(kernels.stop), "Shift+F7",
           needs=_on(kernels.running), group=2,
           help="Also stops the front tab of Kernels; rows measured so far are kept"),
    Action("kernels_load", "Load results of kernels…", "Run", _on(kernels.load), needs=_always, group=2,
           help="Compare with another machine or an earlier run"),
    *(Action(f"timed_{name}", title, "Run", lambda w, n=name: measurements.measure(w.host, n), help=words, group=3)
      for name, (title, words) in measurements.ABOUT.items()),
)  # fmt: skip

SEARCH = (
    Action("search", "Search…", "Search", _on(searches.show), "Ctrl+K",
           help="Compose a search over formats, sparsities, options and architectures"),
    Action("search_open", "Open a search…", "Search", _on(searches.open_search),
           help="A search in a TOML or JSON file"),
    Action("search_save", "Save the search…", "Search", _on(searches.save_search),
           help="Save as a file that the command line runs too"),
    *(Action(f"search_{name}", name.replace("-", " ").capitalize(), "Search/Templates",
             lambda w, n=name: searches.begin_with(w.host, n), group=1) for name in searches.template_names()),
    Action("search_run", "Run this search", "Search", _on(searches.begin), "F8", group=2),
    Action("search_pause", "Pause or continue", "Search", _on(searches.pause), "Shift+F8",
           needs=_on(searches.running), group=2),
    Action("search_after", "Stop after this trial", "Search", _on(searches.act("after")),
           needs=_on(searches.running), group=2),
    Action("search_stop", "Stop the search", "Search", _on(searches.act("stop")), needs=_on(searches.running), group=2),
    Action("search_on", "Go on", "Search", _on(searches.act("on")), needs=_on(searches.stopped), group=2,
           help="Run more trials of the shown study"),
    Action("search_apply", "Apply the best trial", "Search", _on(searches.act("apply")), "Ctrl+Shift+Return",
           needs=_on(searches.has_best), group=3, help="Make its configuration the recipe, in one undo step"),
    Action("search_hand", "Add the present configuration as a trial", "Search", _on(searches.act("hand")),
           needs=_on(searches.has_study), group=3),
    Action("search_repeat", "Repeat with other seeds…", "Search", _on(searches.act("repeat")),
           needs=_on(searches.has_study), group=3),
    Action("search_trials", "Save the trials…", "Search", _on(searches.save_trials),
           needs=_on(searches.has_study), group=3),
)  # fmt: skip

VIEW = (
    Action("fit", "Fit graph", "View", lambda w: w.canvas.fit(), "Ctrl+0"),
    Action("zoom_in", "Zoom in", "View", lambda w: w.canvas.zoom_by(1.25), "Ctrl++"),
    Action("zoom_out", "Zoom out", "View", lambda w: w.canvas.zoom_by(0.8), "Ctrl+-"),
    Action("zoom_to", "Go to the selection", "View", views.reveal, "Ctrl+G", needs=_chosen),
    Action("expand", "Expand all", "View", lambda w: w.canvas.open_all(), "Ctrl+Shift+E", group=1),
    Action("collapse", "Collapse all", "View", lambda w: w.canvas.close_all(), "Ctrl+Shift+C", group=1),
    Action("across", "Left to right", "View", views.toggle_across, "Ctrl+Shift+L",
           checked=lambda w: w.canvas.horizontal, group=1),
    Action("casts", "Where formats change", "View", views.toggle_casts, "Ctrl+Shift+F",
           checked=lambda w: w.canvas.show_casts, group=1, help="Chips on the edges along which values are converted"),
    *(Action(f"colour_{k}", v[:1].upper() + v[1:], "View/Colour by", lambda w, k=k: views.colour(w, k),
             f"Alt+{(i + 1) % 10}" if i < 10 else "", checked=lambda w, k=k: w.canvas.mode == k, group=2)
      for i, (k, v) in enumerate(MODES.items())),
    *(Action(f"theme_{m}", m.capitalize(), "View/Theme", lambda w, m=m: views.theme(w, m), needs=_always,
             checked=lambda w, m=m: w.appearance.mode == m, group=3) for m in ("light", "dark", "system")),
    Action("to_inspector", "Go to the inspector", "View", lambda w: w.docks.enter("inspector"), "Ctrl+I", group=4),
    Action("to_recipe", "Go to the recipe", "View", lambda w: w.docks.enter("recipe"), "Ctrl+R", group=4),
    Action("next_panel", "Go to the next panel", "View", views.next_panel, "F6", group=4),
    Action("larger", "Maximise panel", "View", larger.toggle, "Shift+F6", group=4,
           help="Maximise the panel at the bottom, or restore it"),
    Action("reset_layout", "Reset the layout", "View", lambda w: w.docks.reset(), group=4),
)  # fmt: skip

HELP = (
    Action("guide", "Guide", "Help", views.guide, "F1", needs=_always, help="The manual, with a search over all pages"),
    Action("shortcuts", "Shortcuts", "Help", views.shortcuts, "Ctrl+F1", needs=_always),
    Action(
        "kernels_explain", "How kernels work", "Help", _on(kernels.explain), needs=_always, help="With live figures"
    ),
    Action("crash_reports", "Crash reports", "Help", views.crash_reports, needs=_always),
    Action("about", "About Espalier", "Help", views.about, needs=_always, group=1),
)


def _pass_rows() -> list[Action]:
    """The transforms of the program itself, section by section."""
    return [
        Action(**{
            "id": s.name, "title": s.title + "…" * (s.options is not NoOptions), "menu": "Model",
            "run": lambda w, n=s.name: models.ask(w, n), "help": s.doc.split("\n")[0], "section": section,
            "group": group, **EXTRAS.get(s.name, {}),
        })
        for group, (section, specs) in enumerate(models.sections().items()) for s in specs
    ]  # fmt: skip


def _report_rows() -> list[Action]:
    return [
        Action(f"report_{s.name}", s.title, "Model/Report", lambda w, n=s.name: models.report(w, n),
               help=s.doc.split("\n")[0], group=20) for s in reports()
    ]  # fmt: skip


def table() -> list[Action]:
    """All rows, in menu order."""
    return [*FILE, *EDIT, *VIEW, *_pass_rows(), *_report_rows(), *PLUGINS, *RUN, *SEARCH, *HELP]


def section_title(text: str, menu: QMenu) -> QWidgetAction:
    """The title of a part of a menu, in the look of the panels' headings."""
    label = heading(text)
    label.setContentsMargins(14, 4, 14, 2)
    made = QWidgetAction(menu)
    made.setDefaultWidget(label)
    made.setEnabled(False)
    return made


class Actions:
    """The table as QActions in menus and on the toolbar, with what is enabled kept true."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self.rows = table()
        self.actions: dict[str, QAction] = {}
        self.menus: dict[str, QMenu] = {}
        last: dict[str, int] = {}
        for row in self.rows:
            menu = self._menu(row, last)
            action = self._action(row)
            menu.addAction(action)
            self.actions[row.id] = action
        self._soon = QTimer(window, interval=0, singleShot=True)
        self._soon.timeout.connect(self.refresh)

    def _menu(self, row: Action, last: dict[str, int]) -> QMenu:
        head, _, tail = row.menu.partition("/")
        top = self.menus.get(head) or self.menus.setdefault(head, self._top(head))
        if last.get(head) != row.group:
            if head in last:
                top.addSeparator()
            if row.section:
                top.addAction(section_title(row.section, top))
            last[head] = row.group
        if not tail:
            return top
        return self.menus.get(row.menu) or self.menus.setdefault(row.menu, top.addMenu(tail))

    def _top(self, title: str) -> QMenu:
        """A menu of the bar; Alt and its first letter open it, without underlining that letter."""
        menu = self._window.menus.addMenu(title)
        key = QShortcut(QKeySequence(f"Alt+{title[0]}"), self._window)
        key.activated.connect(lambda: self._window.menus.setActiveAction(menu.menuAction()))
        return menu

    def _action(self, row: Action) -> QAction:
        action = QAction(row.title, self._window)
        action.setObjectName(row.id)
        action.setCheckable(row.checked is not None)
        if row.key:
            keys = [QKeySequence(row.key)]
            action.setShortcuts(keys if row.id != "find" else [*keys, QKeySequence("Ctrl+Shift+P")])
        key = f"  {QKeySequence(row.key).toString()}" if row.key else ""
        action.setToolTip(f"{row.help or row.title.rstrip('…')}{key}")
        action.triggered.connect(lambda: self.run(row.id))
        return action

    def run(self, name: str) -> None:
        """Do what row `name` does."""
        row = next(r for r in self.rows if r.id == name)
        if row.needs(self._window):
            row.run(self._window)
        self.refresh()

    def refresh_soon(self) -> None:
        """Refresh once what happens now is painted."""
        self._soon.start()

    def refresh(self) -> None:
        """Set what is enabled and ticked, and the labels of undo and redo."""
        for row in self.rows:
            action = self.actions[row.id]
            able = row.needs(self._window)
            action.setEnabled(able)
            if row.checked and able:
                action.setChecked(row.checked(self._window))
            if row.words:
                action.setText(row.words(self._window))
        self.menus["Model/Report"].setEnabled(_held(self._window))

    def put(self, bar: QToolBar, name: str) -> None:
        """Put an action on the toolbar under its short word."""
        row, action = next(r for r in self.rows if r.id == name), self.actions[name]
        action.setIconText(row.tool or row.title)
        bar.addAction(action)
