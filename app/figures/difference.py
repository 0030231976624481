"""The comparison of two states as values to show: differences, groups of twins, scores. Free of Qt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from espalier.app.number_text import THIN, cell, count, figure, mebibytes, percent, plural, scaled, signed, time_text
from espalier.app.translation import tr, translated
from espalier.model.document.arrangement import UNARRANGED, Arrangement
from espalier.model.errors import FormatError
from espalier.model.formats.base import parse_format
from espalier.model.graph.graph import Graph
from espalier.model.store.weights import WeightStore
from espalier.passes.analysis.change_divergence import RowDivergence
from espalier.passes.comparison.changes import FLOAT, Change, Kind, Value
from espalier.passes.comparison.diff import GraphDiff, compare_graphs
from espalier.passes.comparison.groups import Group, node_path
from espalier.passes.comparison.scores import Measured, ScoreRow, compare_scores
from espalier.passes.score import static_score
from espalier.passes.sensitivity.outputs import WORDS
from espalier.passes.tasks.base import all_metrics

Row = dict[str, Any]
COST = tr("KL alone")
ROW_KL = tr("KL(A ‖ A with that row of B)")
SHORT = {
    WORDS["classes"]: tr("{}, nats a sample", ROW_KL),
    WORDS["distributions"]: tr("{}, nats, mean over a sample's rows", ROW_KL),
    WORDS["values"]: tr("squared error of A with that row of B over twice the variance of A"),
}
TESTS = {
    "McNemar": tr("paired, McNemar"),
    "paired t": tr("paired t-test"),
    "Newcombe": tr("not paired, Newcombe's interval"),
    "unpaired intervals": tr("not paired, from both intervals"),
}
SCORED = ("A", "B", "B − A", "verdict")  # columns of the table of metrics
FIGURES = ("size_bytes", "weight_bits", "activation_bits", "sparsity", "bitops")
TITLES = translated({
    "accuracy": "accuracy", "loss": "loss", "kl": "KL from opened", "size_bytes": "size",
    "weight_bits": "weight bits", "activation_bits": "activation bits", "sparsity": "sparsity",
    "activation_sparsity": "activation sparsity", "bitops": "BitOPs", "memory_density": "memory density",
    "latency": "latency, measured",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class RowCosts:
    """What each row costs alone, by its index among the groups: the divergence of A with that row taken from B, from A.

    `n`: samples; `what`: the measure, with its unit; `together`: of all rows, None where it cannot be measured or is
    not yet. Rows that are not measured yet are missing.
    """

    rows: Mapping[int, RowDivergence]
    n: int = 0
    what: str = ""
    together: float | None = None

    @property
    def words(self) -> str:
        """What the column says: measure, direction, number of samples, all rows together."""
        parts = [tr("KL alone: {}", SHORT.get(self.what, ROW_KL))]
        parts += [f"n = {count(self.n)}"] if self.n else []
        parts += [tr("all rows {}", figure(self.together))] if self.together is not None else []
        return " · ".join(parts)

    def value(self, index: int) -> float | str:
        """The cell of a row: its divergence, why it has none, or `…` while it is not measured."""
        row = self.rows.get(index)
        if row is None:
            return "…"
        return row.kl if row.kl is not None else row.note.rstrip(".")

    def text(self, index: int) -> str:
        """The same as a text."""
        value = self.value(index)
        return value if isinstance(value, str) else figure(value)


@dataclass(frozen=True)
class StateComparison:
    """States A and B, named, with their graphs and what differs. `costs`: what each row costs alone, if measured.

    `arrangements`: pins and frames of each, where its graph is drawn.
    """

    name_a: str
    name_b: str
    a: Graph
    b: Graph
    diff: GraphDiff
    scores: tuple[ScoreRow, ...]
    costs: RowCosts | None = None
    arrangements: tuple[Arrangement, Arrangement] = (UNARRANGED, UNARRANGED)

    def __bool__(self) -> bool:
        return bool(self.diff)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """Equal changes of twins in one."""
        return self.diff.groups(self.a, self.b)

    @property
    def summary(self) -> dict[str, Any]:
        """Numbers of nodes by what happened to them; costs of both."""
        diff = self.diff
        figures: dict[str, Any] = {
            "added": len(diff.added), "removed": len(diff.removed), "changed": len(diff.changed),
            "changes": len(diff.changes), "renamed": diff.renamed, "paired": len(diff.pairing.pairs),
        }  # fmt: skip
        for row in self.scores:
            if row.name in FIGURES:
                figures |= {row.name: row.b, f"{row.name}_before": row.a}
        return figures

    @property
    def headline(self) -> str:
        """`48 nodes · 60 changes · same structure otherwise`."""
        diff = self.diff
        if not diff:
            return tr("Nothing differs in {}.", plural(len(self.b), "node")) if not diff.renamed else (
                tr("Nothing differs but the names of {}.", plural(diff.renamed, "node"))
            )  # fmt: skip
        parts = [tr("{} changed", plural(len(diff.changed), "node")), plural(len(diff.changes), "change")]
        parts += [tr("{} added", len(diff.added))] if diff.added else []
        parts += [tr("{} removed", len(diff.removed))] if diff.removed else []
        parts += [tr("{} paired", len(diff.pairing.pairs))] if diff.renamed else []
        return " · ".join([*parts, "other structure" if diff.rewired else "same structure otherwise"])

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON: a, b, summary, added, removed, changed (a row a change), groups, score."""
        rows = self.diff.rows()
        return {
            "a": self.name_a,
            "b": self.name_b,
            "summary": self.summary,
            "rows": rows,
            "added": list(self.diff.added),
            "removed": list(self.diff.removed),
            "changed": [r for r in rows if r["what"] not in ("added", "removed")],
            "groups": [group_row(g) | self._cost(i) for i, g in enumerate(self.groups)],
            "score": [row.to_json() for row in self.scores],
            **self._costs_json(),
        }

    def _cost(self, index: int) -> Row:
        """`kl` of a group and, where it has none, `kl_note`; nothing where nothing was measured."""
        row = self.costs.rows.get(index) if self.costs else None
        return {} if row is None else {"kl": row.kl, "kl_note": row.note or None}

    def _costs_json(self) -> Row:
        if (costs := self.costs) is None:
            return {}
        return {"kl": {"what": costs.what, "of": tr("A with that row of B"), "baseline": "A", "n": costs.n,
                       "together": costs.together}}  # fmt: skip

    def cost_of(self, change: Change) -> RowDivergence | None:
        """What the row costs that a change is in."""
        return self._by_change.get((change.kind, change.what, change.node))

    @cached_property
    def _by_change(self) -> dict[tuple[str, str, str], RowDivergence]:
        rows = self.costs.rows if self.costs else {}
        return {(g.kind, g.what, n): rows[i] for i, g in enumerate(self.groups) if i in rows for n in g.nodes}


