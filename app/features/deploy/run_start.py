"""The button that runs a plan on this machine, and the question before many processes are started."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from espalier.app.features.deploy.state import RUN, Deployment
from espalier.app.number_text import plural
from espalier.app.translation import tr
from espalier.app.widgets.heading import button, link, warning
from espalier.passes.distributed.launch import cores
from espalier.passes.distributed.run import MAX_RANKS
from espalier.passes.sharding.options import ShardPlanOptions

HERE = tr("Run on this machine")
Wanted = Callable[[], ShardPlanOptions | None]


class RunStart(QObject):
    """`started`: a run was asked for. `question` is shown while a run of many processes waits for a confirmation.

    `wanted`: the options of the form, None where they are invalid. A plan of other options is not run: the button asks
    for a new one by `plan`, and runs that.
    """

    started = Signal()

    def __init__(self, deployment: Deployment, wanted: Wanted, plan: Callable[[], None], parent: QObject) -> None:
        super().__init__(parent)
        self._deployment, self._wanted, self._plan, self._many = deployment, wanted, plan, 0
        self._planning: ShardPlanOptions | None = None  # what is planned to be run
        self.button = button(HERE, self.run, "")
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
        """Run the plan, or else the model's placements; many processes need a confirmation.

        If the plan is of other options than those of the form, or of another model, plan first.
        """
        if self._plans_first():
            self._plan()
            self._planning = self._wanted() if self._deployment.busy else None
            return
        found = self._deployment.to_run()
        if found is not None and found[0].devices > MAX_RANKS:
            self._many = found[0].devices
            self._deployment.changed.emit()
        elif found is not None:
            self._start(MAX_RANKS)

    def proceed(self) -> None:
        """Run what was planned for that; a plan that failed, was stopped or is of an earlier state is not run."""
        deployment = self._deployment
        if self._planning is None or deployment.busy:
            return
        planned, self._planning = self._planning, None
        if deployment.error is None and deployment.options == planned == self._wanted() and not deployment.stale():
            self.run()

    def _plans_first(self) -> bool:
        """Whether there is a plan, but not of the form's options and the present model."""
        deployment, wanted = self._deployment, self._wanted()
        if deployment.options is None or wanted is None or wanted.stages > 1:
            return False
        return wanted != deployment.options or deployment.to_run() is None

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
        deployment, wanted = self._deployment, self._wanted()
        found = deployment.to_run() if has_model else None
        first = has_model and self._plans_first()
        changed = deployment.options is not None and wanted != deployment.options
        if deployment.options is not None and wanted is None:
            tip = tr("Correct the options first")
        elif changed and not first:
            tip = tr("A pipeline cannot be run here: set stages to 1")
        elif first:
            why = (
                tr("The options have changed since the plan")
                if changed
                else tr("The plan is of an earlier state of the model")
            )
            tip = tr("{}: plan again, then run that", why)
        elif found is not None:
            what = tr("the plan") if found[1].mesh else tr("the placements of the model")
            tip = tr("Run {} by {} and compare them with one", what, plural(found[0].devices, "process", "processes"))
        elif deployment.options is not None and deployment.options.stages > 1:
            tip = tr("A pipeline cannot be run here: plan a single stage")
        else:
            tip = tr("Plan first, or add the step Shard over devices")
        can_run = first or (found is not None and not changed)
        self.button.setText(tr("Plan and run on this machine") if first else HERE)
        self.button.setEnabled(can_run and not busy)
        self.button.setToolTip(tip)
        if found is None or found[0].devices != self._many or first:
            self.withdraw()
        self.words.setText(
            tr(
                "{} processes would share the {} of this machine. A mesh of at most {} devices runs "
                "without this question.",
                self._many,
                plural(cores(), "core"),
                MAX_RANKS,
            )
        )
        self.anyway.setText(tr("Run {} processes anyway", self._many))
        self.question.setVisible(bool(self._many))
