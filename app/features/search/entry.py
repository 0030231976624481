"""One entry of a space as a card: what varies, where, which layers share a choice, and its condition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from espalier.app.features.search.entry_forms import TITLES, EntryForm, OptionForm
from espalier.app.glossary import meaning
from espalier.app.translation import tr, translated
from espalier.app.widgets.forms.collapsible import Collapsible
from espalier.app.widgets.forms.fields import Check, Choice, Line, NumberField
from espalier.app.widgets.forms.flow_layout import FlowLayout
from espalier.app.widgets.heading import link
from espalier.model.document.recipe import Recipe
from espalier.model.errors import EspalierError
from espalier.model.graph.graph import Graph
from espalier.passes.search.spec import Vary, When
from espalier.passes.sweep.values import parse_values, value_text

TIED = translated(
    {
        "layer": "each layer its own",
        "type": "each type its own",
        "module": "each module its own",
        "all": "one for all",
    }
)
OVER_LAYERS = ("format", "sparsity", "identity", "parallel")
ALWAYS = "always"


class More(QWidget):
    """Rarely changed fields of an entry: name, condition, fitting and scale."""

    edited = Signal()

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = kind
        self.fit, self.log = Check(tr("fit each format to its weight")), Check(tr("steps by ratio (logarithmic)"))
        self.name = Line(tr("name of the entry"))
        self.name.setAccessibleName(tr("Name of the entry"))
        self.only, self.values = Choice((ALWAYS,)), Line(tr("values"))
        self.only.setAccessibleName(tr("Exists only if"))
        self.values.setAccessibleName(tr("Values of the condition"))
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(5)
        for part in (self.fit, self.log, _row("name", self.name), _row("exists", self.only, self.values)):
            box.addWidget(part)
        self.fit.setVisible(kind == "format")
        self.log.setVisible(kind not in ("format", "identity"))
        for part in (self.fit, self.log, self.name, self.only, self.values):
            part.edited.connect(self._edited)

    def offer(self, names: Sequence[str]) -> None:
        """Set the earlier choices that a condition can name."""
        current = self.only.get()  # an unknown name stays and is reported as an error
        names = tuple(dict.fromkeys([*names, *([current] if current != ALWAYS else [])]))
        texts = tuple(tr("only if {} is", n) for n in names)
        self.only.offer((ALWAYS, *names), (tr(ALWAYS), *texts))
        self.values.setVisible(self.only.get() != ALWAYS)

    def _edited(self) -> None:
        self.values.setVisible(self.only.get() != ALWAYS)
        self.edited.emit()

    def put(self, vary: Vary) -> None:
        """Show the fields of an entry."""
        self.fit.put(vary.fit)
        self.log.put(vary.log)
        self.name.put(vary.name)
        condition = vary.when.name if vary.when else ALWAYS
        if condition not in self.only.values:
            self.offer((*self.only.values[1:], condition))
        self.only.put(condition)
        self.values.put(", ".join(map(value_text, vary.when.values)) if vary.when else "")
        self.values.setVisible(vary.when is not None)

    def get(self, vary: Vary) -> Vary:
        """The entry with these fields; raises OptionsError."""
        when = None
        if self.only.get() != ALWAYS:
            when = When(self.only.get(), parse_values(self.values.get()))
        return replace(vary, fit=self.fit.get(), log=self.log.get(), name=self.name.get().strip(), when=when)


class EntryCard(QFrame):
    """`value` returns the Vary or raises OptionsError; errors are shown at the bottom."""

    edited = Signal()
    removed = Signal()

    def __init__(self, vary: Vary, graph: Graph | None, recipe: Recipe) -> None:
        super().__init__()
        self.kind = vary.kind
        self.setProperty("card", True)
        form_type = OptionForm if vary.kind == "option" else EntryForm
        self.form = form_type(vary.kind, graph, recipe)
        self.title = QLabel(TITLES[vary.kind])
        self.title.setProperty("role", "strong")
        self.title.setToolTip(meaning(self.title.text()))
        self.note, self.wrong = QLabel(), QLabel(wordWrap=True)
        self.note.setProperty("role", "small")
        self.wrong.setProperty("role", "wrong")
        self.per, self.parts = Choice(tuple(TIED), tuple(TIED.values())), NumberField(int, 1, 20)
        self.per.setAccessibleName(tr("Layers that share a choice"))
        self.parts.setAccessibleName(tr("Parts of the path of a module"))
        self.parts.setToolTip(tr("Number of leading parts of a module's path that share a choice"))
        self.more = More(vary.kind)
        self.fold = Collapsible(tr("More"), lambda: self.more)
        self._arrange()
        self.put(vary)
        for part in (self.form, self.per, self.parts, self.more):
            part.edited.connect(self._edited)

    def _arrange(self) -> None:
        drop = link("×", self.removed.emit)
        drop.setAccessibleName(tr("Remove {}", self.title.text()))
        drop.setToolTip(tr("Remove this from the space"))
        head = QHBoxLayout()
        head.setSpacing(6)
        head.addWidget(self.title)
        head.addWidget(self.note, 1)
        head.addWidget(drop)
        self._tied = _row("choice", self.per, self.parts)
        self._tied.setVisible(self.kind in OVER_LAYERS)
        box = QVBoxLayout(self)
        box.setContentsMargins(10, 4, 6, 6)
        box.setSpacing(5)
        box.addLayout(head)
        for part in (self.form, self._tied, self.fold, self.wrong):
            box.addWidget(part)
        self.wrong.hide()

    def put(self, vary: Vary) -> None:
        """Show an entry of the same kind."""
        self.form.put(vary)
        self.per.put(vary.per)
        self.parts.put(vary.depth)
        self.parts.setVisible(vary.per == "module")
        self.more.put(vary)
        self._note_more(vary)

    def value(self) -> Vary:
        """The entry; raises OptionsError."""
        vary = Vary(self.kind, **self.form.get(), per=self.per.get(), depth=self.parts.get())  # type: ignore[arg-type]
        return self.more.get(vary)

    def _edited(self) -> None:
        self.parts.setVisible(self.per.get() == "module")
        self.edited.emit()

    def show_note(self, note: str, wrong: str = "") -> None:
        """Show the size of the entry, or its error."""
        self.note.setText(note)
        self.wrong.setText(wrong)
        self.wrong.setVisible(bool(wrong))
        try:
            self._note_more(self.value())
        except EspalierError:
            return

    def _note_more(self, vary: Vary) -> None:
        """Show the fields of the collapsed part that differ from the defaults."""
        parts = [
            vary.name,
            tr("only if {}", vary.when.name) if vary.when else "",
            "" if vary.fit or self.kind != "format" else tr("not fitted"),
            tr("by ratio") if vary.log else "",
        ]
        self.fold.note(", ".join(w for w in parts if w))


def _row(caption: str, *parts: QWidget) -> QWidget:
    container = QWidget()
    flow = FlowLayout(container, spacing=6)
    label = QLabel(tr(caption))
    label.setProperty("role", "muted")
    label.setToolTip(meaning(caption))
    for part in (label, *parts):
        flow.addWidget(part)
    return container
