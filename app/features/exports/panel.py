"""Panel Export: layers by targets of export, what each target holds, and formats that it could hold."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QScrollArea, QStackedWidget, QVBoxLayout, QWidget

from espalier.app.features.exports.layer_view import LayerView
from espalier.app.number_text import plural
from espalier.app.translation import message, tr, translated
from espalier.app.widgets.forms.deferred_work import DeferredWork
from espalier.app.widgets.forms.fields import Choice, apply_field_style
from espalier.app.widgets.forms.flow_layout import FlowLayout
from espalier.app.widgets.heading import empty_state, link
from espalier.app.widgets.table import Table
from espalier.passes.export.targets import TARGETS, refused_model
from espalier.passes.export.targets.matrix import Layer, layers

if TYPE_CHECKING:
    from espalier.app.session.session import Session

EMPTY = tr("Open a model to see which formats other programs can hold, layer by layer.")
ABOUT = translated(
    {
        "compressed-tensors": "A folder of Hugging Face with weights as codes and scales, which "
        "transformers and vLLM read",
        "gguf": "One file for llama.cpp",
        "onnx": "A file for ONNX Runtime, with whole numbers where formats are such",
        "torchao": "A folder of Hugging Face with weights as tensors of torchao, which transformers reads",
        "openvino": "An .xml and a .bin for OpenVINO, with whole numbers where formats are such",
        "executorch": "A .pte for ExecuTorch, in which XNNPACK multiplies whole numbers where formats are such",
    }
)
HELD, NONE = "held", "–"
ALL, CHOSEN, REFUSED = "all", "chosen", "refused"
SHOWN = translated({ALL: "All layers", CHOSEN: "Layers with choices", REFUSED: "Not held by a target"})


class ExportPanel(DeferredWork):
    """A row per layer. `export_wanted`: the form to export the model in."""

    export_wanted = Signal(str)
    save_wanted = Signal()

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._layers: dict[str, Layer] = {}
        self.table, self.layer = Table(), LayerView(session)
        self.table.setAccessibleName(tr("Layers by targets of export"))
        self.shown = Choice(tuple(SHOWN), tuple(SHOWN.values()))
        self.shown.setAccessibleName(tr("Layers"))
        self.counts, self.links = dict[str, QLabel](), dict[str, Any]()
        self._pages = QStackedWidget()
        self._build()
        self.shown.edited.connect(self.refresh)
        self.table.node_chosen.connect(self._choose)
        session.opened.connect(lambda: self.defer(self.refresh))
        session.changed.connect(lambda _: self.defer(self.refresh))
        session.selection_changed.connect(lambda _: self.defer(self._follow, also=True))
        self.refresh()

    def _build(self) -> None:
        apply_field_style(self)
        body, bar, box = QWidget(), FlowLayout(spacing=10), QVBoxLayout()
        bar.setContentsMargins(12, 6, 12, 4)
        bar.addWidget(self.shown)
        for text, act in ((tr("Copy as TSV"), self.table.copy), (tr("Save as CSV…"), self.save_wanted.emit)):
            bar.addWidget(link(text, act))
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addLayout(self._targets())
        box.addLayout(bar)
        box.addWidget(self.table, 3)
        area = QScrollArea()
        area.setWidgetResizable(True)
        area.setFrameShape(QScrollArea.Shape.NoFrame)
        area.setWidget(self.layer)
        box.addWidget(area, 2)
        body.setLayout(box)
        self._pages.addWidget(empty_state(EMPTY))
        self._pages.addWidget(body)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.addWidget(self._pages)

    def _targets(self) -> QVBoxLayout:
        """A line per target: its name, how many layers with choices it holds, and a link that exports."""
        column = QVBoxLayout()
        column.setContentsMargins(12, 8, 12, 0)
        column.setSpacing(2)
        for name, _ in TARGETS.items():
            row, title = QHBoxLayout(), QLabel(name)
            title.setProperty("role", "strong")
            title.setToolTip(ABOUT.get(name, ""))
            title.setMinimumWidth(150)
            self.counts[name] = count = QLabel()
            count.setProperty("role", "muted")
            self.links[name] = export = link(tr("Export…"), partial(self.export_wanted.emit, name))
            export.setAccessibleName(tr("Export as {}", name))
            export.setToolTip(ABOUT.get(name, ""))
            for part in (title, count):
                row.addWidget(part)
            row.addStretch(1)
            row.addWidget(export)
            column.addLayout(row)
        return column

    # -- contents

    def refresh(self) -> None:
        """Show the layers of the document."""
        document = self._session.document
        self._pages.setCurrentIndex(int(document is not None))
        found = layers(document.graph) if document else []
        self._layers = {layer.node.id: layer for layer in found}
        chosen = [layer for layer in found if layer.chosen]
        for name, label in self.counts.items():
            held = sum(not layer.refused[name] for layer in chosen)
            why = message(refused_model(name, document.project.source.limits)) if document else ""
            label.setText(why or (tr("holds {} of {} with choices", held, plural(len(chosen), "layer")) if chosen
                                  else tr("no layer has a format yet")))  # fmt: skip
        kinds = {ALL: found, CHOSEN: chosen, REFUSED: [layer for layer in found if not layer.held_everywhere]}
        self.table.show_rows([_row(layer) for layer in kinds[self.shown.get()]])
        self._follow()

    def _follow(self) -> None:
        """Show the selected layer, and mark its row."""
        selected = [n for n in self._session.selection if n in self._layers]
        self.table.mark_nodes(selected)
        document = self._session.document
        if document is not None and selected:
            self.layer.show_layer(self._layers[selected[0]], document.graph, selected)
        else:
            self.layer.show_none()

    def _choose(self, node: str) -> None:
        self._session.select((node,))


def _row(layer: Layer) -> dict[str, Any]:
    node = layer.node
    row: dict[str, Any] = {"node": node.id}
    for target, refused in layer.refused.items():
        row[target] = (f"{refused[0].port}: {refused[0].why}" if refused else HELD) if layer.chosen else NONE
    formats = ", ".join(f"{port} {choice.format.label}" for port, choice in node.precision.items())
    return {**row, "formats": formats or "float", "op": node.op}
