"""Edits one number format: which one, and its parameters, all derived from the format's own fields.

An impossible format never raises here: the words of its FormatError stand under the fields.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import MISSING, fields
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from espalier.app.widgets.forms.fields import MIXED, OPTION, Check, Choice, NumberField, Scalar, chain, scalar, trouble
from espalier.app.widgets.forms.format_choice import FormatChoice
from espalier.model.document.codec import hints
from espalier.model.errors import EspalierError, FormatError
from espalier.model.formats.base import Format, parameters
from espalier.model.registry import FORMATS

FLOAT, LEAVE = "float", "leave as it is"
CELLS = 2
CELL_WIDTH, CHOICE_WIDTH = 40, 78
SHORT: dict[str, str] = {
    "frac_width": "frac", "exponent_width": "exp", "exponent_bias": "bias", "exponent_bias_width": "bias w",
    "granularity": "scale", "element": "elem", "symmetric": "sym",
    "stochastic": "rand", "bipolar": "±1", "threshold": "limit",
}  # fmt: skip


def short_name(parameter: str) -> str:
    """A parameter's name as a column heading."""
    return SHORT.get(parameter, parameter.replace("_", " "))


def first_value(cls: type[Format]) -> Format | None:
    """The format with its defaults, or None when it needs values."""
    try:
        return cls()
    except (TypeError, FormatError):
        return None


