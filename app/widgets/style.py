"""The style of all widgets: a style sheet and a QPalette from the design tokens, and the present theme."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from string import Template

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QFont, QGuiApplication, QPalette
from PySide6.QtWidgets import QApplication

from espalier.app.theme import BODY, DARK, LIGHT, PALETTES, Palette, mix
from espalier.app.widgets.collector import without_garbage_collection
from espalier.app.widgets.plain_text_style import PlainTextStyle

RESOURCES = Path(__file__).resolve().parents[2] / "resources"
SHEET = RESOURCES / "style.qss"
FADE = 0.45  # blends the text of disabled widgets with its background


def sheet(palette: Palette) -> str:
    """The style sheet of one theme."""
    icons = (RESOURCES / "icons").as_posix()
    tokens = {**asdict(palette), "faint": blend(palette.muted, palette.panel, FADE), "icons": icons}
    return Template(SHEET.read_text(encoding="utf-8")).substitute(tokens)


def blend(a: str, b: str, part: float) -> str:
    """The colour `part` of the way from a to b."""
    return mix((a, b), part)


def qt_palette(palette: Palette) -> QPalette:
    """The same tokens for parts that style sheets do not cover (links, placeholders, native parts)."""
    role = QPalette.ColorRole
    colours = {
        role.Window: palette.panel, role.Base: palette.background, role.AlternateBase: palette.group,
        role.Text: palette.text, role.WindowText: palette.text, role.ButtonText: palette.text,
        role.Button: palette.chip, role.Highlight: palette.accent, role.HighlightedText: palette.on_accent,
        role.Link: palette.accent, role.LinkVisited: palette.accent, role.PlaceholderText: palette.muted,
        role.ToolTipBase: palette.panel, role.ToolTipText: palette.text, role.Mid: palette.line,
    }  # fmt: skip
    result = QPalette()
    for key, value in colours.items():
        result.setColor(key, QColor(value))
    faint = QColor(blend(palette.muted, palette.panel, FADE))
    for key in (role.Text, role.WindowText, role.ButtonText):
        result.setColor(QPalette.ColorGroup.Disabled, key, faint)
    return result


class Appearance(QObject):
    """The present theme: the user's choice, or that of the system. `changed` carries the Palette."""

    changed = Signal(object)

    def __init__(self, app: QApplication, mode: str = "system") -> None:
        super().__init__(app)
        self._app = app
        self._mode = mode
        self._palette: Palette | None = None
        font = QFont(app.font())
        font.setPixelSize(round(BODY))
        app.setFont(font)
        app.setStyle(PlainTextStyle("Fusion"))
        QGuiApplication.styleHints().colorSchemeChanged.connect(self._apply)
        self._apply()

    @property
    def mode(self) -> str:
        """light, dark or system."""
        return self._mode

    @property
    def palette(self) -> Palette:
        """The tokens of the present theme."""
        return self._palette or LIGHT

    def set_mode(self, mode: str) -> None:
        """Choose light, dark or system."""
        self._mode = mode
        self._apply()

    def _apply(self) -> None:
        palette = PALETTES.get(self._mode) or self._system()
        if palette is self._palette:
            return
        self._palette = palette
        with without_garbage_collection():
            self._app.setPalette(qt_palette(palette))
            # Qt polishes a widget once for each of its ancestors where one sheet replaces another: by none in between,
            # twice in all.
            self._app.setStyleSheet("")
            self._app.setStyleSheet(sheet(palette))
        self.changed.emit(palette)

    def _system(self) -> Palette:
        return DARK if QGuiApplication.styleHints().colorScheme() == Qt.ColorScheme.Dark else LIGHT
