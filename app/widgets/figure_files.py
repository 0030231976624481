"""Figures for other programs: pictures and tables as MIME data, rendered when asked, and their files in a folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QByteArray, QMetaType, QMimeData, QObject, Qt, QUrl, Signal
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QWidget

from espalier.app.translation import tr
from espalier.app.widgets.clipboard import copy_forms
from espalier.model.errors import EspalierError, FileError
from espalier.model.files import write_bytes
from espalier.model.leftovers import Scratch, scratch

OWN = "application/x-espalier-figure"  # marks drags of this program: no window of it opens their files
IMAGE, URLS = "application/x-qt-image", "text/uri-list"
PNG, SVG, CSV, TSV = "image/png", "image/svg+xml", "text/csv", "text/plain"
SUFFIXES = {PNG: ".png", SVG: ".svg", CSV: ".csv"}
HINT = tr("Free some space in the temporary folder, or save the figure elsewhere.")
LONGEST = 60  # characters of the name of a figure in a file name

Write = Callable[[Path], object]  # writes a figure by the suffix of a path; raises FileError


@dataclass(frozen=True, slots=True)
class Offer:
    """A figure for other programs: its name, a function for each MIME type, and the type of its file."""

    name: str
    forms: Mapping[str, Callable[[], bytes]]
    file: str


def picture_offer(name: str, write: Write, *, vector: bool = False) -> Offer:
    """The offer of a picture that `write` writes as .svg and .png; `vector`: the file is the SVG."""
    return Offer(name, {SVG: lambda: _written(write, ".svg"), PNG: lambda: _written(write, ".png")},
                 SVG if vector else PNG)  # fmt: skip


def table_offer(name: str, text: Callable[[str], str]) -> Offer:
    """The offer of a table; `text` returns its rows with a delimiter."""
    return Offer(name, {TSV: lambda: text("\t").encode(), CSV: lambda: text(",").encode()}, CSV)


def _written(write: Write, suffix: str) -> bytes:
    """What `write` writes into a file of this suffix. Raises FileError."""
    try:
        with scratch() as folder:
            path = folder / f"figure{suffix}"
            write(path)
            return path.read_bytes()
    except OSError as error:
        raise FileError(f"The figure could not be written: {error.strerror}.", HINT) from error


def file_stem(text: str) -> str:
    """A text as part of a file name: `loss by step` → `loss-by-step`; empty if nothing is left of it."""
    return re.sub(r"[^\w.]+", "-", text).strip("-._")[:LONGEST].rstrip("-._").lower()


class FigureFiles(QObject):
    """The files of the figures of one window, in a folder that is made on first use.

    `failed` carries the error of a figure that could not be rendered; `model` returns the name of the open model.
    """

    failed = Signal(object)

    def __init__(self, window: QWidget, model: Callable[[], str] = str) -> None:
        super().__init__(window)
        self._model = model
        self._scratch: list[Scratch] = []
        window.destroyed.connect(_closing(self._scratch))

    def end(self) -> None:
        """Delete the folder."""
        _closing(self._scratch)()

    def write(self, name: str, suffix: str, data: bytes) -> Path:
        """Write a file that is named after the model and the figure, beside those that exist. Raises FileError."""
        stem = "-".join(part for part in map(file_stem, (self._model(), name)) if part) or "figure"
        if not self._scratch:
            try:
                self._scratch.append(Scratch())
            except OSError as error:
                raise FileError(f"{stem}{suffix} could not be written: {error.strerror}.", HINT) from error
        folder, count = self._scratch[0].folder, 1
        while (path := folder / f"{stem}{'' if count == 1 else f'-{count}'}{suffix}").exists():
            count += 1
        write_bytes(path, data)
        return path


def _closing(scratch: list[Scratch]) -> Callable[[], None]:
    """A function that deletes the folder, without holding its owner."""

    def close(*_: object) -> None:
        while scratch:
            scratch.pop().close()

    return close


def files_of(widget: QWidget) -> FigureFiles:
    """The files of the window that a widget belongs to, also while its dock floats."""
    above: QObject = widget
    while True:
        files = above.findChild(FigureFiles, options=Qt.FindChildOption.FindDirectChildrenOnly)
        if files is not None:
            return files
        parent = above.parent()
        if parent is None:
            return FigureFiles(widget.window())
        above = parent


class FigureData(QMimeData):
    """The data of a drag: each form is rendered when a program asks for it first, the file too."""

    def __init__(self, offer: Offer, files: FigureFiles) -> None:
        super().__init__()
        self._offer, self._files = offer, files
        self._rendered: dict[str, bytes] = {}

    def formats(self) -> list[str]:
        """The MIME types on offer."""
        image = [IMAGE] if PNG in self._offer.forms else []
        return [URLS, *self._offer.forms, *image, OWN]

    def hasFormat(self, mimetype: str) -> bool:
        return mimetype in self.formats()

    def retrieveData(self, mimetype: str, kind: QMetaType | QMetaType.Type) -> object:
        """The data in one form; nothing where rendering failed, which `failed` has told."""
        if mimetype == OWN:
            return QByteArray(b"1")
        if not self.hasFormat(mimetype):
            return None
        if mimetype not in self._rendered:
            try:
                self._rendered[mimetype] = self._render(mimetype)
            except EspalierError as error:
                self._files.failed.emit(error)
                self._rendered[mimetype] = b""
        data = self._rendered[mimetype]
        if mimetype == IMAGE:
            return QImage.fromData(data, "PNG")  # type: ignore[call-overload]
        if mimetype == URLS and QMetaType(kind).id() == QMetaType.Type.QVariantList.value:
            return [QUrl.fromEncoded(line) for line in data.split()]
        return data.decode() if mimetype == TSV else QByteArray(data)

    def _render(self, mimetype: str) -> bytes:
        if mimetype == IMAGE:
            return self._form(PNG)
        if mimetype != URLS:
            return self._offer.forms[mimetype]()
        kind = self._offer.file
        path = self._files.write(self._offer.name, SUFFIXES[kind], self._form(kind))
        return bytes(QUrl.fromLocalFile(str(path)).toEncoded().data()) + b"\r\n"

    def _form(self, mimetype: str) -> bytes:
        """A form that another one holds; rendered once."""
        if mimetype not in self._rendered:
            self._rendered[mimetype] = self._offer.forms[mimetype]()
        return self._rendered[mimetype]


def copy_figure(offer: Offer, files: FigureFiles) -> bool:
    """Put all forms of a figure on the clipboard, as it is now; returns whether they could be rendered."""
    try:
        forms = {mimetype: form() for mimetype, form in offer.forms.items()}
    except EspalierError as error:
        files.failed.emit(error)
        return False
    copy_forms(forms, QImage.fromData(forms[PNG]) if PNG in forms else None)
    return True


def is_own(data: QMimeData) -> bool:
    """Whether a drag is that of a figure of this program."""
    with suppress(RuntimeError):
        return data.hasFormat(OWN)
    return False
