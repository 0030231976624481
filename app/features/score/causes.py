"""What the score says beside a cost: the weights that dominate the stored bits, and nodes that BitOPs leave out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from espalier.app.number_text import dominant_text, percent
from espalier.app.translation import message, tr
from espalier.passes.dominant import Dominants
from espalier.passes.uncounted import Uncounted, uncounted_note

if TYPE_CHECKING:
    from espalier.model.graph.graph import Graph


@dataclass(frozen=True, slots=True)
class Cause:
    """`label`: short, beside the name of the figure; `text`: a sentence for its tool tip."""

    label: str = ""
    text: str = ""


class Causes:
    """The causes of successive graphs by the keys of figures; unchanged nodes are not read again."""

    def __init__(self) -> None:
        self._dominants, self._uncounted = Dominants(), Uncounted()
        self._graph: Graph | None = None
        self._found: dict[str, Cause] = {}

    def of(self, graph: Graph | None) -> dict[str, Cause]:
        """The causes for a graph, empty without one."""
        if graph is not self._graph:
            self._graph, self._found = graph, {} if graph is None else self._read(graph)
        return self._found

    def _read(self, graph: Graph) -> dict[str, Cause]:
        found = dict[str, Cause]()
        if dominant := self._dominants.of(graph):
            found["weight_bits"] = Cause(f"{dominant.kind} {percent(dominant.share, 0)}", dominant_text(dominant))
        if nodes := self._uncounted.of(graph):
            found["bitops"] = Cause(tr("incomplete"), message(uncounted_note(nodes)))
        return found
