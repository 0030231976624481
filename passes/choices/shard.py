"""Options of the step `shard`: a strategy over a mesh, or placements for selected nodes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

from espalier.model.errors import OptionsError
from espalier.passes.select import Select

STRATEGIES = ("auto", "megatron", "data", "fsdp", "replicated")
Shape = int | str | tuple[int, ...]  # of a mesh: 2, "2x4" or (2, 4)
_PORT = re.compile(r"([a-z_]+\d*)\s*=\s*((?:R|P|S\d)(?:\s*,\s*(?:R|P|S\d))*)")


def mesh_text(shape: Shape) -> Any:
    """A mesh as text: 2 is "2", (2, 4) is "2x4"; anything else as it is."""
    if isinstance(shape, int) and not isinstance(shape, bool):
        return str(shape)
    return "x".join(map(str, shape)) if isinstance(shape, list | tuple) else shape


@dataclass(frozen=True, slots=True)
class ShardRule:
    """Placements of some nodes, instead of those of the strategy."""

    select: Select = field(default_factory=Select, metadata={"help": "the nodes"})
    placements: str = field(
        default="",
        metadata={"help": "per port one per axis: weight=R,S0 data_out=S0,S2 (R replicated, S split, P sum)"},
    )

    def ports(self, axes: int) -> dict[str, tuple[str, ...]]:
        """Port → placement per axis; raises OptionsError."""
        found: dict[str, tuple[str, ...]] = {}
        for word in self.placements.split():
            match = _PORT.fullmatch(word)
            if match is None:
                raise OptionsError(f"{word!r} is no placement.", "Write port=placements, such as weight=R,S0.")
            texts = tuple(t.strip() for t in match[2].split(","))
            if len(texts) != axes:
                raise OptionsError(f"{word!r} has {len(texts)} placements; the mesh has {axes} axes.",
                                   "Give one placement per axis.")  # fmt: skip
            found[match[1]] = texts
        return found


@dataclass(frozen=True, slots=True)
class ShardOptions:
    """How the model's tensors are distributed over a mesh of devices."""

    mesh: str = field(default="1x2", metadata={"help": "sizes of one or two axes, such as 4 or 2x2", "read": mesh_text})
    strategy: Literal["auto", "megatron", "data", "fsdp", "replicated"] = field(
        default="auto", metadata={"help": "auto: the plan of least estimated time"}
    )
    device: str = field(default="cpu", metadata={"help": "preset whose speed and links the plan assumes"})
    rates: str = field(
        default="", metadata={"help": "bytes per second of the links of each axis (default: the preset's)"}
    )
    batch_size: int = field(default=8, metadata={"min": 1, "help": "samples of the whole mesh"})
    training: bool = field(default=False, metadata={"help": "plan a training step instead of a forward run"})
    memory: str = field(default="", metadata={"help": "of each device, such as 16GiB (default: the preset's)"})
    sizes: str = field(default="", metadata={"help": "other sizes than those of the trace, such as seq=512"})
    rules: tuple[ShardRule, ...] = field(
        default=(), metadata={"help": "placements for groups of nodes, over those of the strategy; the last applies"}
    )
