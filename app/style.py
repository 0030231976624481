"""The look of all widgets: a style sheet and a QPalette made of the theme's tokens, and which theme holds."""

from __future__ import annotations

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QFont, QGuiApplication, QPalette
from PySide6.QtWidgets import QApplication

from app.theme import BODY, DARK, LIGHT, PALETTES, Palette

_SHEET = """
* {{ outline: none; }}
QMainWindow, QDialog {{ background: {panel}; }}
QWidget {{ color: {text}; }}
QToolTip {{ background: {panel}; color: {text}; border: 1px solid {line}; padding: 4px 6px; }}

QMenuBar {{ background: {panel}; border-bottom: 1px solid {line}; padding: 2px 8px; }}
QMenuBar::item {{ background: transparent; padding: 5px 9px; border-radius: 4px; }}
QMenuBar::item:selected {{ background: {chip}; }}
QMenu {{ background: {panel}; border: 1px solid {line}; padding: 4px; }}
QMenu::item {{ padding: 5px 28px 5px 22px; border-radius: 4px; }}
QMenu::item:selected {{ background: {accent_ground}; }}
QMenu::item:disabled {{ color: {muted}; }}
QMenu::separator {{ height: 1px; background: {line}; margin: 4px 6px; }}
QMenu::indicator {{ left: 5px; width: 12px; height: 12px; }}

QToolBar {{ background: {panel}; border: none; border-bottom: 1px solid {line}; padding: 6px 10px; spacing: 2px; }}
QToolBar::separator {{ background: {line}; width: 1px; margin: 6px 8px; }}
QToolButton {{ border: 1px solid transparent; border-radius: 6px; padding: 5px 10px; background: transparent; }}
QToolButton:hover {{ background: {chip}; }}
QToolButton:pressed, QToolButton:checked {{ background: {accent_ground}; }}
QToolButton:focus {{ border-color: {accent}; }}
QToolButton:disabled {{ color: {faint}; }}

QPushButton {{ background: {background}; border: 1px solid {line}; border-radius: 6px; padding: 4px 12px; min-height: 18px; }}
QPushButton:hover {{ background: {chip}; }}
QPushButton:pressed {{ background: {accent_ground}; }}
QPushButton:focus {{ border-color: {accent}; }}
QPushButton:disabled {{ color: {faint}; }}
QPushButton[primary="true"] {{ background: {accent}; color: {on_accent}; border-color: {accent}; }}
QPushButton[primary="true"]:disabled {{ background: {chip}; color: {faint}; border-color: {line}; }}
QPushButton[flat="true"], QPushButton[link="true"] {{ background: transparent; border: 1px solid transparent; }}
QPushButton[link="true"] {{ color: {accent}; padding: 2px 4px; }}
QPushButton[link="true"]:hover {{ background: {chip}; }}
QPushButton[link="true"]:focus {{ border-color: {accent}; }}

QLineEdit, QSpinBox, QDoubleSpinBox, QComboBox, QPlainTextEdit, QTextEdit {{
  background: {background}; border: 1px solid {line}; border-radius: 6px; padding: 3px 7px;
  selection-background-color: {accent}; selection-color: {on_accent}; }}
QLineEdit:focus, QSpinBox:focus, QDoubleSpinBox:focus, QComboBox:focus, QPlainTextEdit:focus, QTextEdit:focus {{
  border-color: {accent}; }}
QLineEdit:disabled, QSpinBox:disabled, QDoubleSpinBox:disabled, QComboBox:disabled {{ color: {faint}; }}
QComboBox QAbstractItemView {{ background: {panel}; border: 1px solid {line}; selection-background-color: {accent_ground};
  selection-color: {text}; }}
QPlainTextEdit[bare="true"], QTextEdit[bare="true"] {{ border: none; background: {panel}; border-radius: 0; }}

QAbstractItemView {{ background: {panel}; border: none; alternate-background-color: {background};
  selection-background-color: {accent_ground}; selection-color: {text}; }}
QTreeView::item, QListView::item {{ min-height: 21px; }}
QTreeView::item:hover, QListView::item:hover {{ background: {background}; }}
QTreeView::item:selected, QListView::item:selected, QTableView::item:selected {{ background: {accent_ground}; color: {text}; }}
QTableView {{ gridline-color: {line}; }}
QHeaderView {{ background: {panel}; border: none; }}
QHeaderView::section {{ background: {panel}; color: {muted}; border: none; border-bottom: 1px solid {line};
  padding: 4px 8px; font-size: 11px; text-align: left; }}
QTableCornerButton::section {{ background: {panel}; border: none; }}

QTabBar {{ background: {panel}; qproperty-drawBase: 0; }}
QTabBar::tab {{ background: {panel}; color: {muted}; padding: 6px 12px; border: none; border-bottom: 2px solid transparent; }}
QTabBar::tab:selected {{ color: {text}; border-bottom-color: {accent}; }}
QTabBar::tab:hover {{ color: {text}; }}
QTabBar::tab:focus {{ color: {accent}; }}
QTabWidget::pane {{ border: none; border-top: 1px solid {line}; }}

QDockWidget {{ color: {muted}; font-size: 11px; }}
QMainWindow::separator {{ background: {line}; width: 1px; height: 1px; }}
QMainWindow::separator:hover {{ background: {accent}; }}
QSplitter::handle {{ background: {line}; }}
QStatusBar {{ background: {panel}; border-top: 1px solid {line}; }}
QStatusBar::item {{ border: none; }}
QScrollArea {{ border: none; background: transparent; }}
QScrollBar:vertical {{ background: transparent; width: 10px; margin: 0; }}
QScrollBar:horizontal {{ background: transparent; height: 10px; margin: 0; }}
QScrollBar::handle {{ background: {line}; border-radius: 3px; margin: 2px; min-height: 24px; min-width: 24px; }}
QScrollBar::handle:hover {{ background: {faint}; }}
QScrollBar::add-line, QScrollBar::sub-line, QScrollBar::add-page, QScrollBar::sub-page {{ background: none; border: none;
  width: 0; height: 0; }}
QProgressBar {{ background: {chip}; border: none; border-radius: 2px; max-height: 4px; min-height: 4px; }}
QProgressBar::chunk {{ background: {accent}; border-radius: 2px; }}
QSlider::groove:horizontal {{ height: 4px; background: {chip}; border-radius: 2px; }}
QSlider::handle:horizontal {{ width: 14px; margin: -5px 0; border-radius: 7px; background: {accent}; }}

QLabel[role="muted"] {{ color: {muted}; }}
QLabel[role="small"] {{ color: {muted}; font-size: 11px; }}
QLabel[role="heading"] {{ color: {muted}; font-size: 11px; font-weight: 600; }}
QLabel[role="title"] {{ font-size: 16px; font-weight: 600; }}
QLabel[role="display"] {{ font-size: 26px; font-weight: 600; }}
QLabel[role="strong"] {{ font-weight: 600; }}
QLabel[role="score"] {{ font-size: 14px; font-weight: 600; }}
QLabel[role="bad"] {{ color: {bad}; }}
QLabel[tone="good"] {{ color: {good}; font-size: 11px; }}
QLabel[tone="bad"] {{ color: {bad}; font-size: 11px; }}
QLabel[tone="same"] {{ color: {muted}; font-size: 11px; }}
QWidget[surface="panel"] {{ background: {panel}; }}
QWidget[surface="background"] {{ background: {background}; }}
QFrame[card="true"] {{ background: {panel}; border: 1px solid {line}; border-radius: 8px; }}
QFrame[card="true"]:hover, QFrame[card="true"]:focus {{ border-color: {accent}; }}
QFrame[popup="true"] {{ background: {panel}; border: 1px solid {line}; border-radius: 8px; }}
QFrame[banner="error"] {{ background: {panel}; border: none; border-left: 4px solid {bad}; border-bottom: 1px solid {line}; }}
QFrame[banner="note"] {{ background: {panel}; border: none; border-left: 4px solid {accent}; border-bottom: 1px solid {line}; }}
"""


