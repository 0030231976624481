"""What the card of a fold tells: the bits of its groups' weights, and which groups differ in choices."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from espalier.app.canvas.colouring import Colouring
from espalier.app.canvas.fold_card import BEHIND, FOLD, OPEN_ALL, card_size, link_rect
from espalier.app.canvas.folding import Fold
from espalier.app.canvas.hierarchy import Hierarchy
from espalier.app.canvas.node_metrics import NodeMetrics, adapter, amount
from espalier.model.graph.graph import Graph

KINDS = ("format", "sparsity", "adapter", "muted nodes")  # of choices, in the order in which they are named
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
        rows = {member: sorted(tree.members(member)) for member in fold.chain.members}
        unlike = _differing(tree, rows, figures, graph)
        bits = tuple(_mean(figures.bits[rows[member]]) for member in fold.members)
        parameters = sum(figures.group(tree, member).parameters for member in fold.members)
        own = tuple((k, unlike[member]) for k, member in enumerate(fold.members) if member in unlike)
        return cls(fold.chain.numbers[fold.first : fold.last], bits, parameters, own, bool(unlike))

    def counts(self) -> tuple[str, ...]:
        """`85.1 M parameters · same structure`, and a shorter form; `identical` if no group of the chain differs."""
        same = "same structure" if self.chain_differs else "identical"
        size = f"{amount(self.parameters)} parameters" if self.parameters else ""
        return tuple(dict.fromkeys((" · ".join(filter(None, (size, same))), same)))

    def differences(self) -> str:
        """`3 differ: 0 format, 7 sparsity, 11 format`; empty if none differs."""
        if not self.differing:
            return ""
        verb = "differs" if len(self.differing) == 1 else "differ"
        named = [f"{self.numbers[k]} {' and '.join(kinds)}" for k, kinds in self.differing[:NAMED]]
        more = [f"{len(self.differing) - NAMED} more"] if len(self.differing) > NAMED else []
        return f"{len(self.differing)} {verb}: {', '.join(named + more)}"

    def told(self, bar: int) -> str:
        """The tool tip of a bar: the number, its mean bits, and what differs."""
        mean = f"{self.bits[bar]:.3g} bits mean" if self.bits[bar] == self.bits[bar] else "no weights"
        kinds = dict(self.differing).get(bar, ())
        return f"{self.numbers[bar]} · {mean}" + (f" · differs in {' and '.join(kinds)}" if kinds else "")


def links_of(fold: Fold) -> dict[str, tuple[float, float, float, float]]:
    """The links on the card of a fold and their rectangles, relative to the card."""
    width, height = (size - BEHIND for size in card_size(len(fold.members), fold.title))
    names = (OPEN_ALL,) if fold.is_whole else (OPEN_ALL, FOLD)
    return {name: link_rect(name, width, height) for name in names}


def bar_colours(tree: Hierarchy, fold: Fold, figures: NodeMetrics, colours: Colouring) -> tuple[str, ...]:
    """The colour of each bar: of the mean value of its nodes, else of the operation with most parameters."""
    return tuple(main_colour(figures.group(tree, member).rows, figures, colours) for member in fold.members)


def main_colour(rows: np.ndarray, figures: NodeMetrics, colours: Colouring) -> str:
    """The colour of the mean value of some nodes, else of the operation with most parameters."""
    code = colours.code_of(rows)
    if code is None and colours.values is None and len(rows):
        code = int(colours.codes[rows[int(np.argmax(np.nan_to_num(figures.parameters[rows])))]])
    return colours.colours[code if code is not None else -1]


def _mean(bits: np.ndarray) -> float:
    known = bits[~np.isnan(bits)]
    return float(known.mean()) if len(known) else float("nan")


def _differing(
    tree: Hierarchy, rows: dict[int, list[int]], figures: NodeMetrics, graph: Graph
) -> dict[int, tuple[str, ...]]:
    """Group → the kinds of choices in which it differs from most groups of its chain."""
    muted = {g: tuple(graph.nodes[tree.ids[i]].annotation.muted for i in numbers) for g, numbers in rows.items()}
    if len({(tuple(figures.choices[i] for i in numbers), muted[g]) for g, numbers in rows.items()}) == 1:
        return {}
    found: dict[int, list[str]] = {}
    choices = {g: _choices(tree, numbers, graph) for g, numbers in rows.items()}
    for k, kind in enumerate(KINDS):
        counts = Counter(c[k] for c in choices.values())
        if len(counts) > 1:
            most = counts.most_common(1)[0][0]
            for g, chosen in choices.items():
                if chosen[k] != most:
                    found.setdefault(g, []).append(kind)
    return {g: tuple(kinds) for g, kinds in found.items()}


def _choices(tree: Hierarchy, numbers: list[int], graph: Graph) -> tuple[object, ...]:
    """The choices of a group's nodes, by KINDS."""
    nodes = [graph.nodes[tree.ids[i]] for i in numbers]
    return (
        tuple(tuple(sorted((p, str(v.format)) for p, v in n.precision.items())) for n in nodes),
        tuple(tuple(sorted((p, round(v.ratio, 4)) for p, v in n.sparsity.items())) for n in nodes),
        tuple(adapter(n) for n in nodes),
        tuple(n.annotation.muted for n in nodes),
    )
