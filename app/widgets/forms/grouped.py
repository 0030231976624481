"""A long form in parts: some fields at once, the others in folds that are made when they are opened.

A field that no group names stands in the last fold, so that an option added to a pass appears by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from espalier.app.widgets.forms.data_fields import DataField, NameField
from espalier.app.widgets.forms.fields import trouble, wear_field_style
from espalier.app.widgets.forms.fold import Fold
from espalier.app.widgets.forms.form import Form
from espalier.model.graph.graph import Graph

OTHER = "Other"


@dataclass(frozen=True, slots=True)
class Group:
    """Some fields under a title; `distil*` names all that begin so. `folded` hides them at first."""

    title: str
    names: tuple[str, ...]
    folded: bool = True


def arrange(kind: type, groups: Sequence[Group], without: Sequence[str] = ()) -> list[tuple[Group, tuple[str, ...]]]:
    """Which fields stand in which group; the last one has those that none names."""
    left = [f.name for f in fields(kind) if f.init and f.name not in without]
    found: list[tuple[Group, tuple[str, ...]]] = []
    for group in groups:
        exact = [n for n in dict.fromkeys(group.names) if n in left]
        heads = tuple(n[:-1] for n in group.names if n.endswith("*"))
        other = [f for f in left if f not in exact and f.startswith(heads)] if heads else []
        left = [f for f in left if f not in exact and f not in other]
        found.append((group, (*exact, *other)))
    return [(g, names) for g, names in (*found, (Group(OTHER, ()), tuple(left))) if names]


class GroupedForm(QWidget):
    """`value()` gives the options or raises; `put` shows others, also in folds that are not made yet.

    Not brief: what options mean stands below them, not in tool tips alone.
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
        self._kind, self._graph, self._brief = kind, graph, brief
        self._held = kind()
        self.forms: dict[str, Form] = {}
        self.folds: dict[str, Fold] = {}
        self.wrong = QLabel(wordWrap=True)
        self.wrong.setProperty("role", "wrong")
        self.column = QVBoxLayout(self)
        self.column.setContentsMargins(0, 0, 0, 0)
        self.column.setSpacing(8)
        self.names = arrange(kind, groups, without)
        for group, names in self.names:
            self._add(group, names)
        self.column.addWidget(self.wrong)
        wear_field_style(self)
        self.wrong.hide()

    def _add(self, group: Group, names: tuple[str, ...]) -> None:
        if not group.folded:
            self.column.addWidget(self._form(group, names))
            return
        fold = self.folds[group.title] = Fold(group.title, lambda: self._form(group, names))
        self.column.addWidget(fold)

    def _form(self, group: Group, names: tuple[str, ...]) -> Form:
        form = self.forms[group.title] = Form(
            self._kind, self._held, self._graph, inner=True, only=names, brief=self._brief
        )
        form.changed.connect(self._edited)
        self._join(form)
        return form

    def _join(self, form: Form) -> None:
        """Let names in one part follow the data in another."""
        editors = [e for f in self.forms.values() for e in f.editors.values()]
        for data in (e for e in editors if isinstance(e, DataField)):
            for name in (e for e in form.editors.values() if isinstance(e, NameField)):
                data.looked.connect(name.show_names)
            data.put(data.get())

    def editor(self, name: str) -> Any:
        """The editor of a field; None while its fold is not made."""
        return next((f.editors[name] for f in self.forms.values() if name in f.editors), None)

    def put(self, value: Any, graph: Graph | None = None) -> None:
        """Show options; of another graph, what is folded is made anew."""
        self._held, self._graph = value, graph
        for form in self.forms.values():
            form.put(value)
        self._tell()

    def value(self) -> Any:
        """The options; raises EspalierError where they are impossible."""
        parts: dict[str, Any] = {}
        for form in self.forms.values():
            parts |= form.parts()
        self._held = replace(self._held, **parts)
        return self._held

    @property
    def error(self) -> str:
        """Why there is no value; empty when there is one."""
        return trouble(self.value)

    def _edited(self) -> None:
        self._tell()
        self.changed.emit()

    def _tell(self) -> None:
        words = self.error
        self.wrong.setText(words)
        self.wrong.setVisible(bool(words))
        for group, names in self.names:
            if group.folded:
                self.folds[group.title].note(self._changes(names))

    def _changes(self, names: Sequence[str]) -> str:
        """The folded fields that are not as they are by default."""
        default = {f.name: f.default for f in fields(self._kind) if f.default is not MISSING}
        other = [n for n in names if n in default and getattr(self._held, n) != default[n]]
        return ", ".join(n.replace("_", " ") for n in other)
