"""Write on a node: a title, a note, a colour. Nothing that the model computes changes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from espalier.model.graph.annotation import Annotation, Colour
from espalier.model.graph.graph import Graph, Node
from espalier.passes.edits.base import EDITS, Edit

if TYPE_CHECKING:
    from espalier.passes.base import Context


@dataclass(frozen=True, slots=True)
class Written(Edit):
    """An edit of what is written on a node. It works on any node, of recorded models too."""

    writes: ClassVar[bool] = True

    def able(self, node: Node, graph: Graph) -> bool:
        """Any node."""
        return True

    def annotated(self, present: Annotation) -> Annotation:
        """The annotation after the edit; raises OptionsError for a text that cannot be one."""
        raise NotImplementedError

    def apply(self, graph: Graph, target: Node, context: Context) -> Graph:
        """The graph with the node's other annotation; raises OptionsError."""
        return graph.replace(replace(target, annotation=self.annotated(target.annotation)))


@EDITS.register("rename")
@dataclass(frozen=True, slots=True)
class Rename(Written):
    """The node is shown under another title; its id, by which recipes name it, stays."""

    tag: ClassVar[str] = "rename"
    title: ClassVar[str] = "Rename"

    name: str = field(default="", metadata={"help": "the title that is shown; empty: the node's own name"})

    def describe(self) -> str:
        """`is called "first layer"`."""
        return f'is called "{self.name}"' if self.name else "has its own name again"

    def annotated(self, present: Annotation) -> Annotation:
        """With the other title."""
        return replace(present, title=self.name.strip())


@EDITS.register("note")
@dataclass(frozen=True, slots=True)
class Note(Written):
    """The node has a note, which its tool tip and the inspector show."""

    tag: ClassVar[str] = "note"
    title: ClassVar[str] = "Note"

    text: str = field(default="", metadata={"help": "the note; empty: none"})

    def describe(self) -> str:
        """The first words of the note."""
        first = self.text.strip().partition("\n")[0]
        return f"note: {first if len(first) <= 40 else first[:39] + '…'}" if first else "without a note"

    def annotated(self, present: Annotation) -> Annotation:
        """With the other note."""
        return replace(present, note=self.text.strip())


@EDITS.register("tag")
@dataclass(frozen=True, slots=True)
class Tag(Written):
    """The node's card has a coloured mark."""

    tag: ClassVar[str] = "tag"
    title: ClassVar[str] = "Colour tag"

    colour: Colour = field(default="", metadata={"help": "colour of the mark; empty: none"})

    def describe(self) -> str:
        """`tagged red`."""
        return f"tagged {self.colour}" if self.colour else "without a tag"

    def annotated(self, present: Annotation) -> Annotation:
        """With the other colour."""
        return replace(present, colour=self.colour)
