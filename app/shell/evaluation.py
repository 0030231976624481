"""Evaluation on request and after edits, and stopping the running job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from espalier.app.jobs.status import can_keep
from espalier.app.number_text import duration
from espalier.app.translation import tr
from espalier.model.errors import OptionsError
from espalier.model.registry import PASSES
from espalier.passes.base import PassSpec

if TYPE_CHECKING:
    from espalier.app.measured.live import LiveMeasure
    from espalier.app.session.session import Session
    from espalier.app.shell.pass_forms import PassForms
    from espalier.passes.jobs.kinds import JobInfo


class Evaluation:
    """The actions of the menu Run."""

    def __init__(self, session: Session, live: LiveMeasure, forms: PassForms) -> None:
        self._session, self._live, self._forms = session, live, forms

    @property
    def is_live(self) -> bool:
        """Whether the model is measured after every edit."""
        return self._live.enabled

    def evaluate(self) -> None:
        """Measure on the data in use, else on the source's own; ask if there is none."""
        if self._session.measured_on.data:
            self._session.evaluate()
        else:
            self.evaluate_on()

    def evaluate_on(self) -> None:
        """Ask for data, then measure."""
        spec: PassSpec = PASSES.get("evaluate")

        def measure(options: Any) -> None:
            if not options.data:
                raise OptionsError("There is no data to measure on.", "Choose a file or folder, or name a demo.")
            self._session.evaluate(options=options)

        self._forms.show(spec, self._session.measured_on, measure, tr("Evaluate"))

    def toggle_live(self) -> None:
        """Switch measuring after every edit on or off."""
        self._live.enabled = not self._live.enabled

    def live_title(self) -> str:
        """The title of the action "live"; names the expected time if that is too long to measure after every edit."""
        live, title = self._live, tr("Measure after every edit")
        return (
            tr("{} (on request: about {})", title, duration(live.expected))
            if live.enabled and live.on_request
            else title
        )

    def stop(self) -> None:
        """Stop the running job."""
        if running := self._running():
            self._session.cancel(running.id)

    def stop_and_keep(self) -> None:
        """Stop the running training and keep its best weights so far."""
        if running := self._running():
            self._session.stop_and_keep(running.id)

    def can_stop_and_keep(self) -> bool:
        """Whether the running job has partial results to keep."""
        running = self._running()
        return running is not None and can_keep(running)

    def _running(self) -> JobInfo | None:
        return next((j for j in self._session.jobs if j.state == "running"), None)