def sheet(palette: Palette) -> str:
    """The style sheet of one theme."""
    tokens = {n: getattr(palette, n) for n in ("background", "panel", "group", "node", "line", "text", "muted", "accent",
                                               "accent_ground", "good", "bad", "chip", "on_accent")}  # fmt: skip
    return _SHEET.format(**tokens, faint=blend(palette.muted, palette.panel, 0.45))


def blend(a: str, b: str, part: float) -> str:
    """The colour `part` of the way from a to b."""
    first, second = QColor(a), QColor(b)
    pairs = zip(first.getRgb()[:3], second.getRgb()[:3], strict=True)
    return QColor(*(round(x + (y - x) * part) for x, y in pairs)).name()


def qt_palette(palette: Palette) -> QPalette:
    """The same tokens for what a style sheet does not reach (links, placeholders, native parts)."""
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
    faint = QColor(blend(palette.muted, palette.panel, 0.45))
    for key in (role.Text, role.WindowText, role.ButtonText):
        result.setColor(QPalette.ColorGroup.Disabled, key, faint)
    return result


class Appearance(QObject):
    """Which theme holds: the user's choice, or the system's and its changes."""

    changed = Signal(object)

    def __init__(self, app: QApplication, mode: str = "system") -> None:
        super().__init__(app)
        self._app = app
        self._mode = mode
        self._palette: Palette | None = None
        font = QFont(app.font())
        font.setPixelSize(round(BODY))
        app.setFont(font)
        app.setStyle("Fusion")
        QGuiApplication.styleHints().colorSchemeChanged.connect(self._follow)
        self._apply()

    @property
    def mode(self) -> str:
        """light, dark or system."""
        return self._mode

    @property
    def palette(self) -> Palette:
        """The tokens that hold now."""
        return self._palette or LIGHT

    def set_mode(self, mode: str) -> None:
        """Choose light, dark or system."""
        self._mode = mode
        self._apply()

    def _follow(self) -> None:
        self._apply()

    def _apply(self) -> None:
        palette = PALETTES.get(self._mode) or self._system()
        if palette is self._palette:
            return
        self._palette = palette
        self._app.setPalette(qt_palette(palette))
        self._app.setStyleSheet(sheet(palette))
        self.changed.emit(palette)

    def _system(self) -> Palette:
        return DARK if QGuiApplication.styleHints().colorScheme() == Qt.ColorScheme.Dark else LIGHT
