"""Forms of the entries of a space: formats, sparsity, an option, a configuration's key, identity, parallelism."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QCompleter, QGridLayout, QLabel, QWidget

from espalier.app.features.search.formats import FormatsField
from espalier.app.glossary import meaning
from espalier.app.translation import tr, translated
from espalier.app.widgets.forms.axis_field import AxisField
from espalier.app.widgets.forms.chips import Chips
from espalier.app.widgets.forms.fields import Choice, Line, NumberField
from espalier.app.widgets.forms.flow_layout import FlowLayout
from espalier.app.widgets.forms.form import SelectEditor
from espalier.model.document.recipe import Recipe
from espalier.model.errors import EspalierError, OptionsError
from espalier.model.graph.graph import Graph
from espalier.passes.choices.pruning import METHODS
from espalier.passes.choices.quantize import PORTS
from espalier.passes.search.spec import Vary
from espalier.passes.sweep.spec_text import parse_place
from espalier.passes.sweep.sweep import axis_name
from espalier.passes.sweep.values import values_text

CONFIG_KEYS = ("num_hidden_layers", "num_attention_heads", "hidden_size", "intermediate_size")


class Range(QWidget):
    """A list of values, or a range of numbers."""

    edited = Signal()

    def __init__(self, hint: str) -> None:
        super().__init__()
        self.how = Choice(("one of", "between"))
        self.how.setAccessibleName(tr("List or range"))
        self.values = Line(hint)
        self.values.setAccessibleName(tr("Values"))
        self.low, self.high = NumberField(float, optional=True), NumberField(float, optional=True)
        self.low.setAccessibleName(tr("From"))
        self.high.setAccessibleName(tr("To"))
        self.and_ = QLabel(tr("and"))
        flow = FlowLayout(self, spacing=6)
        for part in (self.how, self.values, self.low, self.and_, self.high):
            flow.addWidget(part)
        self.values.setMinimumWidth(110)
        self.how.edited.connect(self._adapt)
        for part in (self.how, self.values, self.low, self.high):
            part.edited.connect(self.edited)
        self._adapt()

    def _adapt(self) -> None:
        between = self.how.get() == "between"
        self.values.setVisible(not between)
        for part in (self.low, self.and_, self.high):
            part.setVisible(between)

    def get(self) -> dict[str, Any]:
        """`values`, or `low` and `high`; raises OptionsError."""
        if self.how.get() == "one of":
            return {"values": self.values.get(), "low": None, "high": None}
        low, high = self.low.get(), self.high.get()
        if low is None or high is None or low >= high:
            raise OptionsError("The range is empty: low must be below high.", "Write a lower and a higher number.")
        return {"values": "", "low": low, "high": high}

    def put(self, vary: Vary) -> None:
        """Show the values of an entry."""
        self.how.put("one of" if vary.low is None else "between")
        self.values.put(vary.values)
        self.low.put(vary.low)
        self.high.put(vary.high)
        self._adapt()


class EntryForm(QWidget):
    """Captions and fields of a kind, by ROWS. `get` returns the fields of a Vary; raises OptionsError."""

    edited = Signal()

    def __init__(self, kind: str, graph: Graph | None, recipe: Recipe) -> None:
        super().__init__()
        self.graph, self.recipe = graph, recipe
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(8)
        self._grid.setVerticalSpacing(5)
        self._grid.setColumnStretch(1, 1)
        self.fields: dict[str, Any] = {n: self.row(caption, make(graph)) for caption, n, make in ROWS.get(kind, ())}

    def see(self, graph: Graph | None, recipe: Recipe) -> bool:
        """Set the graph and recipe; returns whether the form offers the same for them, as after a change of formats."""
        same = self._offers(graph, recipe) == self._offers(self.graph, self.recipe)
        if same:
            self.graph, self.recipe = graph, recipe
        return same

    def _offers(self, graph: Graph | None, recipe: Recipe) -> object:
        """The data from which the fields are built: the names of the nodes."""
        return None if graph is None else [(n.id, n.op, n.target, n.module_path) for n in graph]

    def row(self, caption: str, field: Any) -> Any:
        """Add a field with a caption; its edits are emitted by the form."""
        row, label = self._grid.rowCount(), QLabel(tr(caption))
        label.setProperty("role", "muted")
        label.setToolTip(meaning(caption))
        label.setFixedHeight(21)
        self._grid.addWidget(label, row, 0, Qt.AlignmentFlag.AlignTop)
        narrow = Qt.AlignmentFlag.AlignLeft if isinstance(field, Choice) else Qt.AlignmentFlag(0)
        self._grid.addWidget(field, row, 1, narrow)
        field.edited.connect(self.edited)
        return field

    def get(self) -> dict[str, Any]:
        """The edited fields of the entry."""
        values: dict[str, Any] = {}
        for name, field in self.fields.items():
            values |= field.get() if isinstance(field, Range) else {name: field.get()}
        if values.get("ports") == ():
            raise OptionsError("No port is chosen.", "Choose weight, data_in, bias or data_out.")
        if "key" in values and not (key := values["key"].strip()):
            raise OptionsError("The key is missing.", "Write a key of the configuration, such as num_hidden_layers.")
        return values | ({"key": key} if "key" in values else {})

    def put(self, vary: Vary) -> None:
        """Show an entry."""
        for name, field in self.fields.items():
            value = vary if isinstance(field, Range) else getattr(vary, name)
            if isinstance(field, Choice) and value not in field.values:
                field.offer((*field.values, value))
            field.put(value)


class OptionForm(EntryForm):
    """An option of a step of the recipe, chosen as in sweeps, or written as a path without steps."""

    def __init__(self, kind: str, graph: Graph | None, recipe: Recipe) -> None:
        super().__init__(kind, graph, recipe)
        self.axis, self.key = AxisField(), Line("lora.rank")
        self.key.setAccessibleName(tr("Option"))
        self.share = Range(tr("4, 8, 16 or 0.1:0.9:0.1 or on, off"))
        self._grid.addWidget(self.axis, 0, 0, 1, 2)
        self.axis.edited.connect(self.edited)
        self.row("option", self.key)
        self.row("values", self.share)
        self._by_text = not recipe.steps
        self.axis.offer(recipe)
        self._show()

    def _offers(self, graph: Graph | None, recipe: Recipe) -> object:
        return recipe

    def _show(self) -> None:
        self.axis.setVisible(not self._by_text)
        for row in range(1, self._grid.rowCount()):
            for column in (0, 1):
                item = self._grid.itemAtPosition(row, column)
                if item and (widget := item.widget()):
                    widget.setVisible(self._by_text)

    def get(self) -> dict[str, Any]:
        """Path and values of the option."""
        if self._by_text:
            return {"key": self.key.get().strip(), **self.share.get()}
        axis = self.axis.axis()
        return {"key": axis_name(self.recipe, axis), "values": values_text(axis.values), "low": None, "high": None}

    def put(self, vary: Vary) -> None:
        """Show an entry; an option that the recipe lacks and a range are shown as text."""
        try:
            option = parse_place(self.recipe, vary.key) if vary.key and vary.low is None else None
        except EspalierError:
            option = None
        self._by_text = bool(vary.key and option is None) or not self.recipe.steps
        if option and not self._by_text:
            self.axis.choose(*option, vary.values)
        self.key.put(vary.key)
        self.share.put(vary)
        self._show()


def _key_line(graph: Graph | None) -> Line:
    line = Line(CONFIG_KEYS[0])
    line.setCompleter(QCompleter(CONFIG_KEYS, line))
    return line


Make = Callable[[Graph | None], Any]
LAYERS: tuple[str, str, Make] = ("layers", "select", SelectEditor)
ROWS: dict[str, tuple[tuple[str, str, Make], ...]] = {
    "format": (LAYERS, ("ports", "ports", lambda _: Chips(PORTS, "port")),
               ("formats", "values", lambda _: FormatsField())),
    "sparsity": (LAYERS, ("sparsity", "values", lambda _: Range("0, 0.25, 0.5, 0.75")),
                 ("method", "method", lambda _: Choice(METHODS))),
    "config": (("key", "key", _key_line), ("values", "values", lambda _: Range("2, 4, 8"))),
    "identity": (LAYERS,),
    "parallel": (LAYERS, ("products", "values", lambda _: Range("1, 4, 16, 64"))),
}  # fmt: skip
TITLES: dict[str, str] = translated({
    "format": "Formats", "sparsity": "Sparsity", "option": "Option of a step", "config": "Configuration",
    "identity": "Linear or Identity", "parallel": "Hardware parallelism",
})  # fmt: skip
BEGINNINGS: dict[str, Vary] = {
    "format": Vary("format", values="integer(width=2|3|4|5|6|8)"),
    "sparsity": Vary("sparsity", values="0, 0.25, 0.5, 0.75"),
    "option": Vary("option"),
    "config": Vary("config", key="num_hidden_layers", values="2, 4", per="all"),
    "identity": Vary("identity"),
    "parallel": Vary("parallel", values="1, 4, 16, 64"),
}
