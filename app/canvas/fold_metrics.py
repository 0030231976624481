"""What the card of a fold tells: the bits of its groups' weights, and which groups differ in choices."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from espalier.app.canvas.colouring import Colouring
from espalier.app.canvas.fold_card import BEHIND, FOLD, OPEN_ALL, card_size, link_rect
from espalier.app.canvas.folding import Fold
from espalier.app.canvas.hierarchy import Chain, Hierarchy
from espalier.app.canvas.node_metrics import NodeMetrics, adapter, amount
from espalier.app.translation import tr
from espalier.model.graph.graph import Graph

KINDS = ("format", "sparsity", "adapter", tr("muted nodes"))  # of choices, in the order in which they are named
NAMED = 3  # groups that the card names


@dataclass(frozen=True, slots=True)
class FoldMetrics:
    """By group of the fold: its number and mean weight bits (NaN without weights); those that differ, with what in.

    A group differs if its choices are not those of most groups of the chain. `chain_differs`: whether any group of the
    chain does.
    """

    numbers: tuple[str, ...]
    bits: tuple[float, ...]
    parameters: int
    differing: tuple[tuple[int, tuple[str, ...]], ...]
    chain_differs: bool

    @classmethod
    def of(cls, tree: Hierarchy, fold: Fold, figures: NodeMetrics, graph: Graph) -> FoldMetrics:
        """The metrics of `fold`."""
        rows = chain_rows(tree, fold.chain)
        unlike = _differing(tree, rows, figures, graph)
        own = rows[fold.first : fold.last]
        parameters = int(np.nansum(figures.parameters[own]))
        differing = tuple((k - fold.first, unlike[k]) for k in sorted(unlike) if fold.first <= k < fold.last)
        numbers = fold.chain.numbers[fold.first : fold.last]
        return cls(numbers, tuple(_means(figures.bits[own]).tolist()), parameters, differing, bool(unlike))

    def counts(self) -> tuple[str, ...]:
        """`85.1 M parameters · same structure`, and a shorter form; `identical` if no group of the chain differs."""
        same = tr("same structure") if self.chain_differs else tr("identical")
        size = tr("{} parameters", amount(self.parameters)) if self.parameters else ""
        return tuple(dict.fromkeys((" · ".join(filter(None, (size, same))), same)))

    def differences(self) -> str:
        """`3 differ: 0 format, 7 sparsity, 11 format`; empty if none differs."""
        if not self.differing:
            return ""
        named = [f"{self.numbers[k]} {tr(' and ').join(map(tr, kinds))}" for k, kinds in self.differing[:NAMED]]
        more = [tr("{} more", len(self.differing) - NAMED)] if len(self.differing) > NAMED else []
        listed = ", ".join(named + more)
        several = len(self.differing) > 1
        return tr("{} differ: {}", len(self.differing), listed) if several else tr("1 differs: {}", listed)

    def told(self, bar: int) -> str:
        """The tool tip of a bar: the number, its mean bits, and what differs."""
        mean = tr("{:.3g} bits mean", self.bits[bar]) if self.bits[bar] == self.bits[bar] else tr("no weights")
        kinds = dict(self.differing).get(bar, ())
        return f"{self.numbers[bar]} · {mean}" + (
            tr(" · differs in {}", tr(" and ").join(map(tr, kinds))) if kinds else ""
        )


def links_of(fold: Fold) -> dict[str, tuple[float, float, float, float]]:
    """The links on the card of a fold and their rectangles, relative to the card."""
    width, height = (size - BEHIND for size in card_size(len(fold.members), fold.title))
    names = (OPEN_ALL,) if fold.is_whole else (OPEN_ALL, FOLD)
    return {name: link_rect(name, width, height) for name in names}


def chain_rows(tree: Hierarchy, chain: Chain) -> NDArray[np.int64]:
    """The nodes of each group of a chain [groups, nodes], in graph order, so that equal columns do the same."""
    rows = tree.chain_rows.get(chain.members[0])
    if rows is None:
        rows = np.array([sorted(tree.members(member)) for member in chain.members], np.int64)
        tree.chain_rows[chain.members[0]] = rows
    return rows


def bar_colours(tree: Hierarchy, fold: Fold, figures: NodeMetrics, colours: Colouring) -> tuple[str, ...]:
    """The colour of each bar: of the mean value of its nodes, else of the operation with most parameters."""
    rows = chain_rows(tree, fold.chain)[fold.first : fold.last]
    if colours.values is None:
        most = np.nan_to_num(figures.parameters[rows]).argmax(axis=1)
        codes = colours.codes[rows[np.arange(len(rows)), most]]
    else:
        codes = colours.codes_of(colours.values[rows])
    return tuple(colours.colours[code] for code in codes.tolist())


def main_colour(rows: NDArray[np.int64], figures: NodeMetrics, colours: Colouring) -> str:
    """The colour of the mean value of some nodes, else of the operation with most parameters."""
    code = colours.code_of(rows)
    if code is None and colours.values is None and len(rows):
        code = int(colours.codes[rows[int(np.argmax(np.nan_to_num(figures.parameters[rows])))]])
    return colours.colours[code if code is not None else -1]


def _means(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of the known values of each row; NaN where there are none."""
    known = ~np.isnan(values)
    counts = known.sum(axis=1)
    return np.where(counts > 0, np.nansum(values, axis=1) / np.maximum(counts, 1), np.nan)


def _differing(
    tree: Hierarchy, rows: NDArray[np.int64], figures: NodeMetrics, graph: Graph
) -> dict[int, tuple[str, ...]]:
    """Place in the chain → the kinds of choices in which a group differs from most of them."""
    marks = np.hstack([figures.choices[rows], figures.muted[rows]])
    if (marks == marks[:1]).all():
        return {}
    _, first, kind_of, times = np.unique(marks, axis=0, return_index=True, return_inverse=True, return_counts=True)
    kinds = [_choices(tree, rows[k].tolist(), graph) for k in first.tolist()]
    usual = []
    for k in range(len(KINDS)):
        counts: Counter[object] = Counter()
        for chosen, count in zip(kinds, times.tolist(), strict=True):
            counts[chosen[k]] += count
        usual.append(counts.most_common(1)[0][0])
    unlike = [tuple(n for n, c, u in zip(KINDS, chosen, usual, strict=True) if c != u) for chosen in kinds]
    return {k: unlike[kind] for k, kind in enumerate(kind_of.reshape(-1).tolist()) if unlike[kind]}


def _choices(tree: Hierarchy, numbers: list[int], graph: Graph) -> tuple[object, ...]:
    """The choices of a group's nodes, by KINDS."""
    nodes = [graph.nodes[tree.ids[i]] for i in numbers]
    return (
        tuple(tuple(sorted((p, str(v.format)) for p, v in n.precision.items())) for n in nodes),
        tuple(tuple(sorted((p, round(v.ratio, 4)) for p, v in n.sparsity.items())) for n in nodes),
        tuple(adapter(n) for n in nodes),
        tuple(n.annotation.muted for n in nodes),
    )
