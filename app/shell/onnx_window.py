"""Options of an ONNX file, and whether it is then measured in onnxruntime."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QDialog, QDialogButtonBox, QVBoxLayout, QWidget

from espalier.app.translation import tr
from espalier.app.widgets.forms.form import Form
from espalier.app.widgets.heading import muted
from espalier.passes.export.settings import OnnxOptions

if TYPE_CHECKING:
    from espalier.model.document.document import Document

INTRODUCTION = tr(
    "Integer operators may round otherwise than the model. The result names what differs, and by how much."
)
LEAVE = tr("Leave activations in float if ONNX has no equivalent format")
CHECK = tr("Measure it in onnxruntime beside a float file and onnxruntime's own quantisers")


class OnnxWindow(QDialog):
    """A dialog with a form of OnnxOptions."""

    def __init__(self, parent: QWidget, document: Document | None) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(tr("Export as ONNX"))
        self._data = (document.project.source.data or "") if document is not None else ""
        self.form = Form(OnnxOptions)
        self.leave, self.check = QCheckBox(LEAVE), QCheckBox(CHECK)
        self.check.setToolTip(
            tr("Accuracies of {}", self._data) if self._data else tr("Without accuracies: no data are known")
        )
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel)
        export = buttons.button(QDialogButtonBox.StandardButton.Ok)
        export.setText(tr("Export…"))
        export.setProperty("primary", True)
        buttons.accepted.connect(self._accept)
        buttons.rejected.connect(self.reject)
        box = QVBoxLayout(self)
        box.setContentsMargins(16, 14, 16, 14)
        for widget in (muted(INTRODUCTION), self.form, self.leave, self.check, buttons):
            box.addWidget(widget)
        self.resize(520, self.sizeHint().height())

    def _accept(self) -> None:
        if not self.form.error:
            self.accept()

    def chosen(self) -> dict[str, Any]:
        """The fields of ExportJob."""
        from espalier.passes.export.checking.target import CheckOptions

        check = CheckOptions(data=self._data) if self.check.isChecked() else None
        return {"onnx": self.form.value(), "leave_float": self.leave.isChecked(), "check": check}
