"""The form of a search: space, goals and method, with the size of the space and errors."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QMenu, QPushButton, QVBoxLayout, QWidget

from espalier.app.features.search.entry import EntryCard
from espalier.app.features.search.entry_forms import BEGINNINGS
from espalier.app.features.search.goals import Goals
from espalier.app.features.search.state.searches import check_source
from espalier.app.features.search.state.templates import FOLDER, load, templates, to_toml
from espalier.app.features.search.state.texts import entry_text, size_words, time_text
from espalier.app.features.search.training import TrainingField
from espalier.app.translation import error_text, tr, translated
from espalier.app.widgets.forms.axis_field import caption
from espalier.app.widgets.forms.collapsible import Collapsible
from espalier.app.widgets.forms.deferred_work import DeferredWork
from espalier.app.widgets.forms.fields import Line, apply_field_style
from espalier.app.widgets.forms.flow_layout import FlowLayout
from espalier.app.widgets.forms.grouped_form import Group, GroupedForm
from espalier.app.widgets.forms.score_field import ScoreField
from espalier.app.widgets.heading import link, muted
from espalier.model.document.recipe import Recipe
from espalier.model.errors import EspalierError, OptionsError
from espalier.model.files import write_text
from espalier.model.graph.graph import Graph
from espalier.passes.saved import with_members
from espalier.passes.search.feasibility import check_grid, check_limits, check_spec
from espalier.passes.search.goals import wanted
from espalier.passes.search.space import Space
from espalier.passes.search.spec import SearchSpec, Vary

if TYPE_CHECKING:
    from espalier.app.session.session import Session

Expand = Callable[[SearchSpec, Graph, Recipe], Space]
GROUPS = (
    Group(tr("Main"), ("sampler", "trials"), folded=False),
    Group(tr("When it ends"), ("timeout", "patience", "terminator")),
    Group(tr("Weak trials end early"), ("pruner", "rungs", "lower", "upper", "judge_from")),
    Group(tr("How it begins"), ("warm", "begin_at", "seed")),
    Group(tr("Where it is to run"), ("target",)),
)
WITHOUT = ("study", "space", "goals", "within", "summed", "train", "finetune", "inherit", "score")
ADDS = translated({"format": "+ formats", "sparsity": "+ sparsity", "option": "+ option of a step",
        "config": "+ configuration", "identity": "+ identity", "parallel": "+ hardware parallelism"})  # fmt: skip
PAUSE = 60  # milliseconds after the last edit until the space is counted
FEW = 8  # largest number of choices of an entry that a condition can name


class SearchFoot(QWidget):
    """The foot of the form: size of the space, error, duration and the Run button."""

    def __init__(self) -> None:
        super().__init__()
        self.counted, self.wrong, self.time = QLabel(wordWrap=True), QLabel(wordWrap=True), muted("")
        self.counted.setProperty("role", "strong")
        self.wrong.setProperty("role", "wrong")
        self.run_button = QPushButton(tr("Search"))
        self.run_button.setProperty("primary", True)
        apply_field_style(self)
        box = QVBoxLayout(self)
        box.setContentsMargins(12, 6, 12, 10)
        box.setSpacing(4)
        for part in (self.counted, self.wrong, self.time, self.run_button):
            box.addWidget(part)

    def show_state(self, wrong: str, is_open: bool) -> None:
        """Show an error; enables Run for an open model without errors."""
        self.wrong.setText(wrong)
        self.wrong.setVisible(bool(wrong))
        self.counted.setVisible(bool(self.counted.text()))
        self.run_button.setEnabled(is_open and bool(self.counted.text()) and not wrong)


class SearchSetup(DeferredWork):
    """`run_wanted`: run this spec; `foot`: shown below the fields."""

    run_wanted = Signal(object)
    file_wanted = Signal(str)  # "open" or "save": a search in a file

    def __init__(self, session: Session, expand: Expand, figures: Sequence[str]) -> None:
        super().__init__()
        apply_field_style(self)
        saved = session.saved_selections
        self._session = session
        self._expand: Expand = lambda spec, graph, recipe: expand(with_members(spec, saved.saved), graph, recipe)
        self.each: dict[str, float] = {}  # seconds per trial by kind of training, if known
        self.recipe: Recipe | None = None  # a template's recipe; None for the document's
        self._cards: list[EntryCard] = []
        self.name = Line(tr("a name, or none"))
        self.name.setAccessibleName(tr("Name of the study"))
        self.name.setToolTip(tr("Searches with the same name resume the same study"))
        self.menu = QMenu(self)
        self.templates = link(tr("Templates ▾"), self._open_menu)
        self._recipe_note, self._recipe_link = muted(""), link(tr("Use the present recipe"), self._forget_recipe)
        self.goals = Goals(figures)
        self.how = GroupedForm(SearchSpec, GROUPS, without=WITHOUT)
        self.training = TrainingField()
        self.score = ScoreField(lambda: session.measured_on, tr("Without data only costs can be goals"))
        self.foot = SearchFoot()
        self.counted, self.time, self.wrong = self.foot.counted, self.foot.time, self.foot.wrong
        self.run_button = self.foot.run_button
        self._wait = QTimer(self, singleShot=True, interval=PAUSE)
        self._arrange()
        self._connect()

    # -- building

    def _arrange(self) -> None:
        head = QHBoxLayout()
        head.addWidget(self.name, 1)
        head.addWidget(self.templates)
        self._list = QVBoxLayout()
        self._list.setSpacing(6)
        self._adds = QWidget()
        adds = FlowLayout(self._adds, spacing=8, between=0)
        for kind, title in ADDS.items():
            adds.addWidget(link(title, lambda k=kind: self.add(BEGINNINGS[k], edited=True)))
        self._train_fold = Collapsible(tr("Training in each trial"), lambda: self.training)
        box = QVBoxLayout(self)
        box.setContentsMargins(12, 8, 12, 10)
        box.setSpacing(7)
        parts = (head, self._recipe_note, self._recipe_link, caption(tr("Vary")), self._list, self._adds,
                 caption(tr("Goal")), self.goals, caption(tr("How")), self.how, self._train_fold,
                 self.score)  # fmt: skip
        for part in parts:
            box.addWidget(part) if isinstance(part, QWidget) else box.addLayout(part)
        box.addStretch(1)

    def _connect(self) -> None:
        self._wait.timeout.connect(self.update_notes)
        parts = (self.goals.edited, self.how.changed, self.name.edited, self.training.edited, self.score.edited)
        for edited in parts:
            edited.connect(self._wait.start)
        self._session.data_changed.connect(self.score.show_summary)
        self.run_button.clicked.connect(self.run)

    # -- templates

    def _open_menu(self) -> None:
        """Show the menu of templates and files."""
        fill_with_templates(self.menu, self.open_file)
        self.menu.addAction(tr("Open a search…"), lambda: self.file_wanted.emit("open"))
        self.menu.addAction(tr("Save this search…"), lambda: self.file_wanted.emit("save"))
        self.menu.popup(self.templates.mapToGlobal(self.templates.rect().bottomLeft()))

    def open_file(self, path: Path) -> None:
        """Show the search of a file, or its error."""
        try:
            recipe, spec = load(path, self._session.measured_on, self._session.main_metric)
        except EspalierError as error:
            self._session.problem.emit(error)
            return
        self.recipe = recipe if recipe.steps else None
        self.put(replace(spec, study="" if path.parent == FOLDER else spec.study))

    def save_file(self, path: Path) -> None:
        """Write the search; raises OptionsError or FileError."""
        write_text(path, to_toml(self.spec(), self.used))

    @property
    def used(self) -> Recipe:
        """The recipe that trials start with."""
        document = self._session.document
        return self.recipe or (document.recipe if document else Recipe())

    def _forget_recipe(self) -> None:
        self.recipe = None
        self.refresh()

    # -- the space

    @property
    def cards(self) -> list[EntryCard]:
        """The entries, from the top."""
        self.settle()
        return self._cards

    def add(self, vary: Vary, edited: bool = False) -> EntryCard:
        """Add an entry."""
        document = self._session.document
        card = EntryCard(vary, document.graph if document else None, self.used)
        card.edited.connect(self._wait.start)
        card.removed.connect(lambda: self._drop(card))
        self._cards.append(card)
        self._list.addWidget(card)
        if edited:
            self.update_notes()
            card.form.setFocus()
        return card

    def _drop(self, card: EntryCard) -> None:
        self._cards.remove(card)
        card.hide()
        card.setParent(None)
        card.deleteLater()
        self._wait.start()

    def put(self, spec: SearchSpec) -> None:
        """Show a search."""
        self.forget()
        self.name.put(spec.study)
        self._fill(spec.space)
        self.goals.put(spec.goals, spec.within, spec.summed)
        self.how.put(spec)
        self.training.put(spec.train, spec.finetune, self._session.measured_on.data)
        if spec.train != "none":
            self._train_fold.unfold()
        self.score.put(spec.score)
        self.update_notes()

    def refresh(self) -> None:
        """Follow a changed graph or recipe: recount the space with the same entries."""
        document = self._session.document
        stay = [card.form.see(document.graph if document else None, self.used) for card in self.cards]
        with contextlib.suppress(EspalierError):  # incomplete entries stay unchanged
            values = [card.value() for card in self.cards]
            if not all(stay):
                self._fill(values)
        self.update_notes()

    def _fill(self, space: Sequence[Vary]) -> None:
        """Rebuild the cards for the present graph and recipe."""
        for card in list(self._cards):
            self._drop(card)
        for vary in space:
            self.add(vary)

    # -- the search

    def spec(self) -> SearchSpec:
        """The search of the form; raises OptionsError."""
        self.settle()
        goals, within, summed = self.goals.get()
        train, finetune = self.training.get()
        return replace(
            self.how.value(), study=self.name.get().strip(), space=tuple(c.value() for c in self.cards), goals=goals,
            within=within, summed=summed, train=train, finetune=finetune, score=self.score.get(),
        )  # fmt: skip

    def run(self) -> None:
        """Request the search if it is valid."""
        self.settle()
        self.update_notes()
        if self.run_button.isEnabled():
            self.run_wanted.emit(self.spec())

    def update_notes(self) -> None:
        """Count the space, and show errors at their fields."""
        self._wait.stop()
        good = self._update_card_notes()
        try:
            goals, within, summed = self.goals.get()
            wanted(SearchSpec(goals=goals, within=within, summed=summed))
        except EspalierError as error:
            self.goals.show_note(_words(error))
            good = False
        else:
            self.goals.show_note("")
        self._tell_whole(good)

    def _update_card_notes(self) -> bool:
        """Update the note of each entry; returns whether all are valid."""
        good, names = True, list[str]()
        for card in self.cards:
            card.more.offer(tuple(names))
            try:
                vary = card.value()
                choices = self._choices(vary)
            except EspalierError as error:
                card.show_note("", _beside(_words(error)))
                good = False
                continue
            card.show_note(entry_text(choices))
            names += [vary.name] if vary.name else []
            names += [c.name for c in choices] if len(choices) <= FEW else []
        return good

    def _choices(self, vary: Vary) -> tuple:  # type: ignore[type-arg]
        document = self._session.document
        if document is None:
            return ()
        return self._expand(SearchSpec(space=(replace(vary, when=None),)), document.graph, self.used).choices

    def _tell_whole(self, good: bool) -> None:
        document, wrong = self._session.document, ""
        self.counted.setText("")
        self.time.setText("")
        try:
            spec = self.spec() if good else None
            if spec and document:
                if not spec.space:
                    raise OptionsError("Nothing varies yet.", "Add formats, a sparsity or an option above.")
                self.counted.setText(size_words(space := self._expand(spec, document.graph, self.used)))
                self.update_duration(spec.trials)
                check_source(space, document.project.source)
                _check(spec, space, document.graph, self.recipe, self.used)
        except EspalierError as error:
            wrong = "" if self.how.error else _words(error)
        self.score.show_summary()
        steps = ", ".join(s.pass_name for s in self.recipe.steps) if self.recipe else ""
        self._recipe_note.setText(tr("On the template's own recipe: {}.", steps) if steps else "")
        for part in (self._recipe_note, self._recipe_link):
            part.setVisible(bool(steps))
        self.foot.show_state(wrong, document is not None)

    def update_duration(self, trials: int = 0) -> None:
        """Show the expected duration, from earlier trials."""
        editor = self.how.editor("trials")
        try:
            number, train = trials or int(editor.get()), self.training.get()[0]
        except EspalierError:
            number, train = 0, "none"
        text = time_text(number, self.each.get(train), trains=train != "none")
        self.time.setText(text if number and self.counted.text() else "")


def fill_with_templates(menu: QMenu, chosen: Callable[[Path], None]) -> None:
    """Fill a menu with the templates and their descriptions."""
    menu.clear()
    menu.setToolTipsVisible(True)
    for template in templates():
        action = menu.addAction(tr(template.title), lambda t=template: chosen(t.path))
        action.setToolTip(tr(template.about))
    menu.addSeparator()


def _check(spec: SearchSpec, space: Space, graph: Graph, recipe: Recipe | None, used: Recipe) -> None:
    """Raise OptionsError for constraints that no trial can meet. A template's recipe leads to another graph."""
    check_spec(spec, want := wanted(spec), used)
    check_grid(spec, space)
    if recipe is None:
        check_limits(space, graph, want)


def _words(error: EspalierError) -> str:
    return error_text(error)


def _beside(message: str) -> str:
    """An error of an entry without its position in the space."""
    message = re.sub(r"^space\[\d+\](\.\w+)?: ", "", message)
    message = message[:1].upper() + message[1:]
    return re.sub(r"^space\[\d+\]( |\.)", lambda m: tr("This ") if m.group(1) == " " else "", message)