class FormatEditor(QWidget):
    """A combo box of the registered formats and fields for the chosen one's parameters.

    Compact: one row with the first two parameters; the others lie in `more`, to be placed by the owner.
    `put_many` shows what several formats share and MIXED for the rest; `edits` says what the user changed.
    `typing`: while `edited` tells of a key in a number, after which others may follow; `entered` ends it.
    """

    entered = Signal()

    edited = Signal()

    def __init__(self, compact: bool = False, allow_none: bool = True, allow_leave: bool = False) -> None:
        super().__init__()
        self.compact, self.allow_none = compact, allow_none
        self._extra = (*((LEAVE,) if allow_leave else ()), *((FLOAT,) if allow_none else ()))
        self.names = (*self._extra, *FORMATS)
        self.choice = FormatChoice(self.names)
        self.choice.setAccessibleName("format")
        self.choice.edited.connect(self._format_chosen)
        self.widgets: dict[str, Scalar] = {}
        self.captions: list[QLabel] = []
        self.more = QWidget()
        self.wrong = QLabel(wordWrap=True)
        self.wrong.hide()
        self.wrong.setProperty("role", "wrong")
        self._kind: type[Format] | None = None
        self._base: Format | None = None
        self.typing = False
        self._change: dict[str, Any] = {}
        self._arrange()
        self.put(None if allow_none else first_value(FORMATS.get(self.names[0])))

    def _arrange(self) -> None:
        self._grid = QGridLayout(self.more)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(8)
        self._grid.setVerticalSpacing(4)
        if self.compact:
            row = QHBoxLayout(self)
            row.setContentsMargins(0, 0, 0, 0)
            row.setSpacing(4)
            self.choice.setMinimumWidth(CHOICE_WIDTH)
            row.addWidget(self.choice, 1)
            self._row = row
            self._blanks = [_blank() for _ in range(CELLS)]
            for blank in self._blanks:
                row.addWidget(blank)
            return
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        for part in (self.choice, self.more, self.wrong):
            column.addWidget(part, 0, Qt.AlignmentFlag.AlignLeft)

    # -- values

    @property
    def left(self) -> bool:
        """Whether nothing is to be set."""
        return self.choice.currentIndex() >= 0 and self.choice.get() == LEAVE

    def leave(self) -> None:
        """Show that nothing is to be set."""
        self.put(None)
        self.choice.put(LEAVE)

    @property
    def error(self) -> str:
        """Why the fields make no format; empty when they do."""
        return trouble(self.value)

    def get(self) -> Format | None:
        """Same as `value`, as all editors call it."""
        return self.value()

    def value(self) -> Format | None:
        """The format, None for float; raises FormatError or OptionsError."""
        if self.choice.get() in (FLOAT, LEAVE):
            return None
        assert self._kind is not None
        return _make(self._kind, {name: widget.get() for name, widget in self.widgets.items()})

    def applied(self, fmt: Format | None) -> Format | None:
        """What the user's last edit makes of another port's format (for a mixed selection)."""
        name = self.choice.get()
        if name == FLOAT:
            return None
        assert self._kind is not None
        if fmt is None or type(fmt) is not self._kind or "" in self._change:
            return self.value()
        return _make(self._kind, {**parameters(fmt), **self._change})

    def put(self, fmt: Format | None) -> None:
        """Show a format, or None for float."""
        self.put_many((fmt,))

    def put_many(self, formats: Sequence[Format | None]) -> None:
        """Show several formats as one."""
        if self.names != (names := (*self._extra, *FORMATS)):  # a plug-in brought some
            self.names = names
            self.choice.offer(names)
        kinds = {type(f) for f in formats}
        self._change = {}
        self._base = formats[0] if formats else None
        if len(kinds) != 1:
            self.choice.put(MIXED)
            self._build(None)
        else:
            first = formats[0]
            self.choice.put(first.name if first else FLOAT)
            self._build(type(first) if first else None)
            for name, widget in self.widgets.items():
                values = [getattr(f, name) for f in formats]
                if all(v == values[0] for v in values):
                    widget.put(values[0])
                elif isinstance(widget, NumberField):
                    widget.put_several(values)
                else:
                    widget.put(MIXED)
        self._lay()
        self._tell()

    # -- widgets

    def parameter_names(self) -> tuple[str, ...]:
        """The parameters in the cells of the compact row."""
        return tuple(self.widgets)[:CELLS]

    def _build(self, kind: type[Format] | None) -> None:
        if kind is self._kind:
            return
        self._kind = kind
        for old in (*self.widgets.values(), *self.captions):
            old.hide()
            old.setParent(None)
            old.deleteLater()
        self.widgets, self.captions = {}, []
        known = hints(kind) if kind else {}
        for field in fields(kind) if kind else ():
            widget = scalar(known[field.name], field.metadata)
            if widget is not None:
                self._place(field.name, field.metadata.get("help", ""), widget)
        if self.compact:
            for i, blank in enumerate(self._blanks):
                blank.setVisible(i >= len(self.widgets))
        self.more.setVisible(bool(self._grid.count()))
        chain(self.choice, *self.widgets.values())

    def _place(self, name: str, help_text: str, widget: Scalar) -> None:
        number = len(self.widgets)
        self.widgets[name] = widget
        widget.edited.connect(lambda: self._parameter_changed(name))
        if isinstance(widget, NumberField):
            widget.editingFinished.connect(self.entered)
        widget.setAccessibleName(name)
        widget.setProperty(OPTION, name)
        widget.setToolTip(f"{name}: {help_text}" if help_text else name)
        compact = self.compact and number < CELLS
        if isinstance(widget, NumberField) and widget.optional:
            widget.say_empty("std" if compact else "standard")
        if compact:
            widget.setFixedWidth(CELL_WIDTH)
            self._row.insertWidget(1 + number, widget)
            return
        caption = QLabel(name.replace("_", " "))
        caption.setProperty("role", "small")
        self.captions.append(caption)
        if isinstance(widget, NumberField):
            widget.setFixedWidth(72 if widget.optional else 56)
        self._grid.addWidget(caption)
        self._grid.addWidget(widget)

    def _lay(self) -> None:
        """Place the captioned fields, those alone that mean something beside the others' values."""
        meant = {f.name: f.metadata.get("when") for f in fields(self._kind)} if self._kind else {}
        standard = {f.name: f.default for f in fields(self._kind)} if self._kind else {}
        names = list(self.widgets)[CELLS if self.compact else 0 :]
        place = 0
        for name, caption in zip(names, self.captions, strict=True):
            widget, when = self.widgets[name], meant[name]
            shown = when is None or _is_mixed(self.widgets[when[0]]) or self.widgets[when[0]].get() == when[1]
            for part in (caption, widget):
                self._grid.removeWidget(part)
                part.setVisible(shown)
            if not shown and trouble(widget.get):
                widget.put(standard[name])  # nobody could see what is wrong with it
            if shown:
                self._grid.addWidget(caption, place // 2, place % 2 * 2)
                self._grid.addWidget(widget, place // 2, place % 2 * 2 + 1, Qt.AlignmentFlag.AlignLeft)
                place += 1

    # -- edits

    def _format_chosen(self) -> None:
        name = self.choice.get()
        cls: type[Format] | None = None if name in (FLOAT, LEAVE) else FORMATS.get(name)
        if cls is None or cls is not self._kind:
            self._build(cls)
            self._fill(cls)
        for parameter, value in self.choice.preset.items():
            self.widgets[parameter].put(value)
        self._lay()
        self._change = {"": name}
        self._tell()
        self.edited.emit()

    def _fill(self, cls: type[Format] | None) -> None:
        """Defaults, with the width of the format before where the new one can have it."""
        start = first_value(cls) if cls else None
        if start is None:
            return
        width = getattr(self._base, "width", None)
        values = parameters(start)
        if width is not None and "width" in values:
            with contextlib.suppress(EspalierError):
                values = parameters(_make(type(start), {**values, "width": width}))
        for name, widget in self.widgets.items():
            widget.put(values[name])

    def _parameter_changed(self, name: str) -> None:
        with contextlib.suppress(EspalierError):
            self._change = {**self._change, name: self.widgets[name].get()}
        self._lay()
        self._tell()
        self.typing = bool(getattr(self.widgets[name], "typing", False))
        self.edited.emit()
        self.typing = False

    def _tell(self) -> None:
        mixed = self.choice.currentIndex() < 0 or any(_is_mixed(w) for w in self.widgets.values())
        text = "" if mixed else self.error
        self.wrong.setText(text)
        self.wrong.setVisible(bool(text))


def _is_mixed(widget: Scalar) -> bool:
    if isinstance(widget, Check):
        return widget.isTristate()
    if isinstance(widget, Choice):
        return widget.currentIndex() < 0
    if isinstance(widget, NumberField):
        return widget.mixed
    return widget.placeholderText() == MIXED and not widget.text()


def _make(kind: type[Format], values: dict[str, Any]) -> Format:
    try:
        return kind(**values)
    except TypeError as error:
        missing = [f.name for f in fields(kind) if f.default is MISSING and f.name not in values]
        raise FormatError(f"{kind.name} needs {', '.join(missing) or 'other values'}.", str(error)) from error


def _blank() -> QWidget:
    blank = QWidget()
    blank.setFixedWidth(CELL_WIDTH)
    return blank
