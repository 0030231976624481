"""The links of this machine below the choice of a device: what was measured, its age, and the button that measures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QVBoxLayout, QWidget

from espalier.app.commands.console import age, big
from espalier.app.features.deploy.state import LINKS
from espalier.app.number_text import data_size
from espalier.app.translation import tr
from espalier.app.widgets.heading import link, muted
from espalier.passes.base import NoOptions
from espalier.passes.sharding.links import stored_links
from espalier.passes.sharding.presets import PRESETS

if TYPE_CHECKING:
    from espalier.app.features.deploy.state import Deployment

TIP = (tr("Time collectives between two processes of this machine, and a product and a copy, in about 15 s. Plans with "
       "the device `this` and predictions of runs then have its links."))  # fmt: skip


class MachineRow(QWidget):
    """A text and a button; shown below the choice of a device."""

    def __init__(self, deployment: Deployment) -> None:
        super().__init__()
        self._deployment = deployment
        self._read: object = self  # the report after which the stored links were read
        self._links, self._ignored = None, ""
        self.words, self.measure = muted(""), link(tr("Measure this machine"), self.run)
        self.words.setWordWrap(True)
        self.words.setMinimumWidth(1)
        self.measure.setToolTip(TIP)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2)
        column.addWidget(self.words)
        column.addWidget(self.measure, 0, Qt.AlignmentFlag.AlignLeft)

    def run(self) -> None:
        """Measure this machine as a job."""
        self._deployment.ask(LINKS, NoOptions())

    def refresh(self, can_run: bool) -> None:
        """Show the stored figures; the file is read again after a measurement."""
        report = self._deployment.reports.get(LINKS)
        if self._read is not report:
            self._read = report
            found = [stored_links(backend) for backend in ("nccl", "gloo")]
            self._links = next((links for links, _ in found if links is not None), None)
            self._ignored = " ".join(dict.fromkeys(why for _, why in found if why))
        self.measure.setEnabled(can_run)
        self.words.setText(self._text(report.summary if report else None))
        self.words.setToolTip(self._links.about if self._links else "")

    def _text(self, summary: dict[str, Any] | None) -> str:
        links = self._links
        if links is None:
            latency, rate = PRESETS["cpu"].inside
            assumed = tr("This machine: links not measured, {} assumed", _link(latency, rate))
            return self._ignored or assumed
        parts = [tr("This machine: links {} ({})", _link(links.latency, links.rate), links.backend)]
        if summary:
            parts.append(
                tr(
                    "{}FLOP/s, copies {}B/s, memory {}",
                    big(summary["flops"]),
                    big(summary["bandwidth"]),
                    data_size(summary["memory_bytes"]),
                )
            )
        return "; ".join((*parts, f"measured {age(links.time)}"))


def _link(latency: float, rate: float) -> str:
    return f"{latency * 1e6:.3g} µs, {big(rate)}B/s"
