"""The button that runs a plan on this machine, and the question before many processes are started."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from espalier.app.features.deploy.state import RUN, Deployment
from espalier.app.number_text import plural
from espalier.app.widgets.heading import button, link, warning
from espalier.passes.distributed.launch import cores
from espalier.passes.distributed.run import MAX_RANKS


class RunStart(QObject):
    """`started`: a run was asked for. `question` is shown while a run of many processes waits for a confirmation."""

    started = Signal()

    def __init__(self, deployment: Deployment, parent: QObject) -> None:
        super().__init__(parent)
        self._deployment, self._many = deployment, 0
        self.button = button("Run on this machine", self.run, "")
        self.anyway, self.words = link("", lambda: self._start(self._many)), warning()
        self.words.setMinimumWidth(1)
        self.question = QWidget()
        box = QVBoxLayout(self.question)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(2)
        box.addWidget(self.words)
        box.addWidget(self.anyway, 0, Qt.AlignmentFlag.AlignLeft)
        self.words.show()
        self.question.hide()

    def run(self) -> None:
        """Run the plan, or else the model's placements; many processes need a confirmation."""
        found = self._deployment.to_run()
        if found is not None and found[0].devices > MAX_RANKS:
            self._many = found[0].devices
            self._deployment.changed.emit()
        elif found is not None:
            self._start(MAX_RANKS)

    def withdraw(self) -> None:
        """Withdraw the question."""
        self._many = 0

    def _start(self, max_ranks: int) -> None:
        found = self._deployment.to_run()
        if found is not None:
            self.withdraw()
            self._deployment.ask(RUN, replace(found[1], max_ranks=max_ranks))
            self.started.emit()

    def refresh(self, has_model: bool, busy: bool) -> None:
        """Show the present state."""
        deployment = self._deployment
        found = deployment.to_run() if has_model else None
        if found is not None:
            what = "the plan" if found[1].mesh else "the placements of the model"
            tip = f"Run {what} by {plural(found[0].devices, 'process', 'processes')} and compare them with one"
        elif deployment.options is not None and deployment.options.stages > 1:
            tip = "A pipeline cannot be run here: plan a single stage"
        else:
            tip = "Plan first, or add the step Shard over devices"
        self.button.setEnabled(found is not None and not busy)
        self.button.setToolTip(tip)
        if found is None or found[0].devices != self._many:
            self.withdraw()
        self.words.setText(
            f"{self._many} processes would share the {plural(cores(), 'core')} of this machine. "
            f"A mesh of at most {MAX_RANKS} devices runs without this question."
        )
        self.anyway.setText(f"Run {self._many} processes anyway")
        self.question.setVisible(bool(self._many))
