"""Arranges sensitivities as rows and columns of a heat map, with titles. No Qt."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from functools import lru_cache
from typing import Literal

from espalier.app.figures.facts import node_path
from espalier.app.translation import tr
from espalier.model.formats.base import Format, parameters
from espalier.model.graph.graph import Graph, Node
from espalier.passes.sensitivity.table import Candidate, Sensitivity

FLOAT_BITS = 32.0
PORTS: dict[str, tuple[str, ...]] = {
    "weights": ("weight", "bias"),
    "activations": ("data_in", "data_out"),
    "both": ("weight", "bias", "data_in", "data_out"),
}
Order = Literal["model", "sensitivity"]
LEAST = 1e-8  # smaller divergences count as 0


@dataclass(frozen=True, slots=True)
class Column:
    """A candidate without fitted parameters; `bits`: stored bits of an element."""

    key: Hashable
    title: str
    bits: float


@dataclass(frozen=True, slots=True)
class Line:
    """A row with its title and the index of its candidate for each column; a block heading has no row.

    `port` is shown beside the title if rows of several ports are shown.
    """

    title: str
    port: str = ""
    row: Sensitivity | None = None
    places: tuple[int | None, ...] = ()
    path: str = ""  # full name: titles repeat between blocks

    def known(self, column: int) -> float | None:
        """The divergence at a column: measured, else predicted."""
        place = self.place(column)
        return None if self.row is None or place is None else self.row.known[place]

    def measured(self, column: int) -> bool:
        """Whether the divergence at a column is measured."""
        place = self.place(column)
        return self.row is not None and place is not None and self.row.measured[place] is not None

    def candidate(self, column: int) -> Candidate | None:
        """The candidate at a column."""
        place = self.place(column)
        return None if self.row is None or place is None else self.row.candidates[place]

    def place(self, column: int) -> int | None:
        """The index of the candidate at a column."""
        return self.places[column] if self.row is not None else None


@dataclass(frozen=True, slots=True)
class Heat:
    """Content of a heat map; `low` and `high`: divergences at the ends of the colour scale."""

    columns: tuple[Column, ...] = ()
    lines: tuple[Line, ...] = ()
    low: float = LEAST
    high: float = 1.0

    def position(self, value: float) -> float:
        """Position of a divergence on the colour scale, 0 … 1."""
        span = math.log(self.high / self.low)
        return min(max(math.log(max(value, LEAST) / self.low) / span, 0.0), 1.0) if span > 0 else 0.0


@lru_cache(maxsize=1 << 16)
def bare(candidate: Candidate) -> Hashable:
    """Key that is equal for candidates that differ only in fitted parameters."""
    fmt = candidate.format
    return (fmt and _unfitted(fmt)), candidate.sparsity, candidate.method if candidate.sparsity else ""


def _unfitted(fmt: Format) -> Hashable:
    """Key of a format without the parameter that shifts its range."""
    return fmt.name, tuple((n, v) for n, v in parameters(fmt).items() if n != fmt.shift)


def title_of(candidate: Candidate) -> str:
    """Title without fitted parameters: `int 4`, `mxfp e2m1`, `50% l1`, `float`."""
    fmt = candidate.format
    if fmt is None:
        return candidate.label
    name = f"int {getattr(fmt, 'width', '')}" if fmt.name == "integer" else _plain(fmt).label
    return f"{name} · {replace(candidate, format=None).label}" if candidate.sparsity else name


def _plain(fmt: Format) -> Format:
    """The format with its default range."""
    default = {f.name: f.default for f in fields(fmt) if f.name == fmt.shift and f.default is not MISSING}
    return replace(fmt, **default)


def bits_of(candidate: Candidate) -> float:
    """Stored bits of an element, scaled by the kept share."""
    bits = candidate.format.bits if candidate.format else FLOAT_BITS
    return bits * (1 - candidate.sparsity)


def columns_of(rows: Iterable[Sensitivity]) -> tuple[Column, ...]:
    """One column per candidate, sorted by descending bits."""
    columns: dict[Hashable, Column] = {}
    for row in rows:
        for candidate in row.candidates:
            key = bare(candidate)
            if key not in columns:
                columns[key] = Column(key, title_of(candidate), bits_of(candidate))
    return tuple(sorted(columns.values(), key=lambda c: -c.bits))


def arrange(
    table: Sequence[Sensitivity],
    graph: Graph,
    ports: str = "weights",
    order: Order = "model",
    only: Collection[str] | None = None,
) -> Heat:
    """Arrange the rows of some ports, and `only` of some nodes; rows of missing nodes are omitted."""
    rows = [r for r in table if r.port in PORTS[ports] and r.node in graph.nodes and (only is None or r.node in only)]
    columns = columns_of(rows)
    several = len({r.port for r in rows}) > 1
    indices = {(r.node, r.port): _places(r, columns) for r in rows}
    nodes = {r.node: graph.nodes[r.node] for r in rows}
    if order == "sensitivity":
        rows.sort(key=height, reverse=True)
        lines = [_line(nodes[r.node], r, "", several, indices[r.node, r.port]) for r in rows]
    else:
        lines = list(_grouped(rows, nodes, indices, several))
    values = [v for r in rows for v in r.known if LEAST < v < math.inf]
    return Heat(columns, tuple(lines), max(min(values, default=LEAST), LEAST), max(values, default=1.0))


def height(row: Sensitivity) -> float:
    """Overall sensitivity of a row: mean logarithm of its divergences."""
    logs = [math.log(min(max(v, LEAST), 1 / LEAST)) for v in row.known]
    return sum(logs) / len(logs) if logs else -math.inf


def _places(row: Sensitivity, columns: Sequence[Column]) -> tuple[int | None, ...]:
    by_key = {bare(c): i for i, c in enumerate(row.candidates)}
    return tuple(by_key.get(c.key) for c in columns)


def _grouped(
    rows: Sequence[Sensitivity],
    nodes: dict[str, Node],
    indices: dict[tuple[str, str], tuple[int | None, ...]],
    several: bool,
) -> Iterable[Line]:
    """Lines under headings of the repeated blocks, if there are any."""
    blocks = {name: block_of(node) for name, node in nodes.items()}
    heads = any(blocks.values())
    last: str | None = None
    for row in rows:
        block = blocks[row.node]
        if heads and block != last:
            yield Line(block or tr("outside the blocks"))
            last = block
        yield _line(nodes[row.node], row, block, several, indices[row.node, row.port])


def _line(node: Node, row: Sensitivity, block: str, several: bool, places: tuple[int | None, ...]) -> Line:
    path = node_path(node)
    short = path.removeprefix(f"{block}.").removeprefix(f"{block} · ") if block else path
    return Line(short, row.port if several else "", row, places, path)


def block_of(node: Node) -> str:
    """The repeated block of a node by the number in its path, such as `encoder.layer.3`; else empty."""
    path = node.target if node.call == "call_module" else node.module_path
    parts = path.split(".")
    at = next((i for i, part in enumerate(parts[:-1] if node.call == "call_module" else parts) if part.isdigit()), None)
    return "" if at is None else ".".join(parts[: at + 1])


def divergence_text(value: float | None) -> str:
    """Format a divergence briefly: 0.012, 3.4e−5, `exact` for 0."""
    if value is None:
        return tr("unknown")
    if value <= 0:
        return tr("exact")
    if not math.isfinite(value):
        return tr("all lost")
    if value >= 10:
        return f"{value:.0f}"
    text = f"{value:.2g}" if value >= 0.001 else f"{value:.0e}" if value < 1e-8 else f"{value:.1e}"
    return text.replace("e-0", "e-").replace("-", "−")
