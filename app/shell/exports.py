"""Exports of the compressed model in other file formats, and of the graph as a picture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices

from espalier.app.number_text import mebibytes
from espalier.app.translation import message, tr

if TYPE_CHECKING:
    from espalier.app.canvas.view import GraphCanvas
    from espalier.app.errors import Banner
    from espalier.app.session.session import Session
    from espalier.app.shell.dialogs import Dialogs
    from espalier.passes.export import Exported
    from espalier.passes.export.checking.check import Check

PICTURES = (".png", ".svg")
# forms that refuse what they have no equal of
HOLDING = ("compressed-tensors", "gguf", "openvino", "torchao", "executorch")
EXPORTS = {
    "safetensors": (tr("Export a safetensors folder"), "", True),
    "packed": (tr("Export a packed model"), "model.packed.safetensors", False),
    "compressed-tensors": (tr("Export a folder of compressed tensors"), "", True),
    "torchao": (tr("Export a folder of torchao's tensors"), "", True),
    "gguf": (tr("Export as GGUF"), "model.gguf", False),
    "onnx": (tr("Export as ONNX"), "model.onnx", False),
    "openvino": (tr("Export for OpenVINO"), "model.xml", False),
    "executorch": (tr("Export for ExecuTorch"), "model.pte", False),
    "pt2": (tr("Export a torch program"), "model.pt2", False),
    "adapter": (tr("Export the LoRA adapters into a folder"), "", True),
    "recipe": (tr("Export the recipe"), "recipe.json", False),
    "script": (tr("Export a Python script"), "compress.py", False),
    "graphml": (tr("Export the graph as GraphML"), "graph.graphml", False),
}


def model_name(session: Session) -> str:
    """The name of the open model, for files: of its project or its source, `reviews` of `demo:reviews`."""
    document = session.document
    if document is None:
        return ""
    return document.path.stem if document.path else Path(str(session.opened_spec).rpartition(":")[2]).stem


def checked_text(found: Check) -> str:
    """The figures of a file in its runtime, beside its baselines."""
    parts = [tr("{}, a batch of {}:", found.runtime, found.batch_size)]
    for row in found.rows:
        figures = [] if row.milliseconds is None else [f"{row.milliseconds:.3g} ms"]
        figures += [] if row.accuracy is None else [tr("accuracy {:.2%} (n = {:,})", row.accuracy, row.n)]
        parts += [f"{row.name} {', '.join(figures)};"] if figures else []
    return f"{' '.join(parts).rstrip(';')}."


class Exports:
    """Asks for a path, then exports; `canvas` returns the canvas and creates it if needed.

    `show_targets` brings the panel that says what other programs hold.
    """

    def __init__(
        self, session: Session, banner: Banner, dialogs: Dialogs, canvas: Callable[[], GraphCanvas],
        show_targets: Callable[[], object],
    ) -> None:  # fmt: skip
        self._session, self._banner, self._dialogs, self._canvas = session, banner, dialogs, canvas
        self._show_targets = show_targets

    def has_adapters(self) -> bool:
        """Whether a node has a LoRA adapter to fuse or export."""
        document = self._session.document
        return document is not None and any(n.adapters for n in document.graph)

    def export(self, form: str) -> None:
        """Export the model in a format of EXPORTS, and report what was written; of ONNX after its options."""
        if form == "onnx":
            from espalier.app.shell.onnx_window import OnnxWindow

            window = OnnxWindow(self._dialogs.parent, self._session.document)
            window.accepted.connect(lambda: self._ask_path(form, **window.chosen()))
            window.open()
        elif form not in HOLDING or not self._asks_about_float(form):
            self._ask_path(form)

    def _asks_about_float(self, form: str) -> bool:
        """Offer to leave in float what the form has no equal of; False where it holds all, or where no offer helps."""
        from espalier.passes.export.targets import all_unheld, refusal

        document = self._session.document
        found = all_unheld(form, document.graph) if document else []
        if not found or any(u.firm for u in found):
            return False
        error = refusal(form, found)
        leave = (tr("Leave them in float…"), lambda: self._ask_path(form, leave_float=True))
        show = (tr("Show all"), self._show_targets)
        self._banner.show_message(message(error.message), message(found[0].instead), [leave, show], kind="error")
        return True

    def _ask_path(self, form: str, **options: Any) -> None:
        title, suggestion, folder = EXPORTS[form]
        if form == "packed":
            title = tr("{} of {}", title, mebibytes(self._session.score.size_bytes))

        def write(path: Path) -> None:
            self._session.export(form, path, lambda result: self._exported(path, result), **options)

        self._dialogs.ask_path(title, write, save=not folder, folder=folder, suggestion=suggestion)

    def _exported(self, path: Path, result: Exported) -> None:
        """Show the size of the file, the verification and the notes on what the format cannot hold."""
        folder = path if path.is_dir() else path.parent
        text = tr("{} is written: {}.", path.name, mebibytes(result.bytes))
        if result.max_abs_diff is not None and not result.notes:
            text += tr(" Verified: outputs differ from the model's by at most {:.2g}.", result.max_abs_diff)
        if result.check is not None:
            text += f" {checked_text(result.check)}"
        show = (tr("Show in folder"), lambda: QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder))))
        self._banner.show_message(text, " ".join(result.notes), [show])

    def packed_title(self) -> str:
        """The title of the menu entry for a packed export, with the size of its file."""
        size = self._session.score.size_bytes
        return tr("Packed model, {}…", mebibytes(size)) if size else tr("Packed model…")

    def folder_title(self) -> str:
        """The title of the menu entry for a folder of float weights, with their approximate size."""
        document = self._session.document
        size = sum(w.elements * w.float_bits for w in document.graph.weights.values()) // 8 if document else 0
        return tr("Safetensors folder, about {}…", mebibytes(size)) if size else tr("Safetensors folder…")

    def export_picture(self) -> None:
        """Write the graph with its expanded groups as PNG or SVG."""

        from espalier.app.canvas.picture import write_graph

        def write(path: Path) -> None:
            kind = path.suffix.lower()
            if kind not in PICTURES:
                message = tr(
                    "{} could not be written: {} is not supported.",
                    path.name,
                    kind or tr("a name without an extension"),
                )
                self._banner.show_message(message, tr("Choose a name that ends in .svg or .png."), kind="error")
            else:
                self._dialogs.report_errors(lambda: write_graph(self._canvas(), path))

        names = tr("Pictures (*.svg *.png)")
        self._dialogs.ask_path(tr("Export a picture"), write, save=True, names=names, suggestion="graph.svg")

    def copy_picture(self) -> None:
        """Put the picture of the graph on the clipboard."""
        self._canvas().handle.copy()
