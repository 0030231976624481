"""Panel Deploy: a plan of the model over a mesh of devices, compared with baselines, and its scaling."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QTabBar, QVBoxLayout, QWidget

from espalier.app.canvas.colouring import MEASURED
from espalier.app.features.deploy.charts import MEMORY, TIMES, StackedBars
from espalier.app.features.deploy.labelled_chart import LabelledChart
from espalier.app.features.deploy.machine import MachineRow
from espalier.app.features.deploy.run_start import RunStart
from espalier.app.features.deploy.run_view import RunView
from espalier.app.features.deploy.scaling_view import ScalingView
from espalier.app.features.deploy.state import MODES, PLAN, RUN, SCALING, deployment_of
from espalier.app.features.deploy.summary import plan_html
from espalier.app.translation import error_text, tr
from espalier.app.widgets.adaptive_splitter import AdaptiveSplitter
from espalier.app.widgets.form_panel import CurrentPageStack, FormPanel, empty_page
from espalier.app.widgets.forms.fields import Choice, Recolouring, tokens
from espalier.app.widgets.forms.flow_layout import FlowLayout
from espalier.app.widgets.forms.form import Form
from espalier.app.widgets.heading import Elided, button, link, muted, warning
from espalier.app.widgets.table import Table
from espalier.model.errors import EspalierError
from espalier.passes.analysis.shard_scaling import ShardScalingOptions
from espalier.passes.choices.shard import ShardOptions
from espalier.passes.sharding.options import ShardPlanOptions

if TYPE_CHECKING:
    from espalier.app.session.session import Session

WORDS, WIDE = 520, 900
ABOUT = tr(
    "A plan distributes the model over a mesh of devices: which weights and activations are split along which axis, "
    "what is moved between the devices, and how long a step takes by a model of the hardware. It needs no devices and "
    "no weights."
)
NO_MODEL = tr("Open a model to plan it over devices.")
COLUMNS = ("node", "strategy", "data_in", "weight", "data_out", "milliseconds", "moves", "bytes", "saved")
PLANS, SCALES, RUNS = 0, 1, 2  # tabs
MOST = 1024  # devices of the scaling


class DeployPanel(FormPanel):
    """`begun`: a plan was asked for here. `colour_wanted`: a mode of the graph's colours."""

    begun = Signal()
    save_wanted = Signal()
    colour_wanted = Signal(str)

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session, self.deployment = session, deployment_of(session)
        self._shown: object = None
        self.form = Form(ShardPlanOptions, brief=True)
        self.table, self.times, self.memory = (
            Table(),
            StackedBars(TIMES, tr("step"), "ms"),
            StackedBars(MEMORY, tr("memory of a rank"), ""),
        )
        self.scaling, self.tabs, self._charts = ScalingView(), QTabBar(), CurrentPageStack()
        self.run_view = RunView()
        self._labelled = LabelledChart(self.times), LabelledChart(self.memory)
        self._about, self._summary, self._status = muted(ABOUT), QLabel(wordWrap=True), Elided("", "muted", 40)
        self._error = warning()
        self.colours = Choice(("", *MODES), (tr("Colour by …"), *(MEASURED[m][0] for m in MODES)))
        self.start = link(tr("Plan over devices"), self._open_form)
        self.buttons = {
            "plan": button(tr("Plan"), self.plan, tr("Find the plan of least predicted time whose memory fits")),
            "scaling": button(tr("Scaling"), self.predict, tr("Predict the step on 1 to {} devices", MOST)),
            "stop": button(tr("Stop"), self.deployment.stop, tr("Stop what runs")),
        }
        self.machine, self.apply_link = MachineRow(self.deployment), link(tr("Apply as a step"), self.apply)
        self.runs = RunStart(self.deployment, self._wanted, self.plan, self)
        self._build()
        self._connect()
        self._opened()
        Recolouring(self, lambda _: self.refresh())

    # -- building

    def _build(self) -> None:
        page = empty_page(WORDS, self._about, self.start)
        inside = QWidget()
        box = QVBoxLayout(inside)
        box.setContentsMargins(12, 8, 12, 8)
        self.form.add_below("device", self.machine)
        box.addWidget(self.form)
        box.addStretch(1)
        results = QWidget()
        self._lay_out(page, inside, self._foot(), results, [270, 900])
        self._fill(results)

    def _foot(self) -> QWidget:
        foot, row = QWidget(), QHBoxLayout()
        self.buttons["plan"].setProperty("primary", True)
        for each in self.buttons.values():
            row.addWidget(each)
        row.addStretch(1)
        runs = QHBoxLayout()
        runs.addWidget(self.runs.button)
        runs.addStretch(1)
        links = QHBoxLayout()
        links.addWidget(self.apply_link)
        links.addStretch(1)
        self.colours.setAccessibleName(tr("Colour the graph by"))
        links.addWidget(self.colours)
        box = QVBoxLayout(foot)
        box.setContentsMargins(12, 4, 12, 6)
        box.setSpacing(2)
        for part in (row, runs, links):
            box.addLayout(part)
        return foot

    def _fill(self, results: QWidget) -> None:
        self._summary.setTextFormat(Qt.TextFormat.RichText)
        self._summary.setMinimumWidth(1)
        self._error.setMinimumWidth(1)
        box = QVBoxLayout(results)
        box.setContentsMargins(12, 6, 12, 0)
        box.setSpacing(4)
        for part in (self._summary, self._error, self.runs.question):
            box.addWidget(part)
        split = AdaptiveSplitter(WIDE, (3, 4))
        box.addWidget(split, 1)
        split.add(self._charts_part(), self._table_part())

    def _charts_part(self) -> QWidget:
        part, plans = QWidget(), QWidget()
        column, row = QVBoxLayout(part), QHBoxLayout(plans)
        for layout in (column, row):
            layout.setContentsMargins(0, 0, 0, 0)
        self.tabs.setExpanding(False)
        self.tabs.setAccessibleName(tr("Charts of the plan"))
        for title in (tr("Plans"), tr("Scaling"), tr("Run")):
            self.tabs.addTab(title)
        for chart in self._labelled:
            row.addWidget(chart, 1)
        self._charts.addWidget(plans)
        self._charts.addWidget(self.scaling)
        self._charts.addWidget(self.run_view)
        head = QHBoxLayout()
        head.addWidget(self.tabs)
        head.addWidget(self._status, 1)
        self._status.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        column.addLayout(head)
        column.addWidget(self._charts, 1)
        return part

    def _table_part(self) -> QWidget:
        part, bar = QWidget(), FlowLayout(spacing=6)
        column = QVBoxLayout(part)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2)
        bar.addWidget(link(tr("Copy"), self.table.copy))
        bar.addWidget(link(tr("Save as CSV…"), self.save_wanted.emit))
        column.addLayout(bar)
        column.addWidget(self.table, 1)
        return part

    def _connect(self) -> None:
        self.deployment.changed.connect(self.refresh)
        self.deployment.changed.connect(self.runs.proceed)  # after everything is shown
        self.form.changed.connect(self.refresh)
        self.runs.started.connect(self._show_run)
        self.scaling.mesh_wanted.connect(self._plan_mesh)
        self._session.opened.connect(self._opened)
        self._session.selection_changed.connect(self.table.mark_nodes)
        self.table.node_chosen.connect(lambda node: self._session.select((node,)))
        self.tabs.currentChanged.connect(self._turn)
        self.colours.edited.connect(lambda: self.colour_wanted.emit(self.colours.get() or "kind"))

    # -- acts

    def _open_form(self) -> None:
        self._pages.setCurrentIndex(1)
        self.plan()

    def plan(self) -> None:
        """Plan with the options of the form; errors are shown here."""
        self._ask(PLAN, lambda options: options)

    def predict(self) -> None:
        """Predict the step over growing numbers of devices."""
        self.tabs.setCurrentIndex(SCALES)
        self._ask(SCALING, lambda options: ShardScalingOptions(**asdict(options), most=MOST))

    def _plan_mesh(self, mesh: str) -> None:
        """Plan over a mesh of the prediction, with the other options that it was made with."""
        if (scaled := self.deployment.scaled) is not None:
            given = {f.name: getattr(scaled, f.name) for f in fields(ShardPlanOptions)}
            self.form.put(replace(ShardPlanOptions(**given), mesh=mesh))
            self.tabs.setCurrentIndex(PLANS)
            self.plan()

    def _ask(self, name: str, of: Any) -> None:
        try:
            options = self.form.value()
        except EspalierError as error:
            self._session.problem.emit(error)
            return
        self.runs.withdraw()
        self.deployment.ask(name, of(options))
        self.begun.emit()

    def apply(self) -> None:
        """Append the step that places the tensors as planned."""
        if (planned := self.deployment.options) is not None:
            given = {f.name: getattr(planned, f.name) for f in fields(ShardOptions) if hasattr(planned, f.name)}
            self._session.run_pass("shard", ShardOptions(**given))

    # -- display

    def _opened(self) -> None:
        self.form.put(ShardPlanOptions(mesh="2x2"))
        self._shown = None
        self.refresh()

    def refresh(self) -> None:
        """Show the state of the plan."""
        deployment, document = self.deployment, self._session.document
        reports, busy = deployment.reports, deployment.busy
        self._pages.setCurrentIndex(1 if reports or busy or deployment.error else 0)
        self._about.setText(ABOUT if document else NO_MODEL)
        self.start.setVisible(document is not None)
        for name, each in self.buttons.items():
            each.setVisible((name == "stop") == bool(busy))
        self._status.show_text(busy)
        error = deployment.error
        self._error.setText(error_text(error) if error else "")
        self._error.setVisible(error is not None)
        self.runs.refresh(document is not None, bool(busy))
        self.machine.refresh(document is not None and not busy)
        plan = reports.get(PLAN)
        words = plan_html(plan.summary, deployment.compared, self._outdated(), tokens(self)) if plan else ""
        self._summary.setText(words)
        self._summary.setVisible(plan is not None)
        self.apply_link.setVisible(deployment.can_apply)
        if planned := deployment.options:
            tip = tr("Append the step shard as planned: mesh {}, device {}", planned.mesh, planned.device)
            self.apply_link.setToolTip(tip)
        self._show_reports()

    def _wanted(self) -> ShardPlanOptions | None:
        """The options of the form; None where they are invalid."""
        return None if self.form.error else self.form.value()

    def _outdated(self, name: str = PLAN) -> str:
        """Why a plan or a prediction is not the one that the present options would give; empty if it is."""
        if self.deployment.stale(name):
            return tr("Of an earlier state of the model")
        wanted, options = self._wanted(), self.deployment.options
        if name == SCALING and wanted is not None and (scaled := self.deployment.scaled) is not None:
            options = ShardScalingOptions(**asdict(replace(wanted, mesh=scaled.mesh)), most=MOST)  # without its mesh
            wanted = scaled
        return tr("Of other options than those at the left") if wanted is None or wanted != options else ""

    def _show_run(self) -> None:
        self.tabs.setCurrentIndex(RUNS)
        self.begun.emit()

    def _turn(self, tab: int) -> None:
        self._charts.setCurrentIndex(tab)
        self._shown = None
        self._show_reports()

    def _show_reports(self) -> None:
        reports = self.deployment.reports
        deployment = self.deployment
        stale = deployment.stale(RUN)
        outdated = self._outdated(SCALING) if SCALING in reports else ""
        shown = tuple(map(id, reports.values())), tokens(self).name, stale, outdated
        if shown == self._shown:
            return
        self._shown = shown
        plan, scaling, compared = reports.get(PLAN), reports.get(SCALING), self.deployment.compared
        run = reports.get(RUN)
        self.run_view.show_report(run, deployment.ran, stale)
        if self.tabs.currentIndex() == RUNS and run:
            self.table.show_rows([r | {"collective": r["collective"].replace("_", "-")} for r in run.rows])
        else:
            self.table.show_rows([{c: r.get(c) for c in COLUMNS} for r in plan.rows] if plan else [])
        limit = compared[0].get("limit_bytes") if compared else None
        self.times.show_rows(compared)
        self.memory.show_rows(compared, limit)
        self.scaling.show_rows(scaling.rows if scaling else (), outdated)
        for chart in self._labelled:
            chart.show_legend()
