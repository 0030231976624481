"""Emission options; formats and parallelism are set on the graph's nodes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

from espalier.model.errors import OptionsError


@dataclass(frozen=True, slots=True)
class EmitOptions:
    """Options of the emission of a graph as hardware."""

    name: str = field(default="top", metadata={"help": "name of the top module"})
    sizes: dict[str, int] = field(
        default_factory=dict,
        metadata={"help": "sizes of the symbols in shapes, such as seq=32; others as in the trace's example"},
    )  # type: ignore[assignment]
    engine: Literal["folded", "unrolled"] = field(
        default="folded",
        metadata={
            "help": "folded: multipliers are shared; unrolled: weights become adders, one row or pixel per cycle"
        },
    )
    adders: int = field(default=4, metadata={"min": 1, "help": "unrolled: number of adders between two registers"})

    def __post_init__(self) -> None:
        if self.adders < 1:
            raise OptionsError(f"adders is {self.adders}.", "It must be 1 or more.")


KEYWORDS = frozenset((
    "always", "assign", "begin", "case", "default", "do", "else", "end", "endmodule", "for", "function", "if", "import",
    "initial", "inout", "input", "int", "integer", "logic", "module", "negedge", "output", "package", "parameter",
    "posedge", "real", "reg", "task", "time", "type", "var", "wait", "while", "wire",
))  # fmt: skip


def check_name(name: str, reserved: Collection[str]) -> None:
    """Check that a module may have this name; raises OptionsError."""
    if not (name.isascii() and name.isidentifier()) or name in KEYWORDS or name in reserved:
        reason = "is a module of the library" if name in reserved else "is not a valid module name"
        raise OptionsError(f"name: {name!r} {reason}.", "Use letters, digits and _, such as my_network.")


def sizes_in(text: str) -> dict[str, int]:
    """Parse `seq=32, rows=8` into sizes by name; raises OptionsError."""
    sizes: dict[str, int] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, _, value = part.partition("=")
        if not name.strip() or not value.strip().isdigit() or int(value) < 1:
            raise OptionsError(f"sizes has {part!r}.", "Write NAME=N with N ≥ 1, such as seq=32.")
        sizes[name.strip()] = int(value)
    return sizes