def compared(
    before: Graph, after: Graph, stores: tuple[WeightStore, WeightStore] | None = None,
    names: tuple[str, str] = ("A", "B"), measured: tuple[Measured, Measured] | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> StateComparison:  # fmt: skip
    """Compare two graphs; with both stores, by how much weights moved. `measured`: scores of both, else costs alone.

    `stop()` true ends the reading of weights.
    """
    measured = measured or (Measured(static_score(before)), Measured(static_score(after)))
    diff = compare_graphs(before, after, stores, stop)
    return StateComparison(*names, before, after, diff, compare_scores(*measured))


def group_row(group: Group) -> Row:
    """A group as JSON: label, what, before, after, nodes, size_bytes, distance."""
    return {"label": group.label, "what": group.what, "before": group.a, "after": group.b, "nodes": list(group.nodes),
            "size_bytes": group.size_bytes, "distance": group.distance}  # fmt: skip


def marked_nodes(diff: GraphDiff) -> tuple[frozenset[str], frozenset[str]]:
    """Nodes of A and of B that differ: changed, removed or added."""
    changed = frozenset(diff.changed)
    return (frozenset(diff.removed) | {diff.pairing.pairs[n] for n in changed}, changed | frozenset(diff.added))


# -- texts


def value_text(kind: Kind, value: Value) -> str:
    """A value of a change as a table shows it: formats by their labels, ratios in per cent."""
    if value is None:
        return "–"
    if kind in ("format", "granularity"):
        return format_label(str(value))
    if kind == "sparsity" and isinstance(value, float):
        return percent(value, 0 if round(100 * value, 1).is_integer() else 1)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return figure(value) if isinstance(value, float) else str(value) or "none"


def format_label(text: str) -> str:
    """The label of a format, `int8 channel`; other text unchanged."""
    if text == FLOAT:
        return text
    try:
        return parse_format(text).label
    except FormatError:
        return text


def bytes_text(size: int | None) -> str:
    """`−1.69 MiB`, `+312 B`; empty where nothing is stored otherwise."""
    if not size:
        return "" if size is None else "±0"
    text = f"{abs(size)}{THIN}B" if abs(size) < 1024 else mebibytes(abs(size))
    return f"{'+' if size > 0 else '−'}{text}"


def table_rows(comparison: StateComparison, *, grouped: bool = True) -> list[Row]:
    """A row a group, or a change: node, what, A, B, size, nodes; texts but for the number of nodes.

    Groups have a column for what they cost alone, where that is measured.
    """
    if grouped:
        costs = comparison.costs
        return [{"node": g.label, "what": g.what, "A": value_text(g.kind, g.a), "B": value_text(g.kind, g.b),
                 "size": bytes_text(g.size_bytes), **({COST: costs.text(i)} if costs else {}), "nodes": len(g.nodes)}
                for i, g in enumerate(comparison.groups)]  # fmt: skip
    graphs = comparison.a, comparison.b
    return [{"node": node_path(graphs[c.kind != "removed"][c.node]), "what": c.what, "A": value_text(c.kind, c.a),
             "B": value_text(c.kind, c.b), "size": bytes_text(c.size_bytes), "nodes": 1}
            for c in comparison.diff.changes]  # fmt: skip


def score_texts(row: ScoreRow) -> tuple[str, str, str, str]:
    """A figure of A and of B, B − A, and the verdict."""
    a, b = (figure_text(row.name, v) for v in (row.a, row.b))
    if row.interval_a and row.interval_b and row.a is not None and row.b is not None:
        a, b = (f"{t} ±{_reach_text(row.name, max(v - low, high - v))}" for t, v, (low, high) in
                ((a, row.a, row.interval_a), (b, row.b, row.interval_b)))  # fmt: skip
    change = "" if row.change is None else change_text(row)
    return a, b, change, row.verdict


def _is_share(name: str) -> bool:
    metric = all_metrics().get(name)
    return name in ("accuracy", "sparsity", "activation_sparsity") or (metric is not None and metric.share)


def _reach_text(name: str, reach: float) -> str:
    """Half an interval: of shares in points."""
    return f"{100 * reach:.1f}" if _is_share(name) else cell(float(f"{reach:.2g}"))


def title_of(name: str) -> str:
    """How a figure is called."""
    metric = all_metrics().get(name)
    return TITLES.get(name) or (tr(metric.title) if metric else name)


def figure_text(name: str, value: float | None) -> str:
    """A figure with its unit; `not measured` for None."""
    if value is None:
        return tr("not measured")
    if _is_share(name):
        return percent(value)
    match name:
        case "size_bytes":
            return mebibytes(value)
        case "bitops":
            return scaled(value)
        case "latency":
            return time_text(value)
        case "loss" | "kl":
            return f"{value:.4f}".replace("-", "−")
        case "weight_bits" | "activation_bits" | "memory_density":
            return f"{value:.2f}"
        case _:
            return f"{value:.4g}".replace("-", "−")


def change_text(row: ScoreRow) -> str:
    """B − A: of shares in points, of sizes and BitOPs in bytes or per cent."""
    change = row.change or 0.0
    reach = f" ±{_reach_text(row.name, row.reach)}" if row.reach is not None else ""
    if _is_share(row.name):
        return f"{signed(100 * change, 1)}{reach}"
    match row.name:
        case "size_bytes":
            return bytes_text(round(change))
        case "bitops" | "latency":
            return f"{signed(100 * change / row.a, 1)}{THIN}%" if row.a else signed(change, 0)
        case "loss" | "kl":
            return signed(change, 4)
        case "weight_bits" | "activation_bits" | "memory_density":
            return signed(change, 2)
        case _:
            return f"{change:+.3g}".replace("-", "−") + reach if change else "±0"


def test_words(rows: Iterable[ScoreRow]) -> str:
    """`± 95 % · n = 1 000 · paired, McNemar p = 0.37`; empty without two measured main metrics."""
    row = next((r for r in rows if r.test), None)
    if row is None:
        return ""
    test = TESTS.get(row.test, row.test) + (f" p = {figure(row.p)}" if row.p is not None else "")
    return f"± 95{THIN}% · n = {count(row.n)} · {test}"


def score_rows(scores: Sequence[ScoreRow]) -> list[Row]:
    """A row a figure: figure, A, B, B − A, verdict, as texts."""
    return [{"figure": title_of(r.name), **dict(zip(SCORED, score_texts(r), strict=True))}
            for r in scores]  # fmt: skip
