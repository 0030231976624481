"""One option of the recipe and its values: which step, which option, what it takes; with the values as understood."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from espalier.app.step_words import title
from espalier.app.widgets.forms.fields import Choice, Line, chain
from espalier.app.widgets.heading import link, muted
from espalier.model.document.recipe import Recipe
from espalier.model.errors import EspalierError, OptionsError
from espalier.passes.sweep.sweep import Axis, Sweep, points
from espalier.passes.sweep.values import parse_values, value_text
from espalier.passes.sweep.variable_options import Offer, offer_for, offers

SHOWN = 14  # values that the preview lists


class AxisField(QWidget):
    """Step, option, values. `once`: a value that stands twice counts once; it does not where another leads."""

    edited = Signal()
    removed = Signal()

    def __init__(self, once: bool = True, removable: bool = False) -> None:
        super().__init__()
        self._once = once
        self._recipe = Recipe()
        self._offers: dict[int, tuple[Offer, ...]] = {}
        self.step, self.option = Choice(), Choice()
        self.step.setPlaceholderText("step")
        self.option.setPlaceholderText("option")
        self.step.setAccessibleName("Step")
        self.option.setAccessibleName("Option")
        self.values = Line("4, 8, 12…32 or 0.1:0.9:0.1")
        self.values.setAccessibleName("Values")
        self.values.setToolTip("4, 8, 16 · 4:32:4 from, to, step · 4, 8…32 · words such as l1, random · on, off")
        self.preview = muted("")
        self._arrange(removable)
        self.step.edited.connect(self._step_chosen)
        self.option.edited.connect(self._option_chosen)
        self.values.edited.connect(self._edited)

    def _arrange(self, removable: bool) -> None:
        head = QHBoxLayout()
        head.setSpacing(6)
        head.addWidget(self.step, 2)
        head.addWidget(self.option, 3)
        if removable:
            button = link("×", self.removed.emit)
            button.setAccessibleName("Remove this")
            button.setToolTip("Remove this")
            head.addWidget(button)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(4)
        box.addLayout(head)
        box.addWidget(self.values)
        box.addWidget(self.preview)
        chain(self.step, self.option, self.values)

    def offer(self, recipe: Recipe) -> None:
        """Take another recipe; what is chosen stays where it is still there."""
        held = self.place
        self._recipe, self._offers = recipe, {}
        numbers = tuple(range(len(recipe)))
        self.step.offer(numbers, tuple(f"{i + 1} {title(s)}" for i, s in enumerate(recipe.steps)))
        if held and held[0] in numbers:
            self._list(held[0], held[1])
        elif numbers:
            self._list(numbers[-1])
            self._option_chosen()
        self._tell()

    @property
    def place(self) -> tuple[int, str] | None:
        """The step and the option's path; None while there is none."""
        if self.step.currentIndex() < 0 or self.option.currentIndex() < 0:
            return None
        return self.step.get(), self.option.get()

    def _known(self, index: int) -> tuple[Offer, ...]:
        if index not in self._offers:
            self._offers[index] = offers(self._recipe, index)
        return self._offers[index]

    def _list(self, index: int, path: str | None = None) -> None:
        self.step.put(index)
        wanted = None if path is None else offer_for(self._recipe, index, path)
        if wanted and wanted not in self._known(index):
            self._offers[index] = (wanted, *self._known(index))
        known = self._known(index)
        self.option.offer(tuple(o.path for o in known), tuple(o.label for o in known))
        self.option.put(wanted.path if wanted else known[0].path)

    def choose(self, index: int, path: str | None = None, values: str = "") -> None:
        """Show an option; its usual values where none are given."""
        self._list(index, path)
        if values:
            self.values.put(values)
            self._edited()
        else:
            self._option_chosen()

    def _step_chosen(self) -> None:
        self._list(self.step.get())
        self._option_chosen()

    def _option_chosen(self) -> None:
        place = self.place
        found = next((o for o in self._known(place[0]) if o.path == place[1]), None) if place else None
        self.values.put(found.values if found else "")
        self._edited()

    def _edited(self) -> None:
        self._tell()
        self.edited.emit()

    def axis(self) -> Axis:
        """What is chosen; raises OptionsError where its values are none that the option takes."""
        place = self.place
        if place is None:
            raise OptionsError("Nothing is chosen to vary.", "Choose a step and an option.")
        made = Axis(*place, parse_values(self.values.get(), self._once))
        points(Sweep(self._recipe, made))
        return made

    def _tell(self) -> None:
        """Say how the values are understood, or what is wrong with them."""
        try:
            values = self.axis().values
        except EspalierError as error:
            self._say(f"{error.message} {error.hint}" if self._recipe.steps else "", "wrong")
            return
        shown = ", ".join(value_text(v) for v in values[:SHOWN]) + (", …" if len(values) > SHOWN else "")
        self._say(f"{len(values)} {'value' if len(values) == 1 else 'values'}: {shown}", "muted")

    def _say(self, text: str, role: str) -> None:
        self.preview.setText(text)
        if self.preview.property("role") != role:
            self.preview.setProperty("role", role)
            self.preview.style().unpolish(self.preview)
            self.preview.style().polish(self.preview)


def caption(text: str) -> QLabel:
    """The name of a part of the form."""
    label = QLabel(text)
    label.setProperty("role", "strong")
    return label
