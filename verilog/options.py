"""What a person chooses of the hardware besides the formats, which lie on the graph's ports."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class EmitOptions:
    """How a graph becomes hardware."""

    name: str = field(default="top", metadata={"help": "name of the top module"})
    sizes: dict[str, int] = field(
        default_factory=dict,
        metadata={"help": "sizes of the symbols in shapes, such as seq=32; others as in the trace's example"},
    )  # type: ignore[assignment]
