"""Section for hardware parallelism: inputs × outputs × rows per cycle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QGridLayout, QVBoxLayout, QWidget

from espalier.app.translation import tr, translated
from espalier.app.widgets.forms.fields import NumberField
from espalier.app.widgets.heading import heading, muted
from espalier.model.errors import EspalierError
from espalier.model.graph.graph import Node
from espalier.model.graph.meta import Parallel
from espalier.passes.choices.edits import with_parallel

if TYPE_CHECKING:
    from espalier.app.session.session import Session

OPS = ("linear", "matmul", "conv1d", "conv2d", "softmax", "layer_norm", "rms_norm")
AXES = translated(
    {
        "inputs": "Inputs per cycle; must divide the node's inputs",
        "outputs": "Outputs per cycle; must divide the node's outputs",
        "tokens": "Rows (tokens, pixels) per cycle",
    }
)
DIFFER = tr("The nodes differ; edits apply to all.")


class ParallelSection(QWidget):
    """Fields for the selected nodes with formats that hardware can parallelise."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._nodes: tuple[Node, ...] = ()
        self._shown: Parallel | None = None
        self.fields = {name: NumberField(int, low=1) for name in AXES}
        self._note = muted(DIFFER)
        grid = QGridLayout()
        grid.setHorizontalSpacing(8)
        for k, (name, field) in enumerate(self.fields.items()):
            field.setToolTip(AXES[name])
            field.setAccessibleName(tr("Parallel {}", tr(name)))
            field.editingFinished.connect(self._edited)  # partly typed numbers are mostly invalid
            grid.addWidget(muted(tr("rows" if name == "tokens" else name), wrap=False), 0, k)
            grid.addWidget(field, 1, k)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        column.addWidget(heading(tr("Hardware parallelism")))
        column.addLayout(grid)
        column.addWidget(self._note)
        session.problem.connect(lambda _: self.show_nodes(self._nodes))  # restores the values after a refused edit
        self.hide()

    def show_nodes(self, nodes: Sequence[Node]) -> None:
        """Show the parallelism of nodes."""
        self._nodes = tuple(n for n in nodes if n.op in OPS and n.precision)
        self.setVisible(bool(self._nodes))
        if not self._nodes:
            return
        values = [n.parallel or Parallel() for n in self._nodes]
        self._shown = values[0] if len(set(values)) == 1 else None
        self._note.setVisible(len(set(values)) > 1)
        for name, field in self.fields.items():
            field.put(getattr(values[0], name))

    def _edited(self) -> None:
        """Apply the fields as a recipe step; errors are shown."""
        try:
            parallel = Parallel(**{name: field.get() for name, field in self.fields.items()})
        except EspalierError as error:
            self._session.problem.emit(error)
            return
        if self._nodes and parallel != self._shown:
            self._shown, ids = parallel, tuple(n.id for n in self._nodes)
            chosen = self._session.saved_selections.selecting(ids)
            recipe = with_parallel(self._session.recipe, chosen, parallel)
            self._session.set_recipe(recipe, tr("Parallelism {}", parallel.label), ("parallel", ids))
