"""A long form in groups, some of them in collapsible sections, which are created when first expanded.

Fields that no group names go into the last group, so that a new option of a pass appears without a change here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from espalier.app.translation import tr
from espalier.app.widgets.forms.collapsible import Collapsible
from espalier.app.widgets.forms.data_fields import DataField, NameField
from espalier.app.widgets.forms.fields import apply_field_style, error_of
from espalier.app.widgets.forms.form import Form
from espalier.model.graph.graph import Graph

OTHER = tr("Other")


@dataclass(frozen=True, slots=True)
class Group:
    """Some fields under a title; `distil*` names all with that prefix. `folded`: collapsed at first."""

    title: str
    names: tuple[str, ...]
    folded: bool = True


def arrange(kind: type, groups: Sequence[Group], without: Sequence[str] = ()) -> list[tuple[Group, tuple[str, ...]]]:
    """The fields of each group; the last group has those that none names."""
    remaining = [f.name for f in fields(kind) if f.init and f.name not in without]
    arranged: list[tuple[Group, tuple[str, ...]]] = []
    for group in groups:
        exact = [n for n in dict.fromkeys(group.names) if n in remaining]
        prefixes = tuple(n[:-1] for n in group.names if n.endswith("*"))
        other = [f for f in remaining if f not in exact and f.startswith(prefixes)] if prefixes else []
        remaining = [f for f in remaining if f not in exact and f not in other]
        arranged.append((group, (*exact, *other)))
    return [(g, names) for g, names in (*arranged, (Group(OTHER, ()), tuple(remaining))) if names]


class GroupedForm(QWidget):
    """`value()` returns the options or raises; `put` also sets the fields of sections that were never expanded.

    `brief`: help is shown in tool tips only.
    """

    changed = Signal()

    def __init__(
        self,
        kind: type,
        groups: Sequence[Group],
        without: Sequence[str] = (),
        graph: Graph | None = None,
        brief: bool = True,
    ) -> None:
        super().__init__()
        apply_field_style(self)
        self._kind, self._graph, self._brief = kind, graph, brief
        self._value = kind()
        self.forms: dict[str, Form] = {}
        self.folds: dict[str, Collapsible] = {}
        self.wrong = QLabel(wordWrap=True)
        self.wrong.setProperty("role", "wrong")
        self.column = QVBoxLayout(self)
        self.column.setContentsMargins(0, 0, 0, 0)
        self.column.setSpacing(8)
        self.names = arrange(kind, groups, without)
        for group, names in self.names:
            self._add(group, names)
        self.column.addWidget(self.wrong)
        self.wrong.hide()

    def _add(self, group: Group, names: tuple[str, ...]) -> None:
        if not group.folded:
            self.column.addWidget(self._form(group, names))
            return
        fold = self.folds[group.title] = Collapsible(group.title, lambda: self._form(group, names))
        self.column.addWidget(fold)

    def _form(self, group: Group, names: tuple[str, ...]) -> Form:
        form = self.forms[group.title] = Form(
            self._kind, self._value, self._graph, inner=True, only=names, brief=self._brief
        )
        form.changed.connect(self._edited)
        self._link_names(form)
        return form

    def _link_names(self, form: Form) -> None:
        """Update the names of a new part when the data of any part change."""
        editors = [e for f in self.forms.values() for e in f.editors.values()]
        for data in (e for e in editors if isinstance(e, DataField)):
            for name in (e for e in form.editors.values() if isinstance(e, NameField)):
                data.previewed.connect(name.show_names)
            data.put(data.get())

    def editor(self, name: str) -> Any:
        """The editor of a field; None if its section was never expanded."""
        return next((f.editors[name] for f in self.forms.values() if name in f.editors), None)

    def put(self, value: Any, graph: Graph | None = None) -> None:
        """Show options; sections created later use `graph`."""
        self._value, self._graph = value, graph
        for form in self.forms.values():
            form.put(value)
        self._refresh()

    def value(self) -> Any:
        """The options. Raises EspalierError if they are invalid."""
        parts: dict[str, Any] = {}
        for form in self.forms.values():
            parts |= form.parts()
        self._value = replace(self._value, **parts)
        return self._value

    @property
    def error(self) -> str:
        """The error of `value`; empty if it is valid."""
        return error_of(self.value)

    def _edited(self) -> None:
        self._refresh()
        self.changed.emit()

    def _refresh(self) -> None:
        """Show the error, and which options of collapsed sections differ from their defaults."""
        error = self.error
        self.wrong.setText(error)
        self.wrong.setVisible(bool(error))
        for group, names in self.names:
            if group.folded:
                self.folds[group.title].note(self._changes(names))

    def _changes(self, names: Sequence[str]) -> str:
        """The names of the fields that differ from their defaults."""
        defaults = {f.name: f.default for f in fields(self._kind) if f.default is not MISSING}
        changed = [n for n in names if n in defaults and getattr(self._value, n) != defaults[n]]
        return ", ".join(tr(n.replace("_", " ")) for n in changed)
