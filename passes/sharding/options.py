"""Options of a plan."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from espalier.model.errors import OptionsError, nearest
from espalier.model.graph.graph import Graph
from espalier.passes.choices.shard import mesh_text
from espalier.passes.sharding.presets import MEASURED, PRESETS

UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12,
         "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ShardPlanOptions:
    """What is planned for which devices."""

    mesh: str = field(default="2x2", metadata={"help": "sizes of one or two axes, such as 4 or 2x4", "read": mesh_text})
    device: str = field(
        default="h100", metadata={"help": "preset of the devices and their links", "names": (*PRESETS, MEASURED)}
    )
    training: bool = field(default=False, metadata={"help": "plan a training step instead of a forward run"})
    optimiser: Literal["adam", "sgd"] = field(
        default="adam", metadata={"help": "whose state counts in training: adam 8 bytes per parameter, sgd none"}
    )
    memory: str = field(default="", metadata={"help": "of each device, such as 16GiB (default: the preset's)"})
    rates: str = field(
        default="", metadata={"help": "bytes per second of the links of each axis, such as 10e9,100e9 "
                                      "(default: the preset's)"}
    )  # fmt: skip
    batch_size: int = field(default=32, metadata={"min": 1, "max": 1 << 20, "help": "samples of the whole mesh"})
    sizes: str = field(default="", metadata={"help": "other sizes than those of the trace, such as seq=512"})
    dtype: Literal["", "float32", "bfloat16"] = field(
        default="", metadata={"help": "count floats in this type (default: as traced)"}
    )
    formats: bool = field(default=True, metadata={"help": "move quantised values in the bits of their formats"})
    stages: int = field(default=1, metadata={"min": 1, "max": 1024, "help": "pipeline stages, along the first axis"})
    micro_batches: int = field(default=8, metadata={"min": 1, "max": 4096, "help": "of a pipeline"})


def memory_of(text: str) -> float:
    """Bytes of "16GiB", "80 GB" or "4096"; raises OptionsError."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?\s*", text.lower())
    if not found or float(found[1]) <= 0:
        raise OptionsError(f"memory is {text!r}.", "Write an amount such as 16GiB or 80GB.")
    return float(found[1]) * UNITS[found[2] or ""]


def sizes_of(options: ShardPlanOptions, graph: Graph) -> dict[str, int]:
    """The sizes of the model's symbols; raises OptionsError for unknown ones."""
    from espalier.verilog.design.options import sizes_in

    given = sizes_in(options.sizes)
    for name in given:
        if name not in graph.symbols:
            hint = nearest(name, graph.symbols) if graph.symbols else "All of its sizes are fixed."
            raise OptionsError(f"The model has no size {name!r}.", hint)
    return graph.symbols | {s: options.batch_size for s in batch_symbols(graph)} | given


def batch_symbols(graph: Graph) -> frozenset[str]:
    """The symbols of the batch."""
    return frozenset(s for s in graph.symbols if s == "batch" or s.startswith("batch_"))
