"""A field for one varied option: a step of the recipe, an option and its values, with a preview of the values."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from espalier.app.number_text import plural
from espalier.app.step_text import title
from espalier.app.translation import error_text, message, tr
from espalier.app.widgets.forms.fields import Choice, Line, set_tab_chain
from espalier.app.widgets.heading import link, muted, set_role
from espalier.model.document.recipe import Recipe
from espalier.model.errors import EspalierError, OptionsError
from espalier.passes.sweep.sweep import Axis, Sweep, points
from espalier.passes.sweep.values import parse_values, value_text
from espalier.passes.sweep.variable_options import Offer, offer_for, offers

_PORTS = ("weight ", "bias ", "data in ", "data out ")  # as options of formats begin
MAX_PREVIEW = 14  # values that the preview lists


class AxisField(QWidget):
    """Edits an Axis. `once`: repeated values count once."""

    edited = Signal()
    removed = Signal()

    def __init__(self, once: bool = True, removable: bool = False) -> None:
        super().__init__()
        self._once = once
        self._recipe = Recipe()
        self._offers: dict[int, tuple[Offer, ...]] = {}
        self.step, self.option = Choice(), Choice()
        self.step.setPlaceholderText(tr("step"))
        self.option.setPlaceholderText(tr("option"))
        self.step.setAccessibleName(tr("Step"))
        self.option.setAccessibleName(tr("Option"))
        self.values = Line(tr("4, 8, 12…32 or 0.1:0.9:0.1"))
        self.values.setAccessibleName(tr("Values"))
        self.values.setToolTip(tr("4, 8, 16 · 4:32:4 from, to, step · 4, 8…32 · words such as l1, random · on, off"))
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
            button.setAccessibleName(tr("Remove option"))
            button.setToolTip(tr("Remove option"))
            head.addWidget(button)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(4)
        box.addLayout(head)
        box.addWidget(self.values)
        box.addWidget(self.preview)
        set_tab_chain(self.step, self.option, self.values)

    def offer(self, recipe: Recipe) -> None:
        """Set the recipe; keeps the chosen option if the recipe still has it."""
        chosen = self.place
        self._recipe, self._offers = recipe, {}
        numbers = tuple(range(len(recipe)))
        self.step.offer(numbers, tuple(f"{i + 1} {title(s)}" for i, s in enumerate(recipe.steps)))
        if chosen and chosen[0] in numbers:
            self._list(chosen[0], chosen[1])
        elif numbers:
            self._list(numbers[-1])
            self._option_chosen()
        self._show_preview()

    @property
    def place(self) -> tuple[int, str] | None:
        """The index of the step and the path of the option; None if none is chosen."""
        if self.step.currentIndex() < 0 or self.option.currentIndex() < 0:
            return None
        return self.step.get(), self.option.get()

    def _options(self, index: int) -> tuple[Offer, ...]:
        if index not in self._offers:
            self._offers[index] = offers(self._recipe, index)
        return self._offers[index]

    def _list(self, index: int, path: str | None = None) -> None:
        self.step.put(index)
        wanted = None if path is None else offer_for(self._recipe, index, path)
        if wanted and wanted not in self._options(index):
            self._offers[index] = (wanted, *self._options(index))
        options = self._options(index)
        self.option.offer(tuple(o.path for o in options), tuple(_label(o.label) for o in options))
        self.option.put(wanted.path if wanted else options[0].path)

    def choose(self, index: int, path: str | None = None, values: str = "") -> None:
        """Choose an option, with its default values if none are given."""
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
        option = next((o for o in self._options(place[0]) if o.path == place[1]), None) if place else None
        self.values.put(option.values if option else "")
        self._edited()

    def _edited(self) -> None:
        self._show_preview()
        self.edited.emit()

    def axis(self) -> Axis:
        """The varied option. Raises OptionsError if none is chosen or it does not accept the values."""
        place = self.place
        if place is None:
            raise OptionsError("No option is chosen.", "Choose a step and an option to vary.")
        axis = Axis(*place, parse_values(self.values.get(), self._once))
        points(Sweep(self._recipe, axis))
        return axis

    def _show_preview(self) -> None:
        """Show the parsed values, or the error."""
        try:
            values = self.axis().values
        except EspalierError as error:
            self._set_preview(error_text(error) if self._recipe.steps else "", "wrong")
            return
        listed = ", ".join(value_text(v) for v in values[:MAX_PREVIEW]) + (", …" if len(values) > MAX_PREVIEW else "")
        self._set_preview(f"{plural(len(values), 'value')}: {listed}", "muted")

    def _set_preview(self, text: str, role: str) -> None:
        self.preview.setText(text)
        set_role(self.preview, role)


def caption(text: str) -> QLabel:
    """A label for a part of a form, in bold."""
    label = QLabel(text)
    label.setProperty("role", "strong")
    return label


def _label(label: str) -> str:
    """The translation of an option's label, but for the name of a port: `weight width`."""
    port = next((p for p in _PORTS if label.startswith(p)), "")
    return port + message(label.removeprefix(port))
