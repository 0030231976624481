"""`Model.selections`: the saved selections of a model's project, as a mapping."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping
from typing import TYPE_CHECKING

from espalier.model.document.selections import selections_of, with_selection
from espalier.model.errors import GraphError, OptionsError, nearest

if TYPE_CHECKING:
    from espalier.model.document.project import Project
    from espalier.model.graph.node import Node


class SavedSelections(MutableMapping[str, tuple[str, ...]]):
    """Name → node ids, in the order in which they were saved; undone with `undo`, saved with `save`.

    Values are ids, nodes, or what `nodes` returns. Raises OptionsError for a name that is empty, longer than 80
    characters or not of one line, and for no nodes; GraphError for an id that the graph lacks, with the nearest.
    """

    def __init__(self, project: Callable[[], Project], keep: Callable[[dict[str, tuple[str, ...]]], object]) -> None:
        self._project, self._keep = project, keep

    @property
    def _held(self) -> dict[str, tuple[str, ...]]:
        return selections_of(self._project())

    def __getitem__(self, name: str) -> tuple[str, ...]:
        if name not in (held := self._held):
            raise UnknownSelectionError(f"There is no saved selection {name!r}.", nearest(str(name), held))
        return held[name]

    def __setitem__(self, name: str, nodes: str | Iterable[str | Node]) -> None:
        graph = self._project().graph
        listed = [nodes] if isinstance(nodes, str) else list(nodes)
        ids = [n if isinstance(n, str) else n.id for n in listed]
        for name_ in ids:
            if name_ not in graph.nodes:
                raise GraphError(f"There is no node {name_!r}.", nearest(name_, graph.nodes))
        self._keep(with_selection(self._held, name, ids))

    def __delitem__(self, name: str) -> None:
        self[name]
        self._keep({n: ids for n, ids in self._held.items() if n != name})

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)

    def __repr__(self) -> str:
        return repr(self._held)


class UnknownSelectionError(OptionsError, KeyError):
    """There is no saved selection of that name."""

    __str__ = OptionsError.__str__
