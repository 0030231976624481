"""Actions of the menu Search, and the connections of its panel to the window."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence, QShortcut

from espalier.app.translation import tr
from espalier.app.widgets.docked import follow_visibility
from espalier.app.widgets.style import RESOURCES

if TYPE_CHECKING:
    from espalier.app.features.search.panel import SearchPanel
    from espalier.app.features.search.state.study import Study
    from espalier.app.host import Host
    from espalier.passes.search.trial import Trial

FOLDER = RESOURCES / "studies"
PROJECTS = tr("Espalier projects (*.espalier)")
SEARCHES = tr("Searches (*.toml *.json);;All files (*)")


def panel_of(host: Host) -> SearchPanel:
    """The panel."""
    from espalier.app.features.search.panel import SearchPanel

    host.build_panels()
    panel = host.panel("search")
    assert isinstance(panel, SearchPanel)
    return panel


def follow(host: Host) -> None:
    """Connect the searches to the window."""
    from espalier.app.features.search.state.searches import searches_of  # imports passes

    searches = searches_of(host.session)
    searches.stored.connect(host.mark_changed)
    searches.listed.connect(host.refresh_actions)
    searches.state_changed.connect(host.refresh_actions)


def connect(host: Host, panel: SearchPanel) -> None:
    """Connect the panel to its host."""
    from espalier.app.features.search.state.trial_preview import (
        TrialPreview,  # imports passes; after the first paint
    )

    preview = panel.results.preview = TrialPreview(host.canvas)
    follow_visibility(host.dock("search"), preview.set_visible)
    panel.begun.connect(lambda: host.show_dock("search"))
    panel.trials.noted.connect(lambda trial, text: write_note(panel, trial.number, text))
    panel.board.save_wanted.connect(lambda tile: host.save_plots(tile, tr("Save the chart"), tile.file_name))
    panel.model_wanted.connect(lambda trial: save_model(host, trial))
    panel.file_wanted.connect(lambda what: _FILES[what](host))
    escape = QShortcut(QKeySequence(Qt.Key.Key_Escape), host.canvas)
    escape.setContext(Qt.ShortcutContext.WidgetShortcut)
    escape.setEnabled(False)
    escape.activated.connect(panel.trials.leave)
    preview.shown.connect(lambda trial: escape.setEnabled(trial is not None))
    back = QShortcut(QKeySequence(Qt.Key.Key_Escape), panel)
    back.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
    back.activated.connect(lambda: panel.trials.leave() if panel.trials.picked else host.canvas.setFocus())


def show(host: Host) -> None:
    """Show the panel and focus its form."""
    panel = panel_of(host)
    host.show_dock("search")
    panel.compose()


def begin(host: Host) -> None:
    """Run the search of the form."""
    host.show_dock("search")
    panel_of(host).setup.run()


def begin_with(host: Host, name: str) -> None:
    """Show a template's search in the form."""
    show(host)
    panel_of(host).setup.open_file(FOLDER / f"{name}.toml")


def template_names() -> tuple[str, ...]:
    """The names of the templates."""
    return tuple(p.stem for p in sorted(FOLDER.glob("*.toml")))


def _shown_study(host: Host) -> Study | None:
    """The study that the panel shows; before the panel exists, the one that it will show first."""
    if not host.panels_built:
        return None
    if host.existing_panel("search") is not None:
        return panel_of(host).study
    from espalier.app.features.search.state.searches import searches_of  # imports passes

    return next(iter(searches_of(host.session).studies.values()), None)


def running(host: Host) -> bool:
    """Whether the shown study is running."""
    study = _shown_study(host)
    return study is not None and study.running


def stopped(host: Host) -> bool:
    """Whether the shown study can be continued."""
    study = _shown_study(host)
    return study is not None and not study.running


def has_best(host: Host) -> bool:
    """Whether there is a best trial to apply."""
    study = _shown_study(host)
    return study is not None and bool(study.best)


def has_study(host: Host) -> bool:
    """Whether a study is shown."""
    return _shown_study(host) is not None


def pause(host: Host) -> None:
    """Pause or resume the search."""
    panel = panel_of(host)
    if study := panel.study:
        panel.act("again" if study.paused else "pause")


def act(action: str) -> Callable[[Host], None]:
    """An action that applies a command of the head to the shown study."""
    return lambda host: panel_of(host).act(action)


def open_search(host: Host) -> None:
    """Choose a file and show its search."""
    show(host)
    host.ask_path(tr("Open a search"), panel_of(host).setup.open_file, names=SEARCHES)


def save_search(host: Host) -> None:
    """Write the search of the form to a file."""
    panel = panel_of(host)
    _save(host, tr("Save the search"), panel.setup.save_file, "search.toml", SEARCHES)


def save_trials(host: Host) -> None:
    """Write the shown trials as CSV."""
    panel = panel_of(host)
    name = f"{panel.study.name}.csv" if panel.study else "trials.csv"
    _save(host, tr("Save the trials"), panel.export, name, tr("CSV (*.csv)"))


def save_model(host: Host, trial: Trial) -> None:
    """Write a trial of another architecture as a project, and offer to open it."""
    panel = panel_of(host)
    study = panel.study
    if study is None:
        return

    def written(path: Path) -> None:
        host.banner.show_message(tr("{} is written.", path.name), tr("It holds the trial's own model."),
                           [(tr("Open it"), lambda: host.open_spec(str(path)))])  # fmt: skip

    def write(path: Path) -> None:
        panel.searches.save_model(study, trial, path, written)

    _save(host, tr("Save the trial's model"), write, f"{study.name} {trial.number}.espalier", PROJECTS)


def _save(host: Host, title: str, write: Callable[[Path], object], suggestion: str, names: str) -> None:
    def go(path: Path) -> None:
        host.report_errors(lambda: write(path))

    host.ask_path(title, go, save=True, names=names, suggestion=suggestion)


_FILES: dict[str, Callable[[Host], None]] = {"open": open_search, "save": save_search, "trials": save_trials}


def write_note(panel: SearchPanel, number: int, text: str) -> None:
    """Write a note on a trial of the study that is shown."""
    study = panel.results.study
    if study is not None and number in study.trials:
        panel.results.take([panel.searches.annotate(study, number, text)])


def note(host: Host) -> None:
    """Go to the note of the chosen trial."""
    trials = panel_of(host).trials
    if trials.picked is None:
        host.banner.show_message(tr("No trial is chosen."), tr("Click one in the table or in a chart first."))
        return
    host.show_dock("search")
    trials.note.setFocus()
    trials.note.selectAll()
