"""Puts several forms of one thing on the clipboard."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QByteArray
from PySide6.QtGui import QGuiApplication, QImage, QStandardItemModel


def copy_forms(forms: Mapping[str, bytes], image: QImage | None = None) -> None:
    """Put data on the clipboard by MIME type, and an image.

    The clipboard outlives the interpreter, which then ends at QMimeData that Python has made. Those of a model are
    made by Qt.
    """
    model = QStandardItemModel(1, 1)
    data = model.mimeData([model.index(0, 0)])
    for mimetype in data.formats():
        data.removeFormat(mimetype)
    for mimetype, content in forms.items():
        data.setData(mimetype, QByteArray(content))
    if image is not None:
        data.setImageData(image)
    QGuiApplication.clipboard().setMimeData(data)
