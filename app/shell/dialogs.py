"""Non-blocking dialogs for files and names; the banner shows errors of writing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFileDialog, QInputDialog, QWidget

from espalier.app.translation import tr
from espalier.app.widgets.icons import file_icons
from espalier.model.errors import EspalierError

if TYPE_CHECKING:
    from espalier.app.errors import Banner
    from espalier.app.host import Exportable, Savable
    from espalier.app.settings import Settings

PLOT_SUFFIXES = (".png", ".svg", ".csv")


class Dialogs:
    """The dialogs of one window."""

    def __init__(self, parent: QWidget, settings: Settings, banner: Banner) -> None:
        self._parent, self._settings, self._banner = parent, settings, banner

    @property
    def parent(self) -> QWidget:
        """The widget that dialogs belong to."""
        return self._parent

    def ask_path(self, title: str, then: Callable[[Path], object], *, save: bool = False,
                  names: str = "", folder: bool = False, suggestion: str = "") -> QFileDialog:  # fmt: skip
        """Show a file dialog; `then` is called with the chosen path."""
        dialog = QFileDialog(self._parent, title, self._settings.last_folder, names)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setIconProvider(file_icons())
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave if save else QFileDialog.AcceptMode.AcceptOpen)
        dialog.setFileMode(QFileDialog.FileMode.Directory if folder else
                           QFileDialog.FileMode.AnyFile if save else QFileDialog.FileMode.ExistingFile)  # fmt: skip
        if suggestion:
            dialog.selectFile(suggestion)
        if save and "." in suggestion:
            dialog.setDefaultSuffix(suggestion.rpartition(".")[2])
        dialog.fileSelected.connect(lambda name: self._chosen(Path(name), then))
        dialog.open()
        return dialog

    def _chosen(self, path: Path, then: Callable[[Path], object]) -> None:
        self._settings.last_folder = str(path.parent)
        then(path)

    def ask_text(
        self, title: str, label: str, value: str, then: Callable[[str], object], choices: Sequence[str] = ()
    ) -> None:
        """Ask for a text, or for one of `choices`; `then` is called with it."""
        dialog = QInputDialog(self._parent)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setWindowTitle(title)
        dialog.setLabelText(label)
        if choices:
            dialog.setComboBoxItems(choices)
        dialog.setTextValue(value)
        dialog.setOkButtonText(tr("Open"))
        dialog.resize(480, 120)
        dialog.textValueSelected.connect(lambda text: text.strip() and then(text.strip()))
        dialog.open()

    def report_errors(self, write: Callable[[], object]) -> None:
        """Call `write`; the banner shows its EspalierError."""
        try:
            write()
        except EspalierError as error:
            self._banner.show_error(error)

    def save_plots(self, plots: Exportable, title: str, suggestion: str) -> None:
        """Ask for a file and write charts as a picture or their values as CSV, by the suffix."""

        def write(path: Path) -> None:
            self.report_errors(
                lambda: plots.export(path if path.suffix in PLOT_SUFFIXES else path.with_name(path.name + ".png"))
            )

        names = tr("Pictures and figures (*.png *.svg *.csv)")
        self.ask_path(title, write, save=True, names=names, suggestion=suggestion)

    def save_table(self, rows: Savable, suggestion: str = "report.csv") -> None:
        """Ask for a file and write a table as CSV."""

        def write(path: Path) -> None:
            self.report_errors(lambda: rows.save(path))

        self.ask_path(tr("Save the table"), write, save=True, names=tr("CSV (*.csv)"), suggestion=suggestion)
