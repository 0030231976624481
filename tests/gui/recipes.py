"""The recipe of a window, and a step for it."""

from __future__ import annotations

from espalier.app.shell.window import Window
from espalier.model.formats.integer import Integer
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.select import Select


def quantise(window: Window, width: int = 8) -> None:
    rule = Rule(Select("type", ("linear",)), {"weight": Integer(width, 4)})
    window.session.run_pass("quantize", QuantizeOptions((rule,)))
