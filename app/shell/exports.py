"""Exporting the result in other forms, and the graph as a picture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices

from espalier.app.words import mebibytes
from espalier.model.files import write_text

if TYPE_CHECKING:
    from espalier.app.canvas.view import GraphCanvas
    from espalier.app.errors import Banner
    from espalier.app.session.session import Session
    from espalier.app.shell.dialogs import Dialogs
    from espalier.passes.export import Exported

PICTURES = (".png", ".svg")
EXPORTS = {
    "safetensors": ("Export a safetensors folder", "", True),
    "packed": ("Export a packed model", "model.packed.safetensors", False),
    "onnx": ("Export as ONNX", "model.onnx", False),
    "pt2": ("Export a torch program", "model.pt2", False),
    "adapter": ("Export the LoRA adapters into a folder", "", True),
    "recipe": ("Export the recipe", "recipe.json", False),
    "script": ("Export a Python script", "compress.py", False),
    "graphml": ("Export the graph as GraphML", "graph.graphml", False),
}


class Exports:
    """Asks for a file and writes it; the canvas is made when a picture first needs it."""

    def __init__(self, session: Session, banner: Banner, dialogs: Dialogs, canvas: Callable[[], GraphCanvas]) -> None:
        self._session, self._banner, self._dialogs, self._canvas = session, banner, dialogs, canvas

    def has_adapters(self) -> bool:
        """Whether there are any to fuse or to hand on."""
        document = self._session.document
        return document is not None and any(n.adapters for n in document.graph)

    def export(self, form: str) -> None:
        """Hand the result on in `form`, and say what was written."""
        title, suggestion, folder = EXPORTS[form]
        if form == "packed":
            title = f"{title} of {mebibytes(self._session.score.size_bytes)}"

        def write(path: Path) -> None:
            self._session.export(form, path, lambda done: self._exported(path, done))

        self._dialogs.ask_path(title, write, save=not folder, folder=folder, suggestion=suggestion)

    def _exported(self, path: Path, done: Exported) -> None:
        """What was written, whether it was run, and what the form could not take along."""
        home = path if path.is_dir() else path.parent
        text = f"{path.name} is written: {mebibytes(done.bytes)}."
        if done.max_abs_diff is not None and not done.notes:
            text += f" It was run: results differ from the model's by {done.max_abs_diff:.2g} at most."
        show = ("Show in folder", lambda: QDesktopServices.openUrl(QUrl.fromLocalFile(str(home))))
        self._banner.tell(text, " ".join(done.notes), [show])

    def packed_words(self) -> str:
        """The menu's word for a packed export, with the size that its file will have."""
        size = self._session.score.size_bytes
        return f"Packed model, {mebibytes(size)}…" if size else "Packed model…"

    def folder_words(self) -> str:
        """The menu's word for a folder of float weights, with about the size of these."""
        document = self._session.document
        size = sum(w.elements * w.float_bits for w in document.graph.weights.values()) // 8 if document else 0
        return f"Safetensors folder, about {mebibytes(size)}…" if size else "Safetensors folder…"

    def export_picture(self) -> None:
        """Write the graph as it is open on the canvas, as PNG or SVG."""

        def write(path: Path) -> None:
            kind = path.suffix.lower()
            if kind not in PICTURES:
                told = f"{path.name} could not be written: {kind or 'a name without an ending'} is not supported."
                self._banner.tell(told, "Choose a name that ends in .svg or .png.", kind="error")
            else:
                self._dialogs.telling(lambda: self._draw(path))

        names = "Pictures (*.svg *.png)"
        self._dialogs.ask_path("Export a picture", write, save=True, names=names, suggestion="graph.svg")

    def _draw(self, path: Path) -> None:
        """Draw the graph into a file; raises FileError."""
        from espalier.app.canvas.svg import to_svg

        canvas, graph = self._canvas(), self._session.open_document.graph
        if path.suffix.lower() == ".svg":
            write_text(path, to_svg(graph, canvas.open_groups, horizontal=canvas.horizontal))
        else:
            canvas.render(path, (3200, 2400))
