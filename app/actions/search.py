"""What the Search menu does, and how its panel is tied to the window: the graph, files, the rest of the docks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence, QShortcut

from espalier.app import larger
from espalier.app.actions.file import ask_path, open_spec, save_plots, telling
from espalier.app.style import RESOURCES

if TYPE_CHECKING:
    from espalier.app.panels.search.panel import SearchPanel
    from espalier.app.window import Window
    from espalier.passes.search.trial import Trial

FOLDER = RESOURCES / "studies"
PROJECTS = "Espalier projects (*.espalier)"
SEARCHES = "Searches (*.toml *.json);;All files (*)"


def panel_of(window: Window) -> SearchPanel:
    """The panel."""
    from espalier.app.panels.search.panel import SearchPanel

    window.furnish()
    panel = window.docks.panels["search"]
    assert isinstance(panel, SearchPanel)
    return panel


def connect(window: Window, panel: SearchPanel) -> None:
    """Tie the panel to its window."""
    from espalier.app.studies.trial_preview import (
        TrialPreview,  # with what it needs of the passes, after the first paint
    )

    preview = panel.results.preview = TrialPreview(window.canvas)
    dock = window.docks.docks["search"]
    dock.visibilityChanged.connect(preview.look_on)
    panel.begun.connect(lambda: window.show_dock("search"))
    panel.searches.kept.connect(window.refresh)
    panel.searches.kept.connect(window.recovery.look)
    panel.searches.listed.connect(window.actions_table.refresh)
    panel.searches.stood.connect(window.actions_table.refresh)
    panel.board.save_wanted.connect(lambda tile: save_plots(window, tile, "Save the chart", tile.file_name))
    panel.board.room_wanted.connect(lambda: larger.toggle(window))
    panel.model_wanted.connect(lambda trial: save_model(window, trial))
    panel.file_wanted.connect(lambda what: _FILES[what](window))
    escape = QShortcut(QKeySequence(Qt.Key.Key_Escape), window.canvas)
    escape.setContext(Qt.ShortcutContext.WidgetShortcut)
    escape.setEnabled(False)
    escape.activated.connect(panel.trials.leave)
    preview.shown.connect(lambda trial: escape.setEnabled(trial is not None))
    back = QShortcut(QKeySequence(Qt.Key.Key_Escape), panel)
    back.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
    back.activated.connect(lambda: panel.trials.leave() if panel.trials.picked else window.canvas.setFocus())


def show(window: Window) -> None:
    """Show the panel, with the keyboard in its form."""
    panel = panel_of(window)
    window.show_dock("search")
    panel.compose()


def begin(window: Window) -> None:
    """Run the search that the form describes."""
    window.show_dock("search")
    panel_of(window).setup.run()


def begin_with(window: Window, name: str) -> None:
    """Show a template's search in the form."""
    show(window)
    panel_of(window).setup.open_file(FOLDER / f"{name}.toml")


def template_names() -> tuple[str, ...]:
    """The ready searches, by the names of their files."""
    return tuple(p.stem for p in sorted(FOLDER.glob("*.toml")))


def running(window: Window) -> bool:
    """Whether the study that is shown runs."""
    study = panel_of(window).study if window.furnished else None
    return study is not None and study.running


def stopped(window: Window) -> bool:
    """Whether the study that is shown could go on."""
    study = panel_of(window).study if window.furnished else None
    return study is not None and not study.running


def has_best(window: Window) -> bool:
    """Whether there is a best trial to apply."""
    study = panel_of(window).study if window.furnished else None
    return study is not None and bool(study.best)


def has_study(window: Window) -> bool:
    """Whether a study is shown."""
    return window.furnished and panel_of(window).study is not None


def pause(window: Window) -> None:
    """Let the search wait, or go on."""
    panel = panel_of(window)
    if study := panel.study:
        panel.act("again" if study.paused else "pause")


def act(word: str) -> Callable[[Window], None]:
    """Do with the study that is shown what its head offers by this word."""
    return lambda window: panel_of(window).act(word)


def open_search(window: Window) -> None:
    """Choose a file and show its search."""
    show(window)
    ask_path(window, "Open a search", panel_of(window).setup.open_file, names=SEARCHES)


def save_search(window: Window) -> None:
    """Write the search of the form to a file."""
    panel = panel_of(window)
    _save(window, "Save the search", panel.setup.save_file, "search.toml", SEARCHES)


def save_trials(window: Window) -> None:
    """Write the trials that the table shows as CSV."""
    panel = panel_of(window)
    name = f"{panel.study.name}.csv" if panel.study else "trials.csv"
    _save(window, "Save the trials", panel.export, name, "CSV (*.csv)")


def save_model(window: Window, trial: Trial) -> None:
    """Write a trial of another architecture as a project, and offer to open it."""
    panel = panel_of(window)
    study = panel.study
    if study is None:
        return

    def written(path: Path) -> None:
        window.banner.tell(f"{path.name} is written.", "It holds the trial's own model.",
                           [("Open it", lambda: open_spec(window, str(path)))])  # fmt: skip

    def write(path: Path) -> None:
        panel.searches.save_model(study, trial, path, written)

    _save(window, "Save the trial's model", write, f"{study.name} {trial.number}.espalier", PROJECTS)


def _save(window: Window, title: str, write: Callable[[Path], object], suggestion: str, names: str) -> None:
    def go(path: Path) -> None:
        telling(window, lambda: write(path))

    ask_path(window, title, go, save=True, names=names, suggestion=suggestion)


_FILES: dict[str, Callable[[Window], None]] = {"open": open_search, "save": save_search, "trials": save_trials}
