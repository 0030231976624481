"""Base class of templates: a hardware operation with its module, memories, integer model, cycles and area.

Each file in verilog/templates defines the template of an operation; each in verilog/rules lowers nodes to templates.
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
    """An initialised memory: `words` [count, lanes] of `width` bits per lane; `parameter` takes the file's name."""

    parameter: str
    words: Codes
    width: int

    def text(self) -> str:
        """Content of the $readmemh file."""
        return to_text(self.words, self.width)


@dataclass(frozen=True, slots=True, eq=False)
class Engine:
    """Cycle model of a module or a part of one: a loop of steps, one per cycle without stalls.

    `takes[c]` marks the steps that consume a beat of channel c, `gives[c]` those that produce one on channel c, `depth`
    cycles later (all output channels of an engine move together). A channel is an input ("x"), an output ("y"), or, by
    any other name, a buffer of `Template.buffers()[c]` beats between engines of this module.
    """

    takes: dict[str, np.ndarray]
    gives: dict[str, np.ndarray]
    depth: int

    @property
    def steps(self) -> int:
        """Steps per frame."""
        return len(next(iter((self.takes or self.gives).values())))


@dataclass(frozen=True, kw_only=True, eq=False)
class Template(ABC):
    """An instance of a module. `node`: the graph node that it computes, which other instances may share.

    Inputs are the ports x, x1, …; outputs y, y1, …, each with _data, _valid and _ready.
    """

    name: str
    node: str
    inputs: tuple[Stream, ...]
    outputs: tuple[Stream, ...]
    shape: tuple[int, ...] = field(default=())  # of the node's tensor, for the comment

    @property
    def approximates(self) -> bool:
        """Whether results may differ from exact arithmetic rounded once: tables, roots, scales of few bits."""
        return False

    @property
    @abstractmethod
    def module(self) -> str:
        """Name of the SystemVerilog module."""

    @abstractmethod
    def parameters(self) -> dict[str, int]:
        """Module parameters other than memory files."""

    @abstractmethod
    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """Integer model, the specification: codes [frames, rows, size] of the inputs → those of the outputs."""

    @abstractmethod
    def engines(self) -> tuple[Engine, ...]:
        """Cycle model."""

    def area(self) -> Area:
        """Estimated resources, from the area model of the module; `unknown` without one."""
        return estimate(self.module, {**self.parameters(), **self.content_counts()})

    def content_counts(self) -> dict[str, int]:
        """Inputs of the area model besides the parameters, such as the distinct words of its constants."""
        return {}

    def memories(self) -> tuple[Memory, ...]:
        """Initialised memories."""
        return ()

    def buffers(self) -> dict[str, int]:
        """Capacity in beats of the channels between its engines."""
        return {}

    def primed(self) -> dict[str, int]:
        """Initial beats of those channels, such as the credits that a writer takes and a reader returns."""
        return {}

    def remark(self) -> str:
        """A note for the comment in the top module and the report."""
        return ""

    def uses(self) -> tuple[str, ...]:
        """Modules that its module instantiates, directly or indirectly."""
        return ()

    def texts(self) -> dict[str, str]:
        """Texts of modules outside the library: generated, or the `.sv` files beside a plug-in's file."""
        return _plugin_texts(self)


def _plugin_texts(template: Template) -> dict[str, str]:
    file = getattr(sys.modules.get(type(template).__module__), "__file__", None)
    if file is None or HOME in Path(file).parents:
        return {}
    paths = {m: Path(file).with_name(f"{m}.sv") for m in (template.module, *template.uses())}
    return {m: path.read_text() for m, path in paths.items() if path.is_file()}


def port(letter: str, index: int) -> str:
    """Port name of input (x) or output (y) number `index`: x, x1, x2, …"""
    return f"{letter}{index}" if index else letter


def total(instances: Iterable[Template]) -> Area:
    """Total area of the instances."""
    return sum((i.area() for i in instances), Area())
