"""What the window and the process of its console send to each other. Free of Qt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from espalier.model.document.recipe import Recipe, Step
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import TensorKey, Weight
from espalier.model.graph.node import Node
from espalier.model.sources.info import SourceInfo
from espalier.model.store.weights import Location

OUT, ERROR, ECHO, NOTE = "out", "error", "echo", "note"  # kinds of output


NO_STEPS = Recipe()


@dataclass(frozen=True, slots=True)
class GraphChange:
    """A graph as what differs from one that the receiver has; `rest`: all but nodes and weights."""

    nodes: tuple[str, ...]
    changed: Mapping[str, Node]
    weights: tuple[str, ...]
    changed_weights: Mapping[str, Weight]
    rest: Graph


def change_of(before: Graph, after: Graph) -> GraphChange:
    """What differs, by identity: an edit shares the nodes that it leaves alone."""
    nodes = {k: n for k, n in after.nodes.items() if before.nodes.get(k) is not n}
    weights = {k: w for k, w in after.weights.items() if before.weights.get(k) is not w}
    return GraphChange(tuple(after.nodes), nodes, tuple(after.weights), weights, replace(after, nodes={}, weights={}))


def changed_graph(before: Graph, change: GraphChange) -> Graph:
    """The graph after a change."""
    nodes, weights = {**before.nodes, **change.changed}, {**before.weights, **change.changed_weights}
    return replace(
        change.rest, nodes={k: nodes[k] for k in change.nodes}, weights={k: weights[k] for k in change.weights}
    )


@dataclass(frozen=True, slots=True)
class Update:
    """What changed of the open document since the last update. `document`: its number; 0: none is open.

    `base`: the graph as opened, for a document that the receiver does not know; `graph` is a change of the base for
    such a document, else of the graph before. `selections`: the saved selections as the project's file has them.
    """

    document: int = 0
    source: SourceInfo | None = None
    recipe: Recipe = NO_STEPS
    base: GraphChange | None = None
    graph: GraphChange | None = None
    locations: Mapping[TensorKey, Location] | None = None
    selections: bytes | None = None


# -- to the process


@dataclass(frozen=True, slots=True)
class Run:
    """Run a text as Python. `update`: None if nothing changed."""

    number: int
    text: str
    update: Update | None
    selection: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Interrupt:
    """Raise KeyboardInterrupt in the text of this number."""

    number: int


@dataclass(frozen=True, slots=True)
class Line:
    """A line for input(); None: the end of the input."""

    text: str | None


@dataclass(frozen=True, slots=True)
class Complete:
    """List completions of the word at the end of a text."""

    text: str


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a request: the document after it, or an error by the name of its class, message and hint."""

    update: Update | None = None
    error: tuple[str, str, str] | None = None


@dataclass(frozen=True, slots=True)
class Quit:
    """End the process, and delete its temporary files."""


# -- to the window


@dataclass(frozen=True, slots=True)
class Ready:
    """The process takes texts."""


@dataclass(frozen=True, slots=True)
class Output:
    """Text of a stream: OUT or ERROR."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The text of this number has ended."""

    number: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """input() waits for a line."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a measurement in the console is."""

    done: int
    total: int
    text: str


@dataclass(frozen=True, slots=True)
class Completions:
    """Completions of the last `length` characters of `text`."""

    text: str
    length: int
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Edit:
    """Append steps to the document's recipe, or let them replace it."""

    steps: tuple[Step, ...]
    replaces: bool = False


@dataclass(frozen=True, slots=True)
class Move:
    """Undo (negative) or redo as many edits."""

    count: int


@dataclass(frozen=True, slots=True)
class Choose:
    """Select nodes."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeepSelections:
    """Replace the saved selections."""

    selections: dict[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class SaveCopy:
    """Save a copy of the document."""

    path: Path


@dataclass(frozen=True, slots=True)
class Withdraw:
    """The request that waits for its reply was interrupted."""


Request = Edit | Move | Choose | KeepSelections | SaveCopy
