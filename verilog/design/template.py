"""What a template is: one hardware operation with its module, its memories, its integer model, its cycles and area.

Each file in verilog/templates adds the template of an operation; each in verilog/rules lowers nodes to templates.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from espalier.verilog.area.model import estimate
from espalier.verilog.area.resources import Area
from espalier.verilog.design.stream import Stream, to_text
from espalier.verilog.numbers.fixed import Codes

HOME = Path(__file__).parents[1]  # a template outside it comes from a plug-in


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """What a module reads at start: `words` [count, lanes], `width` bits a lane; `parameter` takes the file's name."""

    parameter: str
    words: Codes
    width: int

    def text(self) -> str:
        """The file's content, for $readmemh."""
        return to_text(self.words, self.width)


@dataclass(frozen=True, slots=True, eq=False)
class Engine:
    """The cycles of a module, or of a part of one: a loop of steps, one a cycle while nothing waits.

    `takes[c]` marks the steps that need a beat of channel c, `gives[c]` those that hand one to channel c, `depth`
    cycles later (all channels that it gives move together). A channel is an input ("x"), an output ("y"), or, by any
    other name, a buffer between engines of this module that holds `Template.buffers()[c]` beats.
    """

    takes: dict[str, np.ndarray]
    gives: dict[str, np.ndarray]
    depth: int

    @property
    def steps(self) -> int:
        """Steps of a frame."""
        return len(next(iter((self.takes or self.gives).values())))


@dataclass(frozen=True, kw_only=True, eq=False)
class Template(ABC):
    """One instance of a module. `node`: the graph's node that it computes (several may share one).

    Inputs are the ports x, x1, …; outputs y, y1, …, each with _data, _valid and _ready.
    """

    name: str
    node: str
    inputs: tuple[Stream, ...]
    outputs: tuple[Stream, ...]
    shape: tuple[int, ...] = field(default=())  # of the node's tensor, for the comment

    @property
    def approximates(self) -> bool:
        """Whether its results may differ from exact arithmetic rounded once: tables, roots, factors of a few bits."""
        return False

    @property
    @abstractmethod
    def module(self) -> str:
        """The SystemVerilog module."""

    @abstractmethod
    def parameters(self) -> dict[str, int]:
        """Its parameters, less those that name memory files."""

    @abstractmethod
    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """The integer model: codes [frames, rows, size] by input → by output. It is the specification."""

    @abstractmethod
    def engines(self) -> tuple[Engine, ...]:
        """How it spends its cycles."""

    def area(self) -> Area:
        """What it takes, estimated; `verilog/area` knows its module by its parameters, or that it does not."""
        return estimate(self.module, {**self.parameters(), **self.content_counts()})

    def content_counts(self) -> dict[str, int]:
        """What its area hangs on besides the parameters: how much its constants repeat."""
        return {}

    def memories(self) -> tuple[Memory, ...]:
        """Its constants."""
        return ()

    def buffers(self) -> dict[str, int]:
        """Beats that the channels between its engines hold."""
        return {}

    def primed(self) -> dict[str, int]:
        """Beats that such channels hold at the start: the free places that a writer takes and a reader gives back."""
        return {}

    def remark(self) -> str:
        """What a person should know of it, for the comment and the report."""
        return ""

    def uses(self) -> tuple[str, ...]:
        """Modules that its module instantiates, directly or not."""
        return ()

    def texts(self) -> dict[str, str]:
        """Modules that the library lacks: made for this instance, or of a plug-in, whose `.sv` lie beside its file."""
        return _beside(self)


def _beside(template: Template) -> dict[str, str]:
    file = getattr(sys.modules.get(type(template).__module__), "__file__", None)
    if file is None or HOME in Path(file).parents:
        return {}
    paths = {m: Path(file).with_name(f"{m}.sv") for m in (template.module, *template.uses())}
    return {m: path.read_text() for m, path in paths.items() if path.is_file()}


def port(letter: str, index: int) -> str:
    """x, x1, x2, …: the name of input (x) or output (y) number `index`."""
    return f"{letter}{index}" if index else letter


def total(instances: Iterable[Template]) -> Area:
    """What all of them take together."""
    return sum((i.area() for i in instances), Area())
