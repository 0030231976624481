"""Forms for any options dataclass, derived from its fields, types, defaults and metadata (min, max, help).

A new pass or format needs no form of its own. Types without an editor are edited as JSON.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from types import UnionType
from typing import Any, Union, get_args, get_origin

from PySide6.QtCore import QStringListModel, Qt, Signal
from PySide6.QtWidgets import QCompleter, QFrame, QGridLayout, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from espalier.app.glossary import meaning
from espalier.app.translation import tr, translated
from espalier.app.widgets.forms.data_fields import DataField, data_editor, link_names
from espalier.app.widgets.forms.fields import (
    OPTION,
    Choice,
    Line,
    NumberField,
    WordList,
    apply_field_style,
    error_of,
    scalar,
)
from espalier.app.widgets.forms.format_editor import FormatEditor
from espalier.app.widgets.forms.formats_line import FormatsLine
from espalier.app.widgets.heading import link
from espalier.model.document.codec import Tagged, decode, encode, hints
from espalier.model.errors import EspalierError, OptionsError
from espalier.model.formats.base import Format
from espalier.model.graph.graph import Graph
from espalier.passes.choices.quantize import PORTS
from espalier.passes.select import Select, types_in

BY: dict[str, str] = translated({
    "all": "all nodes", "type": "by type", "name": "by name", "regex": "by pattern", "module": "by module",
    "where": "by expression", "saved": "saved selection",
})  # fmt: skip
HINTS: dict[str, str] = translated({
    "type": "linear, conv2d", "name": "node ids or module paths", "regex": "patterns such as .*query",
    "module": "bert.encoder.layer.0", "where": 'op == "linear" and params > 1e4',
    "saved": "names of selections that the project keeps",
})  # fmt: skip


class JsonLine(Line):
    """A value of any type, as JSON."""

    def __init__(self, kind: Any) -> None:
        super().__init__("JSON")
        self._kind = kind

    def get(self) -> Any:
        """The value. Raises OptionsError."""
        try:
            return decode(self._kind, json.loads(self.text() or "null"))
        except json.JSONDecodeError as error:
            raise OptionsError(f"{self.text()!r} is not JSON.", str(error)) from error

    def put(self, value: Any) -> None:
        """Show a value."""
        self.setText(json.dumps(encode(value), ensure_ascii=False))


class SelectEditor(QWidget):
    """Edits a Select: all nodes, or nodes by type, name, pattern, module or expression, completed from the graph."""

    edited = Signal()

    def __init__(self, graph: Graph | None = None) -> None:
        super().__init__()
        self.by = Choice(tuple(BY), tuple(BY.values()))
        self.values = WordList()
        self.by.setAccessibleName(tr("select by"))
        self.values.setAccessibleName(tr("selected nodes"))
        self._completions = _names(graph) if graph else {}
        self._paths = _paths(graph) if graph else {}
        self._ids: dict[str, str] = {}
        self._saved: Select | None = None
        self._words = QStringListModel(self)
        self.values.setCompleter(_WordCompleter(self._words, self.values))
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(6)
        row.addWidget(self.by)
        row.addWidget(self.values, 1)
        self.by.edited.connect(self._adapt)
        for part in (self.by, self.values):
            part.edited.connect(self.edited)
        self._adapt()

    def _adapt(self) -> None:
        by = self.by.get()
        self.values.setVisible(by != "all")
        self.values.setPlaceholderText(HINTS.get(by, ""))
        self.values.setToolTip(self.values.text().replace(", ", "\n"))
        self._words.setStringList(self._completions.get(by, []))

    def offer_saved(self, names: Sequence[str]) -> None:
        """Complete the names of saved selections."""
        self._completions = {**self._completions, "saved": list(names)}
        self._adapt()

    def get(self) -> Select:
        """The selection. Raises OptionsError if it is empty or a pattern is invalid."""
        by = self.by.get()
        values: tuple[str, ...] = self.values.get() if by != "all" else ()
        if by == "where":  # an expression may contain commas
            values = (text,) if (text := self.values.text().strip()) else ()
        if by != "all" and not values:
            raise OptionsError("The selection is empty.", f"Write {HINTS[by]}, or choose all nodes.")
        if by == "saved" and self._saved is not None and self._saved.values == values:
            return self._saved  # with the nodes that its step has
        return Select(by, tuple(self._ids.get(str(v), str(v)) for v in values) if by == "name" else values)

    def put(self, value: Select) -> None:
        """Show a selection, with node ids as module paths."""
        self.by.put(value.by)
        self._saved = value if value.by == "saved" else None
        shown = [self._paths.get(v, v) for v in value.values] if value.by == "name" else list(value.values)
        if value.by == "where" and len(shown) > 1:
            shown = [" or ".join(f"({v})" for v in shown)]
        self._ids = {s: v for s, v in zip(shown, value.values, strict=False) if s != v} if value.by == "name" else {}
        self.values.put(shown)
        self.values.setCursorPosition(0)
        self._adapt()


class SelectRow(SelectEditor):
    """A SelectEditor with the interface of a Form, for Rows."""

    changed = Signal()

    def __init__(self, graph: Graph | None = None) -> None:
        super().__init__(graph)
        self.edited.connect(self.changed)

    def value(self) -> Select:
        """The selection. Raises OptionsError."""
        return self.get()


class _WordCompleter(QCompleter):
    """Completes the last of several comma-separated words."""

    def __init__(self, words: QStringListModel, owner: Line) -> None:
        super().__init__(words, owner)
        self._owner = owner
        self.setCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        self.setFilterMode(Qt.MatchFlag.MatchContains)
        self.activated.connect(lambda _: owner.edited.emit())

    def splitPath(self, path: str) -> list[str]:
        return [path.rpartition(",")[2].strip()]

    def pathFromIndex(self, index: Any) -> str:
        head, comma, _ = self._owner.text().rpartition(",")
        return f"{head}{comma} {index.data()}" if comma else str(index.data())


def _names(graph: Graph) -> dict[str, list[str]]:
    paths = {n.target if n.call == "call_module" else n.module_path for n in graph} - {""}
    groups = {".".join(p.split(".")[:i]) for p in paths for i in range(1, p.count(".") + 2)}
    return {"type": types_in(graph), "name": [*graph.nodes, *sorted(paths)], "module": sorted(groups)}


def _paths(graph: Graph) -> dict[str, str]:
    """Node id → module path, where the path is unique."""
    targets = Counter(n.target for n in graph if n.call == "call_module")
    return {n.id: n.target for n in graph if n.call == "call_module" and targets[n.target] == 1 and n.target != n.id
            and n.target not in graph.nodes}  # fmt: skip


class PortFormats(QWidget):
    """Edits dict[port, Format | None], one row per port; unchanged ports are not in the dict."""

    edited = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[str, FormatEditor] = {}
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setHorizontalSpacing(12)
        grid.setVerticalSpacing(6)
        grid.setColumnStretch(1, 1)
        for i, port in enumerate(PORTS):
            editor = self.rows[port] = FormatEditor(allow_unchanged=True)
            editor.put_unchanged()
            editor.setProperty(OPTION, port)
            editor.choice.setAccessibleName(tr("{} format", port))
            editor.edited.connect(self.edited)
            grid.addWidget(_caption(port), i, 0, Qt.AlignmentFlag.AlignTop)
            grid.addWidget(editor, i, 1, Qt.AlignmentFlag.AlignTop)

    def get(self) -> dict[str, Format | None]:
        """Formats by port. Raises FormatError."""
        return {port: editor.value() for port, editor in self.rows.items() if not editor.is_unchanged}

    def put(self, value: Mapping[str, Format | None]) -> None:
        """Show formats by port."""
        for port, editor in self.rows.items():
            editor.put(value[port]) if port in value else editor.put_unchanged()


class Rows(QWidget):
    """Edits a tuple of dataclasses as a form each, or of selections as a line each, with Add and Remove."""

    edited = Signal()

    def __init__(self, kind: type, graph: Graph | None = None) -> None:
        super().__init__()
        self._kind, self._graph = kind, graph
        self.forms: list[Form | SelectRow] = []
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(8)
        noun = tr("selection") if kind is Select else tr(kind.__name__.lower())
        self._none = _caption(tr("No {} yet.", noun))
        self._add = QPushButton(tr("Add {}", noun))
        self._add.clicked.connect(self._added)
        self._column.addWidget(self._none)
        self._column.addWidget(self._add, 0, Qt.AlignmentFlag.AlignLeft)

    def get(self) -> tuple[Any, ...]:
        """The values. Raises the EspalierError of a row."""
        return tuple(form.value() for form in self.forms)

    def put(self, value: tuple[Any, ...]) -> None:
        """Show these values."""
        for form in list(self.forms):
            self._drop(form)
        for item in value:
            self._append(item)

    def _form(self, item: Any) -> Form | SelectRow:
        if self._kind is not Select:
            return Form(self._kind, item, self._graph, inner=True)
        row = SelectRow(self._graph)
        row.put(item or Select("type", ("linear",)))
        return row

    def _append(self, item: Any = None) -> Form | SelectRow:
        form = self._form(item)
        form.changed.connect(self.edited)
        card = QFrame()
        card.setProperty("card", True)
        row = QVBoxLayout(card)
        row.setContentsMargins(10, 8, 10, 8)
        row.addWidget(form)
        row.addWidget(link(tr("Remove"), lambda: self._removed(form)), 0, Qt.AlignmentFlag.AlignLeft)
        self.forms.append(form)
        self._column.insertWidget(self._column.count() - 1, card)
        for field in form.findChildren(QWidget):
            if field.focusPolicy() & Qt.FocusPolicy.TabFocus and field.window() is self.window():
                QWidget.setTabOrder(field, self._add)
        self._none.hide()
        return form

    def _added(self) -> None:
        self._append()
        self.edited.emit()

    def _removed(self, form: Form | SelectRow) -> None:
        self._drop(form)
        self.edited.emit()

    def _drop(self, form: Form | SelectRow) -> None:
        self.forms.remove(form)
        card = form.parentWidget()
        assert card is not None
        card.hide()
        card.setParent(None)
        card.deleteLater()
        self._none.setVisible(not self.forms)


class Nested(QWidget):
    """Edits a dataclass that is a field of another."""

    edited = Signal()

    def __init__(self, kind: type, graph: Graph | None = None) -> None:
        super().__init__()
        self.form = Form(kind, None, graph, inner=True)
        self.form.changed.connect(self.edited)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.form)

    def get(self) -> Any:
        """The value. Raises the EspalierError of a field."""
        return self.form.value()

    def put(self, value: Any) -> None:
        """Show a value."""
        self.form.put(value)


def editor_for(kind: Any, metadata: Mapping[str, Any] | None = None, graph: Graph | None = None) -> Any:
    """The widget for a value of type `kind`."""
    plain = data_editor(metadata or {}) or scalar(kind, metadata)
    if plain is not None:
        return plain
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Select:
        return SelectEditor(graph)
    if _is_format(kind):
        return FormatEditor(allow_none=False)
    if origin in (Union, UnionType) and any(_is_format(k) for k in inner):
        return FormatEditor()
    if origin is dict and any(_is_format(k) for k in get_args(inner[1])):
        return PortFormats()
    if origin is tuple and inner[1:] == (...,) and _is_format(inner[0]):
        return FormatsLine()
    if origin is tuple and len(inner) == 2 and inner[1] is Ellipsis and _is_plain_dataclass(inner[0]):
        return Rows(inner[0], graph)
    return Nested(kind, graph) if _is_plain_dataclass(kind) else JsonLine(kind)


def _is_format(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Format)


def _is_plain_dataclass(kind: Any) -> bool:
    return isinstance(kind, type) and is_dataclass(kind) and not issubclass(kind, Format | Tagged)


class Form(QWidget):
    """One editor per field. `value()` returns the options or raises; `error` is the message.

    `only`: the fields shown, in their order; the others keep the value last put. A `brief` form shows its help in tool
    tips only, by default if it is `inner`.
    """

    changed = Signal()

    def __init__(
        self,
        options_type: type,
        value: Any = None,
        graph: Graph | None = None,
        *,
        inner: bool = False,
        only: Sequence[str] | None = None,
        brief: bool | None = None,
    ) -> None:
        super().__init__()
        if not inner:
            apply_field_style(self)
        self._type, self._graph, self._inner = options_type, graph, inner
        self._brief = inner if brief is None else brief
        self._rest: dict[str, Any] = {}
        self.editors: dict[str, Any] = {}
        self._when: dict[str, tuple[str, Any]] = {}  # field → another field, and its value with which it applies
        self._lines: dict[str, tuple[QWidget, QWidget]] = {}
        self.wrong = QLabel(wordWrap=True)
        self.wrong.hide()
        self.wrong.setProperty("role", "wrong")
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(12)
        self._grid.setVerticalSpacing(8)
        self._grid.setColumnStretch(1, 1)
        types = hints(options_type)
        by_name = {f.name: f for f in fields(options_type) if f.init}
        for name in by_name if only is None else only:
            self._add(by_name[name], types[name])
        link_names(self.editors.values())
        if not self.editors:
            self._grid.addWidget(_caption(tr("This pass has no options.")), 0, 0, 1, 2)
        self._grid.addWidget(self.wrong, self._grid.rowCount(), 0, 1, 2)
        self._grid.setRowStretch(self._grid.rowCount(), 1)
        self.put(value)

    def _add(self, field: Field[Any], kind: Any) -> None:
        editor = self.editors[field.name] = editor_for(kind, field.metadata, self._graph)
        title = QLabel(tr(field.name.replace("_", " ")))
        help_text = tr(str(field.metadata.get("help", ""))) or meaning(title.text())
        for part in (title, editor):
            part.setToolTip(help_text)
            part.setProperty(OPTION, field.name)
        editor.setAccessibleName(title.text())
        editor.edited.connect(self._edited)
        row = self._grid.rowCount()
        wide = isinstance(editor, Rows | Nested | PortFormats)
        title.setFixedHeight(23)
        self._grid.addWidget(title, row, 0, 1, 2 if wide else 1, Qt.AlignmentFlag.AlignTop)
        narrow = Qt.AlignmentFlag.AlignLeft if isinstance(editor, NumberField | Choice) else Qt.AlignmentFlag(0)
        widget = editor
        if wide:
            self._grid.addWidget(editor, row + 1, 0, 1, 2)
        elif help_text and not self._brief and not isinstance(editor, DataField):
            widget = _with_help(editor, help_text, narrow)
            self._grid.addWidget(widget, row, 1)
        else:
            self._grid.addWidget(editor, row, 1, narrow)
        if "when" in field.metadata:
            self._when[field.name] = field.metadata["when"]
            self._lines[field.name] = title, widget

    def add_below(self, name: str, widget: QWidget) -> None:
        """Place a widget below the editor of a field."""
        editor, both = self.editors[name], QWidget()
        place: tuple[int, int, int, int] = self._grid.getItemPosition(self._grid.indexOf(editor))  # type: ignore[assignment]
        column = QVBoxLayout(both)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2)
        column.addWidget(editor, 0, Qt.AlignmentFlag.AlignLeft)
        column.addWidget(widget)
        self._grid.addWidget(both, *place)

    def _show_applicable(self) -> None:
        """Show only the fields that apply with the other values; a hidden invalid one is reset to its default."""
        for field in fields(self._type):
            if field.name not in self._when:
                continue
            name, value = self._when[field.name]
            values = value if isinstance(value, frozenset) else (value,)
            applies = name not in self.editors or self.editors[name].get() in values
            for part in self._lines[field.name]:
                part.setVisible(applies)
            if not applies and error_of(self.editors[field.name].get):
                self.editors[field.name].put(field.default)

    def put(self, value: Any = None) -> None:
        """Show a value, or the defaults."""
        for field in fields(self._type):
            if field.init:
                part = _default(field) if value is None else getattr(value, field.name)
                if field.name not in self.editors:
                    self._rest[field.name] = part
                elif part is not MISSING:
                    self.editors[field.name].put(part)
        self._show_error()

    def value(self) -> Any:
        """The options. Raises EspalierError if they are invalid."""
        return self._type(**{**{n: v for n, v in self._rest.items() if v is not MISSING}, **self.parts()})

    def parts(self) -> dict[str, Any]:
        """The values of the shown fields. Raises EspalierError."""
        values: dict[str, Any] = {}
        for name, editor in self.editors.items():
            try:
                values[name] = editor.get()
            except EspalierError as error:
                raise type(error)(f"{name.replace('_', ' ')}: {error.message}", error.hint) from error
        return values

    @property
    def error(self) -> str:
        """The error of `value`; empty if it is valid."""
        return error_of(self.value)

    def _edited(self) -> None:
        self._show_error()
        self.changed.emit()

    def _show_error(self) -> None:
        self._show_applicable()
        text = "" if self._inner else self.error
        self.wrong.setText(text)
        self.wrong.setVisible(bool(text))


def _default(field: Field[Any]) -> Any:
    if field.default is not MISSING:
        return field.default
    if field.default_factory is not MISSING:
        return field.default_factory()
    return MISSING


def _caption(text: str) -> QLabel:
    label = QLabel(text)
    label.setProperty("role", "muted")
    label.setFixedHeight(23)
    return label


def _with_help(editor: QWidget, text: str, align: Qt.AlignmentFlag) -> QWidget:
    widget = QWidget()
    column = QVBoxLayout(widget)
    column.setContentsMargins(0, 0, 0, 0)
    column.setSpacing(2)
    label = QLabel(text, wordWrap=True)
    label.setProperty("role", "small")
    column.addWidget(editor, 0, align)
    column.addWidget(label)
    return widget
