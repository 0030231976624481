"""Form of a kernel run: versions, device, types, sizes, time; with an estimate of the duration."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QStandardItemModel
from PySide6.QtWidgets import QCheckBox, QGridLayout, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from espalier.app.number_text import duration, plural
from espalier.app.theme import ROW
from espalier.app.translation import error_text, message, tr, translated
from espalier.app.widgets.forms.fields import Choice, Line, NumberField, set_tab_chain
from espalier.app.widgets.forms.flow_layout import FlowLayout
from espalier.app.widgets.heading import muted
from espalier.app.widgets.start_stop import show_running
from espalier.kernels.bench.request import Request
from espalier.kernels.bench.spec import KernelInfo, Lab, VersionInfo, parse_shape, shape_text
from espalier.model.errors import EspalierError, OptionsError

TYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
DEVICES = {"cpu": "CPU", "cuda": "CUDA"}
USUAL, SWEEP, OWN = "usual", "sweep", "own"
SIZES = translated({USUAL: "usual sizes", SWEEP: "a sweep of sizes", OWN: "own sizes"})
CEILINGS = 1.5  # seconds to measure the machine's ceilings
OVERHEAD = 1.6  # cold and warm calls, and setup


class KernelSetup(QWidget):
    """Emits `run_wanted` with the Request and `changed` at edits; `foot` contains the buttons."""

    run_wanted = Signal(object)
    stop_wanted = Signal()
    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._lab: Lab | None = None
        self._infos: tuple[KernelInfo, ...] = ()
        self._running = False
        self.device = Choice(tuple(DEVICES), tuple(DEVICES.values()))
        self.types = {name: QCheckBox(title) for name, title in TYPES.items()}
        self.versions: dict[str, QCheckBox] = {}
        self.sizes, self.own = Choice(tuple(SIZES), tuple(SIZES.values())), Line()
        self.seconds, self.threads = NumberField(float, 0, 60), NumberField(int, 0, 1024, zero=tr("torch's"))
        self.run_button, self.stop_button = QPushButton(tr("Run")), QPushButton(tr("Cancel"))
        self.estimate, self.lacking, self.foot = QLabel(wordWrap=True), muted(""), QWidget()
        self._versions = FlowLayout(spacing=10, between=0)
        self.seconds.put(0.2)
        self.threads.put(0)
        self._build()
        self._connect()

    # -- building

    def _build(self) -> None:
        self.device.setAccessibleName(tr("Device"))
        self.sizes.setAccessibleName(tr("Sizes"))
        self.own.setAccessibleName(tr("Own sizes"))
        self.seconds.setAccessibleName(tr("Seconds for each version"))
        self.seconds.setToolTip(tr("Time for each version at each size"))
        self.threads.setAccessibleName(tr("Threads of the CPU"))
        kinds = QHBoxLayout()
        kinds.setSpacing(10)
        for box in self.types.values():
            box.setFixedHeight(ROW)
            kinds.addWidget(box)
        kinds.addStretch(1)
        versions = QWidget()
        versions.setLayout(self._versions)
        times, counts = QHBoxLayout(), QHBoxLayout()
        for row, field, unit in (
            (times, self.seconds, tr("s for each version")),
            (counts, self.threads, tr("of the CPU")),
        ):
            field.setFixedWidth(64)
            row.setSpacing(8)
            row.addWidget(field)
            row.addWidget(muted(unit, wrap=False), 1)
        grid = QGridLayout(self)
        grid.setContentsMargins(12, 6, 12, 4)
        grid.setHorizontalSpacing(8)
        grid.setVerticalSpacing(5)
        grid.setColumnStretch(1, 1)
        rows = ((tr("Device"), self.device), (tr("Types"), kinds), (tr("Versions"), versions), ("", self.lacking),
                (tr("Sizes"), self.sizes), ("", self.own), (tr("Time"), times), (tr("Threads"), counts))  # fmt: skip
        for at, (title, part) in enumerate(rows):
            if title:
                label = muted(title, wrap=False)
                label.setFixedHeight(ROW)
                grid.addWidget(label, at, 0, Qt.AlignmentFlag.AlignTop)
            grid.addWidget(part, at, 1) if isinstance(part, QWidget) else grid.addLayout(part, at, 1)
        grid.setRowStretch(len(rows), 1)
        self.lacking.hide()
        self.own.hide()
        self._build_foot()

    def _build_foot(self) -> None:
        self.run_button.setProperty("primary", True)
        self.run_button.setToolTip(tr("Measure the selected kernels"))
        self.stop_button.setToolTip(tr("Stop the run; rows measured so far are kept"))
        self.estimate.setProperty("role", "muted")
        self.estimate.setMinimumWidth(1)
        row = QHBoxLayout()
        row.setSpacing(6)
        row.addWidget(self.run_button, 1)
        row.addWidget(self.stop_button)
        box = QVBoxLayout(self.foot)
        box.setContentsMargins(12, 4, 12, 8)
        box.setSpacing(4)
        box.addWidget(self.estimate)
        box.addLayout(row)

    def _connect(self) -> None:
        self.device.edited.connect(self._device_chosen)
        self.sizes.edited.connect(self._sizes_chosen)
        self.run_button.clicked.connect(self.run)
        self.stop_button.clicked.connect(self.stop_wanted)
        self.own.returnPressed.connect(self.run)
        for part in (self.own, self.seconds, self.threads):
            part.edited.connect(self.update_estimate)
        for box in self.types.values():
            box.toggled.connect(lambda _: self.update_estimate())

    # -- available choices

    def use(self, lab: Lab) -> None:
        """Offer the devices of this machine; unavailable ones are disabled with the reason."""
        self._lab = lab
        model = self.device.model()
        assert isinstance(model, QStandardItemModel)
        for at, name in enumerate(DEVICES):
            reason = lab.missing.get(name, "")
            model.item(at).setEnabled(not reason)
            self.device.setItemData(at, message(reason) or None, Qt.ItemDataRole.ToolTipRole)
            self.device.setItemText(at, f"{DEVICES[name]}: {message(reason)}" if reason else _machine(lab, name))
        self.device.put("cpu" if "cuda" in lab.missing else "cuda")
        cores = lab.machines.get("cpu", {}).get("cores")
        self.threads.high = float(cores or 1024)
        self.threads.setToolTip(tr("Of the CPU, up to {}; empty: torch's default", cores) if cores else "")
        self._device_chosen()

    def choose(self, infos: Sequence[KernelInfo]) -> None:
        """Set the selected kernels."""
        self._infos = tuple(infos)
        custom = self.sizes.findText(SIZES[OWN])
        model = self.sizes.model()
        assert isinstance(model, QStandardItemModel)
        model.item(custom).setEnabled(len(infos) == 1)
        if len(infos) != 1 and self.sizes.get() == OWN:
            self.sizes.put(USUAL)
        self.sizes.setItemData(
            custom, tr("Select a single kernel: sizes differ by kernel."), Qt.ItemDataRole.ToolTipRole
        )
        if len(infos) == 1:
            first = next(iter(infos[0].shapes.values()))[0]
            self.own.setPlaceholderText("x".join(map(str, first.values())))
            self.own.setToolTip(
                tr("{} or {}; separate several with spaces", shape_text(first), "x".join(map(str, first.values())))
            )
        self._offer_versions()
        self._sizes_chosen()

    def _device_chosen(self) -> None:
        default = "bfloat16" if self._device == "cuda" else "float32"
        for name, box in self.types.items():
            box.setChecked(name == default)
        self.threads.setEnabled(self._device == "cpu")
        self._offer_versions()
        self.update_estimate()

    def _sizes_chosen(self) -> None:
        self.own.setVisible(self.sizes.get() == OWN)
        self.update_estimate()

    def _offer_versions(self) -> None:
        """Show a box per version of the selected kernels; unavailable ones are disabled with the reason."""
        while (item := self._versions.takeAt(0)) is not None:
            if widget := item.widget():
                widget.hide()
                widget.deleteLater()
        by_name: dict[str, list[VersionInfo]] = {}
        for version in (v for info in self._infos for v in info.versions):
            by_name.setdefault(version.name, []).append(version)
        self.versions = {name: self._box(name, versions) for name, versions in by_name.items()}
        for box in self.versions.values():
            self._versions.addWidget(box)
        set_tab_chain(*self.types.values(), *self.versions.values(), self.sizes, self.own, self.seconds, self.threads,
              self.run_button, self.stop_button)  # fmt: skip
        lacking = {n: w for n, versions in by_name.items() if (w := _why_not(versions, self._device))}
        whys = {reason: [n for n, w in lacking.items() if w == reason] for reason in lacking.values()}
        self.lacking.setText("; ".join(f"{', '.join(names)}: {message(reason)}" for reason, names in whys.items()))
        self.lacking.setVisible(bool(lacking))

    def _box(self, name: str, versions: list[VersionInfo]) -> QCheckBox:
        box, reason = QCheckBox(name), _why_not(versions, self._device)
        box.setFixedHeight(ROW)
        box.setChecked(not reason and not all(v.optional for v in versions))
        baseline = {info.baseline for info in self._infos} == {name}
        box.setEnabled(not reason and not baseline)
        fixed = tr("always: it is the baseline of ratios") if baseline else ""
        late = tr("slow to start") if any(v.optional for v in versions) else ""
        about = tr(versions[0].about) if len({v.about for v in versions}) == 1 else ""
        box.setToolTip("\n".join(t for t in (about, fixed, late, message(reason)) if t))
        box.toggled.connect(lambda _: self.update_estimate())
        return box

    # -- request

    @property
    def _device(self) -> str:
        return str(self.device.get())

    def request(self) -> Request:
        """The Request of the fields; raises EspalierError."""
        if not self._infos:
            raise OptionsError("No kernel is selected.", "Select some at the left.")
        if self._lab and (reason := self._lab.missing.get(self._device)):
            raise OptionsError(f"Kernels cannot run on {DEVICES[self._device]}: {reason}.", "Choose the CPU.")
        dtypes = tuple(n for n, box in self.types.items() if box.isChecked())
        if not dtypes:
            raise OptionsError("No type is chosen.", "Tick fp32, bf16 or fp16.")
        return Request(tuple(i.name for i in self._infos), self._device, dtypes, self._shapes(), self._chosen(),
                       self.sizes.get() == SWEEP, self.seconds.get(), threads=self.threads.get())  # fmt: skip

    def _shapes(self) -> tuple[str, ...]:
        if self.sizes.get() != OWN:
            return ()
        texts = tuple(self.own.text().replace(";", " ").split())
        if not texts:
            raise OptionsError("No size is given.", f"Write one such as {self.own.placeholderText()}.")
        for text in texts:
            parse_shape(text, self._infos[0])
        return texts

    def _chosen(self) -> tuple[str, ...]:
        """The ticked versions; empty if they are the default ones."""
        default = {v.name for i in self._infos for v in i.versions if not v.optional}
        ticked = tuple(n for n, box in self.versions.items() if box.isChecked())
        return () if set(ticked) == default else ticked

    def run(self) -> None:
        """Emit `run_wanted` if the form is valid."""
        self.update_estimate()
        if self.run_button.isEnabled():
            self.run_wanted.emit(self.request())

    def update_estimate(self) -> None:
        """Show the estimated duration, or why the run is impossible."""
        try:
            request = self.request()
        except EspalierError as error:
            self.estimate.setText(error_text(error) if self._lab else "")
            self.run_button.setEnabled(False)
        else:
            rows, seconds = self._work(request)
            self.estimate.setText(tr("{} · about {}", plural(rows, "row"), duration(seconds)))
            self.run_button.setEnabled(not self._running)
        names = [tr(i.title) for i in self._infos]
        self.run_button.setText(tr("Run {}", plural(len(names), "kernel")) if len(names) > 1 else tr("Run"))
        self.changed.emit()

    def _work(self, request: Request) -> tuple[int, float]:
        """Number of rows and estimated seconds."""
        rows = 0
        for info in self._infos:
            shapes = len(request.shapes or (info.sweep if request.sweep else info.shapes)[request.device])
            ticked = [n for n, box in self.versions.items() if box.isChecked() and n in {v.name for v in info.versions}]
            rows += shapes * len(ticked) * sum(d in info.dtypes for d in request.dtypes)
        return rows, CEILINGS + rows * (request.seconds * OVERHEAD + 0.05)

    def show_running(self, running: bool) -> None:
        """Switch the buttons for a running or stopped run."""
        self._running = running
        show_running(self.run_button, self.stop_button, running, self.update_estimate)


def _why_not(versions: Sequence[VersionInfo], device: str) -> str:
    """Why none of the versions can run on a device; empty if one can."""
    reasons = [v.missing.get(device, "") for v in versions]
    return reasons[0] if all(reasons) else ""


def _machine(lab: Lab, device: str) -> str:
    name = str(lab.machines.get(device, {}).get("name", ""))
    return f"{DEVICES[device]}: {name}" if name else DEVICES[device]
