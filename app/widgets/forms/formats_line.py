"""A field for several number formats as text: `integer(width=4|8), mxint`. Empty means none."""

from __future__ import annotations

from typing import Any

from espalier.app.translation import tr
from espalier.app.widgets.forms.fields import Line
from espalier.model.errors import OptionsError
from espalier.model.formats.base import Format
from espalier.passes.search.format_lists import FLOAT, format_of, format_text, formats_of

HINT = tr("integer(width=4|8), mxint")


class FormatsLine(Line):
    """A tuple of formats."""

    def __init__(self) -> None:
        super().__init__(HINT)

    def get(self) -> tuple[Format, ...]:
        """The formats. Raises OptionsError or FormatError."""
        if not self.text().strip():
            return ()
        try:
            texts = formats_of(self.text())
        except OptionsError as error:  # the form adds the name of the field
            raise OptionsError(error.message.removeprefix("values: "), error.hint) from error
        if FLOAT in texts:
            raise OptionsError("float cannot be varied here.", f"Write formats such as {HINT}.")
        return tuple(f for text in texts if (f := format_of(text)) is not None)

    def put(self, value: Any) -> None:
        """Show formats."""
        super().put(", ".join(format_text(str(f)) for f in value))
