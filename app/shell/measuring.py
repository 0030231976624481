"""Measuring on request and after edits, and ending what runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from espalier.app.jobs.status import can_keep
from espalier.app.words import duration
from espalier.model.errors import OptionsError
from espalier.model.registry import PASSES
from espalier.passes.base import PassSpec

if TYPE_CHECKING:
    from espalier.app.measured.live import LiveMeasure
    from espalier.app.session.session import Session
    from espalier.app.shell.pass_forms import PassForms
    from espalier.passes.jobs.kinds import JobInfo


class Measuring:
    """What the menu Run does with the open model."""

    def __init__(self, session: Session, live: LiveMeasure, forms: PassForms) -> None:
        self._session, self._live, self._forms = session, live, forms

    @property
    def is_live(self) -> bool:
        """Whether every edit is measured."""
        return self._live.enabled

    def evaluate(self) -> None:
        """Measure on the data in use or the source's own, or ask which."""
        if self._session.measured_on.data:
            self._session.evaluate()
        else:
            self.evaluate_on()

    def evaluate_on(self) -> None:
        """Ask for data, then measure."""
        spec: PassSpec = PASSES.get("evaluate")
        options = self._session.measured_on

        def measure(wish: Any) -> None:
            if not wish.data:
                raise OptionsError("There is no data to measure on.", "Choose a file or folder, or name a demo.")
            self._session.evaluate(options=wish)

        self._forms.show(spec, options, measure, "Evaluate")

    def toggle_live(self) -> None:
        """Measure after every edit, or only when asked."""
        self._live.enabled = not self._live.enabled

    def live_words(self) -> str:
        """What the row of measuring after edits says: also where the model takes too long for it."""
        live, words = self._live, "Measure after every edit"
        return f"{words} (on request: about {duration(live.expected)})" if live.enabled and live.on_request else words

    def stop(self) -> None:
        """Stop the job that runs."""
        if running := self._running():
            self._session.cancel(running.id)

    def stop_and_keep(self) -> None:
        """End the training that runs, and keep the best weights so far."""
        if running := self._running():
            self._session.stop_and_keep(running.id)

    def can_stop_and_keep(self) -> bool:
        """Whether the job that runs has something to keep."""
        running = self._running()
        return running is not None and can_keep(running)

    def _running(self) -> JobInfo | None:
        return next((j for j in self._session.jobs if j.state == "running"), None)
