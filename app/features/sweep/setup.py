"""The form of a sweep: option, variants, seeds and data of the score, with the expected duration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from espalier.app.number_text import count, duration, plural
from espalier.app.translation import error_text, message, tr
from espalier.app.widgets.forms.axis_field import AxisField, caption
from espalier.app.widgets.forms.fields import Choice, NumberField, apply_field_style
from espalier.app.widgets.forms.score_field import ScoreField
from espalier.app.widgets.heading import link, muted
from espalier.model.document.recipe import Recipe
from espalier.model.errors import EspalierError
from espalier.model.registry import PASSES
from espalier.passes.figure import OPENED, START
from espalier.passes.sweep.run import estimate
from espalier.passes.sweep.spec_text import variants_of
from espalier.passes.sweep.sweep import Axis, Sweep, Variant, points
from espalier.passes.sweep.variable_options import Offer, suggested_lines, usual_axis

if TYPE_CHECKING:
    from espalier.app.session.session import Session


class SweepSetup(QWidget):
    """The form at the left of the panel. `run_wanted`: run this sweep."""

    run_wanted = Signal(object)

    def __init__(self, session: Session, timed: Mapping[str, float]) -> None:
        super().__init__()
        apply_field_style(self)
        self._session, self._timed = session, timed
        self._recipe = Recipe()
        self.main = AxisField()
        self.along: AxisField | None = None
        self.lines: list[AxisField] = []
        self.seeds = NumberField(int, 1, 100)
        self.seeds.setAccessibleName(tr("Seeds"))
        self.seeds.put(1)
        self.baseline = Choice((START, OPENED), (tr(START), tr("model as opened")))
        self.baseline.setAccessibleName(tr("Baseline"))
        self.baseline.setToolTip(tr("Baseline of the points: the present project, or the model as opened"))
        self.score = ScoreField(
            lambda: session.measured_on, tr("No data: sizes and bits alone are counted"), optional=True
        )
        self._words = muted("")
        self.foot = QWidget()  # stays below the fields
        self.run_button = QPushButton(tr("Run"))
        self.run_button.setProperty("primary", True)
        self.run_button.clicked.connect(self.run)
        self._arrange()
        self.main.edited.connect(self._edited)
        for part in (self.seeds, self.score):
            part.edited.connect(self.update_estimate)
        self.main.values.returnPressed.connect(self.run)

    def _arrange(self) -> None:
        self._more, self._rows, self._links = QVBoxLayout(), QVBoxLayout(), QVBoxLayout()
        for box in (self._more, self._rows, self._links):
            box.setSpacing(6)
        self._links.setSpacing(0)
        self._along_link = _left(link(tr("+ another option along with it"), self.add_along))
        self.seeds.setToolTip(tr("Number of seeds: the curve shows means and standard deviations"))
        seeds = QHBoxLayout()
        seeds.addWidget(caption(tr("Seeds")))
        seeds.addWidget(self.seeds)
        self.repeat_link = link(tr("repeat the recipe unchanged"), self.repeat)
        self.repeat_link.setToolTip(
            tr("The present recipe with several seeds: mean and standard deviation of its score")
        )
        seeds.addWidget(self.repeat_link)
        seeds.addStretch(1)
        against = QHBoxLayout()
        against.addWidget(caption(tr("Baseline")))
        against.addWidget(self.baseline)
        against.addStretch(1)
        box = QVBoxLayout(self)
        box.setContentsMargins(12, 8, 12, 10)
        box.setSpacing(8)
        for part in (caption(tr("Vary")), self.main, self._more, self._along_link, caption(tr("Lines")), self._rows,
                     self._links, seeds, against, self.score):  # fmt: skip
            box.addWidget(part) if isinstance(part, QWidget) else box.addLayout(part)
        box.addStretch(1)
        foot = QVBoxLayout(self.foot)
        foot.setContentsMargins(12, 6, 12, 10)
        foot.setSpacing(6)
        foot.addWidget(self._words)
        foot.addWidget(self.run_button)

    # -- choices

    def offer(self, recipe: Recipe) -> None:
        """Offer the options of another recipe, keeping valid choices."""
        first = not self._recipe.steps
        self._recipe = recipe
        self.setEnabled(bool(recipe.steps))
        for field in self._fields():
            field.offer(recipe)
        if first and (axis := usual_axis(recipe)):
            self.main.choose(axis.step, axis.path, axis.values)
        self._offer_lines()
        self.update_estimate()

    def preset(self, index: int, path: str | None = None) -> None:
        """Preset an option of a step."""
        self.main.choose(index, path)
        self.main.values.setFocus()

    def _fields(self) -> list[AxisField]:
        return [self.main, *([self.along] if self.along else []), *self.lines]

    def _offer_lines(self) -> None:
        """Offer frequent variants as links."""
        while (item := self._links.takeAt(0)) is not None:
            if widget := item.widget():
                widget.hide()
                widget.deleteLater()
        if not self._recipe.steps:
            return
        used = {f.place for f in self._fields()}
        main = self.main.place
        for title, offer in suggested_lines(self._recipe, Axis(*main, ()) if main else None):
            if (offer.step, offer.path) not in used:
                self._links.addWidget(_left(link(f"+ {message(title)}", lambda o=offer: self.add_line(o))))
        self._links.addWidget(_left(link(tr("+ a line for each value of…"), self.add_line)))

    def add_line(self, offer: Offer | None = None) -> AxisField:
        """Add an option with a line per value."""
        field = AxisField(removable=True)
        field.offer(self._recipe)
        if offer:
            field.choose(offer.step, offer.path, offer.values)
        field.edited.connect(self.update_estimate)
        field.removed.connect(lambda: self._drop(field))
        self.lines.append(field)
        self._rows.addWidget(field)
        self._offer_lines()
        self.update_estimate()
        return field

    def _drop(self, field: AxisField) -> None:
        if field is self.along:
            self.along = None
            self._along_link.show()
        else:
            self.lines.remove(field)
        field.hide()
        field.deleteLater()
        self._offer_lines()
        self.update_estimate()

    def add_along(self) -> AxisField:
        """Add an option that varies along with the first, value by value."""
        if self.along is None:
            self.along = AxisField(once=False, removable=True)
            self.along.offer(self._recipe)
            self.along.edited.connect(self.update_estimate)
            self.along.removed.connect(lambda field=self.along: self._drop(field))
            self._more.addWidget(self.along)
            self._along_link.hide()
            self.update_estimate()
        return self.along

    # -- the sweep

    def sweep(self) -> Sweep:
        """The sweep of the form; raises OptionsError."""
        axis = self.main.axis()
        along = (self.along.axis(),) if self.along else ()
        lines = [f.axis() for f in self.lines]
        variants = variants_of(self._recipe, lines)
        built = Sweep(self._recipe, axis, along, variants, tuple(range(self.seeds.get())), self.score.get(),
                     baseline=self._compared)  # fmt: skip
        points(built)
        return built

    @property
    def _compared(self) -> Recipe:
        """The recipe of the baseline."""
        return self._recipe if self.baseline.get() == START else Recipe()

    def run(self) -> None:
        """Request the sweep if it is valid."""
        self.update_estimate()
        if self.run_button.isEnabled():
            self.run_wanted.emit(self.sweep())

    def repeat(self) -> None:
        """Request the unchanged recipe with the given number of seeds, or three."""
        if self.seeds.get() < 2:
            self.seeds.put(3)
            self.update_estimate()
        seeds = tuple(range(self.seeds.get()))
        self.run_wanted.emit(
            Sweep(self._recipe, None, (), (Variant(),), seeds, self.score.get(), baseline=self._compared)
        )

    def _edited(self) -> None:
        self._offer_lines()
        self.update_estimate()

    def update_estimate(self) -> None:
        """Show the expected work, or the error."""
        self.score.show_summary()
        try:
            sweep = self.sweep()
            estimate_of_sweep = estimate(sweep, self._timed)
        except EspalierError as error:
            text = error_text(error)
            self._words.setText(text if self._recipe.steps else tr("Add a step to the recipe to vary it."))
            self.run_button.setEnabled(False)
            return
        self._words.setText(
            work_text(
                estimate_of_sweep.points, estimate_of_sweep.runs, estimate_of_sweep.seconds, estimate_of_sweep.untimed
            )
        )
        self.run_button.setEnabled(True)


def work_text(number: int, runs: Mapping[str, int], seconds: float, untimed: tuple[str, ...]) -> str:
    """The expected work, such as `19 points · 9 × Fine-tune, 19 × Evaluate · about 2 min 10 s`."""
    slow = [f"{count(n)} × {_title(name)}" for name, n in runs.items() if not PASSES.get(name).instant]
    duration_text = tr("about {}", duration(seconds)) if seconds >= 1 else tr("a moment") if not untimed else ""
    new = tr("{} not timed yet", ", ".join(map(_title, untimed))) if untimed and any(n in runs for n in untimed) else ""
    new = "" if all(PASSES.get(n).instant for n in untimed) else new
    return " · ".join(t for t in (plural(number, "point"), ", ".join(slow), duration_text, new) if t)


def _title(name: str) -> str:
    return tr(PASSES.get(name).title) if name in PASSES else name


def _left(widget: QWidget) -> QWidget:
    """A row with the widget at its left."""
    container = QWidget()
    row = QHBoxLayout(container)
    row.setContentsMargins(0, 0, 0, 0)
    row.addWidget(widget)
    row.addStretch(1)
    return container
