"""An editor for a number format and its parameters.

An invalid format does not raise: the message of its FormatError is shown below the fields.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import MISSING, fields
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from espalier.app.translation import tr, translated
from espalier.app.widgets.forms.fields import MIXED, NumberField, Scalar, error_of, set_tab_chain
from espalier.app.widgets.forms.format_choice import FormatChoice
from espalier.app.widgets.forms.parameter_fields import CELLS, ParameterFields
from espalier.model.errors import EspalierError, FormatError
from espalier.model.formats.base import Format, parameters
from espalier.model.registry import FORMATS

FLOAT, UNCHANGED = "float", "unchanged"
CHOICE_WIDTH = 78
SHORT: dict[str, str] = translated({
    "frac_width": "frac", "exponent_width": "exp", "exponent_bias": "bias", "exponent_bias_width": "bias w",
    "granularity": "scale", "element": "elem", "symmetric": "sym",
    "stochastic": "rand", "bipolar": "±1", "threshold": "limit",
})  # fmt: skip


def short_name(parameter: str) -> str:
    """The name of a parameter as a column heading."""
    return SHORT.get(parameter) or tr(parameter.replace("_", " "))


def default_format(cls: type[Format]) -> Format | None:
    """The format with its defaults; None if a parameter has no default."""
    try:
        return cls()
    except (TypeError, FormatError):
        return None


class FormatEditor(QWidget):
    """A combo box of the registered formats, and fields for the parameters of the chosen one.

    `compact`: one row with the first two parameters; the owner places `more`, which holds the others. `put_many` shows
    what several formats share and MIXED for the rest; `applied` applies the last edit to one of them. `typing` is true
    while `edited` signals a key press in a number; `entered` signals the end of typing.
    """

    entered = Signal()
    edited = Signal()

    def __init__(self, compact: bool = False, allow_none: bool = True, allow_unchanged: bool = False) -> None:
        super().__init__()
        self.compact, self.allow_none = compact, allow_none
        self._extra = (*((UNCHANGED,) if allow_unchanged else ()), *((FLOAT,) if allow_none else ()))
        self.names = (*self._extra, *FORMATS)
        self.choice = FormatChoice(self.names)
        self.choice.setAccessibleName(tr("format"))
        self.choice.edited.connect(self._format_chosen)
        self.wrong = QLabel(wordWrap=True)
        self.wrong.hide()
        self.wrong.setProperty("role", "wrong")
        self._base: Format | None = None
        self.typing = False
        self._change: dict[str, Any] = {}
        self._arrange()
        self._parameters.changed.connect(self._parameter_changed)
        self._parameters.entered.connect(self.entered)
        self.put(None if allow_none else default_format(FORMATS.get(self.names[0])))

    def _arrange(self) -> None:
        if self.compact:
            row = QHBoxLayout(self)
            row.setContentsMargins(0, 0, 0, 0)
            row.setSpacing(4)
            self.choice.setMinimumWidth(CHOICE_WIDTH)
            row.addWidget(self.choice, 1)
            self._parameters = ParameterFields(self, row)
            return
        self._parameters = ParameterFields(self, None)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        for part in (self.choice, self.more, self.wrong):
            column.addWidget(part, 0, Qt.AlignmentFlag.AlignLeft)

    @property
    def widgets(self) -> dict[str, Scalar]:
        """The widgets of the parameters by name."""
        return self._parameters.widgets

    @property
    def more(self) -> QWidget:
        """The parameters outside the compact row, with captions."""
        return self._parameters.more

    def parameter_names(self) -> tuple[str, ...]:
        """The parameters in the cells of the compact row."""
        return tuple(self.widgets)[:CELLS]

    # -- values

    @property
    def is_unchanged(self) -> bool:
        """Whether UNCHANGED is chosen, so that no format is to be set."""
        return self.choice.currentIndex() >= 0 and self.choice.get() == UNCHANGED

    def put_unchanged(self) -> None:
        """Choose UNCHANGED."""
        self.put(None)
        self.choice.put(UNCHANGED)

    @property
    def error(self) -> str:
        """The error of `value`; empty if it is valid."""
        return error_of(self.value)

    def get(self) -> Format | None:
        """The same as `value`, under the name that all editors share."""
        return self.value()

    def value(self) -> Format | None:
        """The format, None for float. Raises FormatError or OptionsError."""
        kind = self._parameters.kind
        if self.choice.get() in (FLOAT, UNCHANGED):
            return None
        assert kind is not None
        return _make(kind, self._parameters.values())

    def applied(self, fmt: Format | None) -> Format | None:
        """The last edit applied to another format, for a mixed selection."""
        kind = self._parameters.kind
        if self.choice.get() == FLOAT:
            return None
        assert kind is not None
        if fmt is None or type(fmt) is not kind or "" in self._change:
            return self.value()
        return _make(kind, {**parameters(fmt), **self._change})

    def put(self, fmt: Format | None) -> None:
        """Show a format, or None for float."""
        self.put_many((fmt,))

    def put_many(self, formats: Sequence[Format | None]) -> None:
        """Show several formats as one."""
        if self.names != (names := (*self._extra, *FORMATS)):  # plug-ins changed the registry
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
        self._refresh()

    def _build(self, kind: type[Format] | None) -> None:
        self._parameters.build(kind)
        set_tab_chain(self.choice, *self.widgets.values())

    # -- edits

    def _format_chosen(self) -> None:
        name = self.choice.get()
        cls: type[Format] | None = None if name in (FLOAT, UNCHANGED) else FORMATS.get(name)
        if cls is None or cls is not self._parameters.kind:
            self._build(cls)
            if cls:
                self._put_defaults(cls)
        self._parameters.put(self.choice.preset)
        self._change = {"": name}
        self._refresh()
        self.edited.emit()

    def _put_defaults(self, cls: type[Format]) -> None:
        """Show the defaults, with the width of the previous format if it is valid."""
        default = default_format(cls)
        if default is None:
            return
        width = getattr(self._base, "width", None)
        values = parameters(default)
        if width is not None and "width" in values:
            with contextlib.suppress(EspalierError):
                values = parameters(_make(cls, {**values, "width": width}))
        self._parameters.put({name: values[name] for name in self.widgets})

    def _parameter_changed(self, name: str) -> None:
        with contextlib.suppress(EspalierError):
            self._change = {**self._change, name: self.widgets[name].get()}
        self._refresh()
        self.typing = bool(getattr(self.widgets[name], "typing", False))
        self.edited.emit()
        self.typing = False

    def _refresh(self) -> None:
        """Show the applicable parameters and the error."""
        self._parameters.show_applicable()
        mixed = self.choice.currentIndex() < 0 or self._parameters.mixed
        text = "" if mixed else self.error
        self.wrong.setText(text)
        self.wrong.setVisible(bool(text))


def _make(kind: type[Format], values: dict[str, Any]) -> Format:
    try:
        return kind(**values)
    except TypeError as error:
        missing = [f.name for f in fields(kind) if f.default is MISSING and f.name not in values]
        raise FormatError(f"{kind.name} needs {', '.join(missing) or 'other values'}.", str(error)) from error
