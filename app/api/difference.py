"""What differs between two models, as a value of the Python interface."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import Any

from espalier.app.api.reports import Report
from espalier.app.commands.diff_costs import with_costs
from espalier.app.commands.diff_files import html_table, to_text, writer_for
from espalier.app.commands.opening import Target
from espalier.app.commands.scoring import score
from espalier.app.commands.states import NamedState, StateName, measured, state_of, stored_score
from espalier.app.figures.difference import StateComparison, compared, score_rows, table_rows, test_words
from espalier.model.document.arrangement import arrangement_of
from espalier.model.files import write_text
from espalier.model.graph.graph import Graph
from espalier.model.store.weights import WeightStore
from espalier.passes.comparison.scores import Measured
from espalier.passes.running.splits import EvaluateOptions


@dataclass(frozen=True, slots=True, repr=False)
class Difference(Report):
    """Difference of two models: `.rows` has a row a change, with `node`, `what`, `before` and `after`.

    Further keys of a row: `size_bytes` (change of the stored bytes), `distance` (‖B − A‖ / ‖A‖ of weights), `node_a`
    (the node's partner in A). `.groups` has a row for equal changes of twins, with data also what it costs alone
    (`kl`), `.scores` a row a figure. Figures:
    numbers of added, removed and changed nodes; costs of both, such as `size_bytes` and `size_bytes_before`. False if
    nothing differs.

    Example:
        d = es.diff("before.espalier", m)
        print(d)
        d.save("difference.html")
    """

    comparison: StateComparison | None = field(default=None, compare=False)

    def __bool__(self) -> bool:
        return bool(self.table)

    @property
    def groups(self) -> list[dict[str, Any]]:
        """Equal changes of twins in one: `label`, `what`, `before`, `after`, `nodes`, `size_bytes`, `distance`.

        With data also `kl`: the mean over the samples of KL(P ‖ Q) in nats, where P are A's outputs and Q those of A
        with this row alone taken from B. None, with the reason in `kl_note`, where it cannot be taken over alone.
        """
        return self.to_dict()["groups"]

    @property
    def scores(self) -> list[dict[str, Any]]:
        """A row a figure: `name`, `a`, `b`, `change`, `verdict`; of an accuracy `interval_a`, `interval_b`, `p`."""
        return self.to_dict()["score"]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON, as `espalier diff --json` prints it."""
        assert self.comparison is not None
        return self.comparison.to_dict()

    def save(self, path: str | Path) -> Path:
        """Write a .csv, .html, .json or .txt file; raises OptionsError for another ending, FileError."""
        target = Path(path).expanduser()
        write = writer_for(target)
        assert self.comparison is not None
        write_text(target, write(self.comparison))
        return target

    def __repr__(self) -> str:
        return Report.__repr__(self) if self.comparison is None else to_text(self.comparison).rstrip()

    def _repr_html_(self) -> str:
        found = self.comparison
        if found is None:
            return Report._repr_html_(self)
        words = escape(found.costs.words) if found.costs else ""
        return (f"<p><b>{found.headline}</b></p>{html_table(score_rows(found.scores))}"
                f"<p>{test_words(found.scores)}</p>{html_table(table_rows(found))}<p>{words}</p>")  # fmt: skip


@dataclass(frozen=True, slots=True)
class State:
    """One side of a comparison. `held`: keeps its model open as long as it is compared."""

    title: str
    graph: Graph
    store: WeightStore
    score: Measured
    held: object
    target: Target
    data: EvaluateOptions | None


def state(target: Target, name: StateName | None, title: str, data: str, held: object) -> State:
    """The state of an opened model that `name` names (None: the present one), measured on `data` if given."""
    project = target.project
    found = state_of(name, target) if name else NamedState(project.recipe, project.graph)
    options = EvaluateOptions(data=data) if data else None
    figures = score(found.graph, target, options) if options else None
    scored = measured(figures) if figures else stored_score(found, project)
    return State(title, found.graph, target.store, scored, held, target, options)


def difference(a: State, b: State, kl: bool) -> Difference:
    """What turned one state into the other; `kl`: with what each row costs alone, where both have data."""
    names = (a.title, b.title) if a.title != b.title else (f"{a.title} (A)", f"{b.title} (B)")
    found = compared(a.graph, b.graph, (a.store, b.store), names, (a.score, b.score))
    found = replace(found, arrangements=(arrangement_of(a.target.project), arrangement_of(b.target.project)))
    if kl and a.data is not None:
        found = with_costs(found, a.data, a.target, b.store)
    return Difference("difference", MappingProxyType(found.summary), tuple(found.diff.rows()), comparison=found)
