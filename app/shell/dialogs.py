"""Dialogs for files and names: they open without blocking, and tell in the banner what could not be written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFileDialog, QInputDialog, QWidget

from espalier.app.widgets.icons import file_icons
from espalier.model.errors import EspalierError

if TYPE_CHECKING:
    from espalier.app.errors import Banner
    from espalier.app.host import Exportable, Savable
    from espalier.app.settings import Settings

PLOTS = (".png", ".svg", ".csv")


class Dialogs:
    """The dialogs of one window."""

    def __init__(self, parent: QWidget, settings: Settings, banner: Banner) -> None:
        self._parent, self._settings, self._banner = parent, settings, banner

    def ask_path(self, title: str, then: Callable[[Path], object], *, save: bool = False,
                  names: str = "", folder: bool = False, suggestion: str = "") -> QFileDialog:  # fmt: skip
        """A file dialog that calls `then` with what was chosen."""
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
        self, title: str, label: str, value: str, then: Callable[[str], object], offered: Sequence[str] = ()
    ) -> None:
        """A line to type, or to choose from `offered`; `then` is called with it."""
        dialog = QInputDialog(self._parent)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setWindowTitle(title)
        dialog.setLabelText(label)
        if offered:
            dialog.setComboBoxItems(offered)
        dialog.setTextValue(value)
        dialog.setOkButtonText("Open")
        dialog.resize(480, 120)
        dialog.textValueSelected.connect(lambda text: text.strip() and then(text.strip()))
        dialog.open()

    def telling(self, write: Callable[[], object]) -> None:
        """Write a file; the banner tells why that failed."""
        try:
            write()
        except EspalierError as error:
            self._banner.error(error)

    def save_plots(self, plots: Exportable, title: str, suggestion: str) -> None:
        """Write the plots that are shown as a picture or their figures as CSV, as the name's ending says."""

        def write(path: Path) -> None:
            self.telling(lambda: plots.export(path if path.suffix in PLOTS else path.with_name(path.name + ".png")))

        names = "Pictures and figures (*.png *.svg *.csv)"
        self.ask_path(title, write, save=True, names=names, suggestion=suggestion)

    def save_table(self, rows: Savable, suggestion: str = "report.csv") -> None:
        """Write a table as CSV."""

        def write(path: Path) -> None:
            self.telling(lambda: rows.save(path))

        self.ask_path("Save the table", write, save=True, names="CSV (*.csv)", suggestion=suggestion)
