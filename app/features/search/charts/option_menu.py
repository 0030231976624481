"""The menu of chart options that do not fit the head."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from PySide6.QtWidgets import QMenu

from espalier.app.features.search.charts.study_view import Option
from espalier.app.translation import tr


def fill(
    menu: QMenu, options: Iterable[Option], chosen: Callable[[str], Any], choose: Callable[[str, Any], None]
) -> None:
    """Fill a menu with options and their values; `choose` is called with a name and the new value."""
    menu.clear()
    for option in options:
        name, current = option.name, chosen(option.name)
        if option.values is None:
            switch = menu.addAction(option.hint or tr(name), lambda n=name, v=current: choose(n, not v))
            switch.setCheckable(True)
            switch.setChecked(bool(current))
            continue
        below = menu.addMenu(option.hint or tr(name))
        for value, text in zip(option.values, option.texts, strict=True):
            action = below.addAction(text, lambda n=name, v=value: choose(n, v))
            action.setCheckable(True)
            action.setChecked(value == current)
