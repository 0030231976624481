"""The panel Search: a form of the search, its trials as charts and table, previews on the graph, and the best trial."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import QInputDialog, QWidget

from espalier.app.features.search.head import MORE
from espalier.app.features.search.results import SearchResults
from espalier.app.features.search.setup import SearchSetup
from espalier.app.features.search.state.searches import Study, searches_of, seconds_each
from espalier.app.features.search.state.templates import beginning
from espalier.app.translation import tr
from espalier.app.widgets.form_panel import FormPanel, empty_page
from espalier.app.widgets.heading import link, muted
from espalier.model.document.recipe import Recipe
from espalier.model.errors import EspalierError, OptionsError
from espalier.passes.search.expand import expand
from espalier.passes.search.goals import figures
from espalier.passes.search.spec import SearchSpec
from espalier.passes.search.trial import Trial

if TYPE_CHECKING:
    from espalier.app.session.session import Session

ABOUT = tr(
    "A search tries configurations: which layer gets which number format, how much is pruned, which option "
    "of a step, even which architecture. It measures each, learns where to look, and keeps all. "
    "Each trial is a recipe that you can see on the graph and use."
)
SETUP, RESULTS, WORDS = 330, 1130, 560
SEEDS = 2  # suggested number of further seeds, three in total
SOON = 120  # milliseconds between two updates of the head by new trials
CLOCK = 1000  # milliseconds between two updates of the remaining time


class SearchPanel(FormPanel):
    """The form at the left; at the right the results of a study: head, charts, trials."""

    begun = Signal()
    model_wanted = Signal(object)  # save a trial of another architecture as a project
    file_wanted = Signal(str)  # "open" or "save" a search, or save the "trials"

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self.searches = searches_of(session)
        self.setup = SearchSetup(session, expand, tuple(figures()))
        self.results = SearchResults()
        self.head, self.trials, self.board = self.results.head, self.results.trials, self.results.board
        self._build()
        self._soon = QTimer(self, singleShot=True, interval=SOON)
        self._soon.timeout.connect(self._update_texts)
        self._clock = QTimer(self, interval=CLOCK)
        self._clock.timeout.connect(self._update_texts)
        self._clock.timeout.connect(lambda: self.compare())
        self._connect()
        self._opened()
        self._listed()

    # -- building

    def _build(self) -> None:
        self.example_link = link("", self.run_example)
        self.compose_link = link(tr("Compose a search"), self.compose)
        empty = empty_page(WORDS, muted(ABOUT), self.example_link, self.compose_link)
        self._lay_out(empty, self.setup, self.setup.foot, self.results, [SETUP, RESULTS])

    def _connect(self) -> None:
        session, searches = self._session, self.searches
        self.setup.run_wanted.connect(self.start)
        self.setup.file_wanted.connect(self.file_wanted)
        self.trials.save_link.clicked.connect(lambda: self.file_wanted.emit("trials"))
        self.head.chosen.connect(lambda _: self.show_study())
        self.head.wanted.connect(self.act)
        self.results.used.connect(self.use)
        self.head.compared.connect(lambda _: self.compare(show=True))
        searches.changed.connect(self._came)
        searches.state_changed.connect(self._update_texts)
        searches.listed.connect(self._listed)
        session.opened.connect(self._opened)
        session.changed.connect(self._edited)
        session.score_changed.connect(self._outdate_form)

    # -- showing

    @property
    def study(self) -> Study | None:
        """The shown study."""
        chosen = self.head.studies
        return self.searches.studies.get(chosen.get()) if chosen.currentIndex() >= 0 else None

    def _opened(self) -> None:
        document = self._session.document
        self.setup.recipe = None
        if document is None:
            self.setup.put(SearchSpec())  # at once: its entries refer to the graph of the closed document
        else:
            self.setup.defer(self._begin_form)
        self._invite()
        self.example_link.setVisible(document is not None)
        self.compose_link.setVisible(document is not None)
        self._pages.setCurrentIndex(1 if self.searches.studies else 0)

    def _invite(self) -> None:
        """Show the example; it runs at once if data are known, since costs alone would lead to the fewest bits."""
        begin = tr("Run it") if self._session.measured_on.data else tr("Choose data for it")
        self.example_link.setText(tr("{}: mixed precision of this model's weights", begin))

    def _begin_form(self) -> None:
        """Initialise the form for another document."""
        self.setup.put(_example(self._session))

    def _edited(self) -> None:
        """Follow a changed graph: end the preview and recount the space."""
        self.results.end_preview()
        self._outdate_form()

    def _outdate_form(self) -> None:
        """Mark the form as outdated after a change of the space or the data; updated once for both."""
        self._invite()
        self.setup.defer(self.setup.refresh, also=True)

    def compose(self) -> None:
        """Show the form."""
        self._pages.setCurrentIndex(1)
        self.setup.settle()
        self.setup.name.setFocus()

    def _listed(self) -> None:
        self.head.offer(tuple(self.searches.studies))
        if self.searches.studies:
            self._pages.setCurrentIndex(1)
        self.show_study()

    def show_study(self) -> None:
        """Show the chosen study."""
        self.results.show_study(self.study)
        self.compare()
        self._update_texts()

    def _came(self, study: Study, news: Sequence[Trial]) -> None:
        if study is self.results.study:
            self.results.take(news)
            if not study.running or not self.isVisible():
                self._update_texts()
            elif not self._soon.isActive():
                self._soon.start()
        if not study.running:
            self.trials.settle()
            self.compare()  # a last time, even if another study is shown

    def _update_texts(self) -> None:
        self.results.update_texts()
        if any(s.running for s in self.searches.studies.values()):
            if not self._clock.isActive():
                self._clock.start()
        else:
            self._clock.stop()
        each = seconds_each(self.searches.studies.values())
        if each != self.setup.each:
            self.setup.each = each
            self.setup.update_duration()

    def compare(self, show: bool = False) -> None:
        """Compare the ticked studies by one metric."""
        studies = [self.searches.studies[n] for n in self.head.together if n in self.searches.studies]
        self.results.compare(studies if len(studies) > 1 else [], show)

    # -- trials

    def use(self, trial: Trial) -> None:
        """Make a trial's configuration the recipe."""
        study = self.results.study
        if study is None:
            return
        self.results.end_preview()
        if study.other:
            self.model_wanted.emit(trial)
            return
        try:
            self.searches.use(study, trial)
        except EspalierError as error:
            self._session.problem.emit(error)

    # -- running

    def start(self, spec: object, recipe: Recipe | None = None) -> None:
        """Run a search and show it."""
        assert isinstance(spec, SearchSpec)
        try:
            recipe = self.setup.recipe if recipe is None else recipe
            if running := self.searches.same(spec, recipe):
                self.choose(running)
                raise OptionsError(f"This search is running already, as {running.name}.",
                                   "Wait for it, or use another name or seed.")  # fmt: skip
            study = self.searches.start(spec, recipe)
        except EspalierError as error:
            self._session.problem.emit(error)
            return
        self.choose(study)
        self.begun.emit()

    def choose(self, study: Study) -> None:
        """Show a study."""
        self.head.studies.put(study.name)
        self._pages.setCurrentIndex(1)
        self.show_study()

    def run_example(self) -> None:
        """Run mixed precision of the open model; without data, show its form instead."""
        spec = _example(self._session)
        if not spec.score.data:
            self.compose()
        self.setup.put(spec)
        if spec.score.data:
            self.start(spec)
        else:
            self.setup.score.open()

    def apply_best(self) -> None:
        """Make the best trial's configuration the recipe."""
        study = self.results.study
        if study and (leader := study.leader):
            self.use(leader)

    def act(self, action: str) -> None:
        """Perform an action of the head or the menu on the shown study."""
        study = self.results.study
        if study is None:
            return
        acts = {
            "pause": lambda: self.searches.pause(study), "again": lambda: self.searches.resume(study),
            "after": lambda: self.searches.stop(study, after_trial=True), "stop": lambda: self.searches.stop(study),
            "on": lambda: self.go_on(study), "remove": lambda: self.searches.remove(study), "apply": self.apply_best,
            "hand": lambda: self.searches.add_present(study), "repeat": lambda: self.ask_seeds(study),
            "save": lambda: self.file_wanted.emit("trials"), "spec": lambda: self.save_form(study),
            "form": lambda: self.show_form(study),
        }  # fmt: skip
        try:
            acts[action]()
        except EspalierError as error:
            self._session.problem.emit(error)

    def go_on(self, study: Study) -> None:
        """Continue a stopped study, or add trials to a finished one."""
        self.searches.go_on(study, 0 if study.done < study.spec.trials else MORE)
        self.choose(study)

    def ask_seeds(self, study: Study) -> QInputDialog:
        """Ask for the number of repetitions of a search."""
        dialog = QInputDialog(self)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setInputMode(QInputDialog.InputMode.IntInput)
        dialog.setIntRange(1, 20)
        dialog.setIntValue(SEEDS)
        dialog.setWindowTitle(tr("Repeat the search"))
        dialog.setLabelText(tr("Further seeds of {}, each a study of {} trials:", study.name, study.spec.trials))
        dialog.setOkButtonText(tr("Run"))
        dialog.intValueSelected.connect(lambda count: self.repeat(study, count))
        dialog.open()
        return dialog

    def repeat(self, study: Study, seeds: int = SEEDS) -> None:
        """Run the search with further seeds, one study each, and compare them."""
        used_seeds = [s.spec.seed for s in self.searches.studies.values() if s.spec.space == study.spec.space]
        head = study.name.partition(" · seed")[0]
        for seed in range(max(used_seeds) + 1, max(used_seeds) + 1 + seeds):
            self.searches.start(replace(study.spec, study=f"{head} · seed {seed}", seed=seed), study.recipe)
        self.choose(study)

    def show_form(self, study: Study) -> None:
        """Show the search of a study in the form."""
        document = self._session.document
        self.setup.recipe = study.recipe if document and study.recipe != document.recipe else None
        self.setup.put(replace(study.spec, study=""))

    def save_form(self, study: Study) -> None:
        """Show a study's search in the form, and ask for a file to save it."""
        self.show_form(study)
        self.file_wanted.emit("save")

    def export(self, path: Path) -> None:
        """Write the shown trials to a .csv file; raises FileError."""
        self.trials.save(path)


def _example(session: Session) -> SearchSpec:
    """Mixed precision of the open model on the data in use, by the main metric of its task."""
    return beginning(session.open_document.graph, session.measured_on, session.main_metric)
