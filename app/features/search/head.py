"""The head of a study: its name, progress, best trial and actions."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QMenu, QPushButton, QVBoxLayout, QWidget

from espalier.app.features.search.state.study import ASKED
from espalier.app.features.search.state.texts import best_text, pace_text
from espalier.app.jobs.status import status_text
from espalier.app.number_text import count, duration, left, plural
from espalier.app.translation import tr
from espalier.app.widgets.forms.fields import Choice
from espalier.app.widgets.forms.flow_layout import FlowLayout
from espalier.app.widgets.heading import Elided, link, warning
from espalier.app.widgets.progress import Bar

if TYPE_CHECKING:
    from espalier.app.features.search.state.searches import Study
    from espalier.passes.search.trial import Trial

NAME = 220
HEIRS = {"pause": "again", "again": "pause", "on": "pause"}  # links that take the focus of a hidden one
RECENT = 200  # number of recent trials for the pace
MORE = 20  # trials that "Go on" adds to a finished study


MENU = (
    ("hand", tr("Add the present configuration as a trial"), tr("The present configuration competes in this search")),
    ("repeat", tr("Repeat with other seeds…"), tr("Repeat the search with other seeds to measure the noise")),
    ("form", tr("Show its form"), tr("Show its space and goals in the form, to edit and run as another study")),
    ("", "", ""),
    ("save", tr("Save the trials…"), tr("The shown trials as CSV")),
    ("spec", tr("Save the search…"), tr("A TOML file that the command line runs as well")),
    ("", "", ""),
    ("remove", tr("Remove"), tr("Remove this study, also from the project")),
)


class SearchHead(QWidget):
    """`wanted`: an action on the shown study, by name; `chosen`: the name of another study."""

    chosen = Signal(str)
    wanted = Signal(str)
    compared = Signal(tuple)  # the names of the compared studies

    def __init__(self) -> None:
        super().__init__()
        self.studies = Choice()
        self.studies.setAccessibleName(tr("Study"))
        self.studies.setMinimumWidth(110)
        self.studies.setMaximumWidth(NAME)
        self.status, self.best, self.wrong = Elided("", "muted", 40), QLabel(), warning()
        self.bar = Bar()
        self.links: dict[str, QPushButton] = {}
        actions = {
            "pause": (tr("Pause"), tr("Pause after the running trial")),
            "again": (tr("Continue"), tr("Continue the search")),
            "after": (tr("Stop after this trial"), tr("Stop after the running trial")),
            "stop": (tr("Stop"), tr("End the search now; the running trial is given up")),
            "on": (tr("Go on"), tr("Run further trials of this search")),
        }
        for name, (title, tip) in actions.items():
            button = self.links[name] = link(title, lambda n=name: self.wanted.emit(n))
            button.setToolTip(tip)
        self.menu = QMenu(self)
        self.menu.setToolTipsVisible(True)
        for name, title, tip in MENU:
            if not name:
                self.menu.addSeparator()
                continue
            self.menu.addAction(title, lambda n=name: self.wanted.emit(n)).setToolTip(tip)
        self.more = link(tr("More ▾"), self._open)
        self.others = QMenu(self)
        self.compare = link(tr("Compare ▾"), self._open_others)
        self.compare.setToolTip(
            tr("Several studies by one metric; those that differ only in their seed as mean and deviation")
        )
        self.apply = QPushButton(tr("Apply the best"))
        self.apply.setToolTip(tr("Make the best trial's configuration the recipe, in one step that can be undone"))
        self.apply.clicked.connect(lambda: self.wanted.emit("apply"))
        self.studies.edited.connect(lambda: self.chosen.emit(self.studies.get()))
        self._arrange()

    def _open(self) -> None:
        self.menu.popup(self.more.mapToGlobal(self.more.rect().bottomLeft()))

    def _open_others(self) -> None:
        self.others.popup(self.compare.mapToGlobal(self.compare.rect().bottomLeft()))

    def _arrange(self) -> None:
        top = FlowLayout()
        top.setContentsMargins(12, 6, 12, 0)
        for part in (self.studies, self.status, *self.links.values(), self.compare, self.more):
            top.addWidget(part)
        row = QHBoxLayout()
        row.setContentsMargins(12, 0, 12, 0)
        row.addWidget(self.best, 1)
        row.addWidget(self.apply)
        self.best.setProperty("role", "strong")
        self.best.setMinimumWidth(1)
        self.best.setWordWrap(True)
        self.wrong.setContentsMargins(12, 0, 12, 0)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 2)
        box.setSpacing(3)
        box.addLayout(top)
        box.addWidget(self.bar)
        box.addLayout(row)
        box.addWidget(self.wrong)

    def offer(self, names: tuple[str, ...]) -> None:
        """Set the available studies; unticked ones stay unticked."""
        self.studies.offer(names)
        out = {a.text() for a in self.others.actions() if not a.isChecked()}
        self.others.clear()
        for name in names:
            action = self.others.addAction(name)
            action.setCheckable(True)
            action.setChecked(name not in out)
            action.toggled.connect(lambda _: self.compared.emit(self.together))
        self.compare.setVisible(len(names) > 1)

    @property
    def together(self) -> tuple[str, ...]:
        """The compared studies."""
        return tuple(a.text() for a in self.others.actions() if a.isChecked())

    def show_study(self, study: Study | None) -> None:
        """Show the state of a study."""
        running = study is not None and study.running
        paused = study is not None and study.paused
        live = running and not paused and study is not None and not study.ending
        self._offer_links({"pause": live, "again": paused, "after": live, "stop": running,
                           "on": study is not None and not running})  # fmt: skip
        self.bar.setVisible(running)
        self.more.setVisible(study is not None)
        self.studies.setVisible(study is not None)
        self.wrong.setVisible(bool(study and study.error))
        leader = study.leader if study else None
        self.apply.setVisible(leader is not None)
        if study is None:
            self.status.show_text("")
            self.best.setText("")
            return
        missing = study.spec.trials - study.done
        self.links["on"].setText(tr("Go on") if missing > 0 else tr("{} more trials", MORE))
        self.status.show_text(progress_text(study, time.monotonic()))
        self.best.setText(_leads(study, leader) if leader else _none(study))
        kept_text = tr(" The trials so far are kept.") if study.done else ""
        self.wrong.setText(f"{study.error}{kept_text}" if study.error else "")
        self.bar.show_done(min(study.done, study.spec.trials), max(study.spec.trials, 1))

    def _offer_links(self, visible: dict[str, bool]) -> None:
        """Show these links; the focus of a hidden link does not move to Stop beside it."""
        focused = next((n for n, b in self.links.items() if b.hasFocus()), "")
        for name in sorted(visible, key=lambda n: not visible[n]):  # show links before hiding others
            if name == focused and not visible[name]:
                heir = HEIRS.get(name, "")
                (self.links[heir] if visible.get(heir) else self.studies).setFocus()
            self.links[name].setVisible(visible[name])


def _leads(study: Study, leader: Trial) -> str:
    return best_text(study.spec, leader, study.baseline, len(study.best), study.against)


def _none(study: Study) -> str:
    """The reason why there is no best trial."""
    if not study.done:
        return tr("No trial has finished yet.") if study.running else tr("No trials yet.")
    outside = sum(t.state == "complete" for t in study.trials.values())
    return (
        tr("No trial meets the constraints yet: {} outside.", plural(outside, "trial"))
        if outside
        else tr("No trial has succeeded.")
    )


def progress_text(study: Study, now: float) -> str:
    """`37 of 50 trials · 2 failed · 42 trials a minute · 12 s left`."""
    trials = study.trials.values()
    failed = sum(t.state == "failed" and not t.lost for t in trials)
    unmeasured = sum(t.unmeasured for t in trials)
    early = sum(t.state == "pruned" and t.counts for t in trials)
    twice = sum(t.reused and not t.unmeasured for t in trials)
    kinds = (
        tr("{} failed", failed) if failed else "",
        plural(twice, "duplicate") if twice else "",
        tr("{} not measured", unmeasured) if unmeasured else "",
        tr("{} ended early", early) if early else "",
    )
    total = max(study.spec.trials, study.done)  # the project may have been saved before more trials were requested
    parts = [tr("{} of {}", count(study.done), plural(total, "trial")),
             *kinds, *_doing(study, now)]  # fmt: skip
    return " · ".join(w for w in parts if w)


def _doing(study: Study, now: float) -> list[str]:
    job = study.job
    begun = [tr("went on from trial {}", study.went_on)] if study.went_on is not None else []
    if study.paused:
        return [*begun, tr("paused")]
    if job is None:
        return [
            *begun,
            tr("ended: {}", study.end_reason)
            if study.end_reason not in ("", ASKED) and study.done < study.spec.trials
            else "",
        ]
    if study.ending:
        return [*begun, tr("ends after this trial")]
    if job.state == "waiting" or not any(n > (-1 if study.went_on is None else study.went_on) for n in study.trials):
        return [*begun, status_text(job, now)]  # preparations before the first trial
    recent = [t for n in sorted(study.trials)[-RECENT:] if (t := study.trials[n]).seconds and t.state != "failed"]
    rest = study.spec.trials - study.done
    each = sum(t.seconds or 0.0 for t in recent) / len(recent) if recent else None
    eta = left(each * rest) if each and rest > 0 else "" if each else duration(job.worked(now))
    if study.spec.timeout and each:
        eta = left(min(each * rest, max(study.spec.timeout - job.worked(now), 0.0)))
    return [*begun, pace_text(recent), eta]
