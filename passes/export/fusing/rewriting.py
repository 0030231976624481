"""The rewritings in their order, and what they changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import onnx_ir as ir

from espalier.passes.export.fusing import (
    batch_norms,
    constants,
    dynamic,
    integer_products,
    layers,
    moved_grids,
    nbits,
    ranges,
    unsigned,
)
from espalier.passes.export.fusing.values import Writer, clean, layer_of, shorten, stored

if TYPE_CHECKING:
    from espalier.passes.export.settings import OnnxOptions


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What differs from the model's own arithmetic, and the module paths of the layers computed in integers."""

    changes: tuple[str, ...]
    integers: frozenset[str]


def rewrite(graph: ir.Graph, options: OnnxOptions) -> Rewritten:
    """Let a session compute in integers what it can."""
    write, exact, notes = Writer(graph), options.exact, list[str]()
    integers = dynamic.expand(graph, write)
    batch_norms.fold(graph, write)
    clipped = ranges.drop_clips(graph, write, exact=exact)
    whole = ranges.use_whole_range(graph, write) if options.clip == "code" and not exact else []
    ranges.pool_first(graph, write)
    moved_grids.move_up(graph, write, exact=exact)
    ranges.relus_by_table(graph, write)
    fused, changed = layers.integer_layers(graph, write, exact=exact)
    integers |= {path for n in fused if (path := layer_of(stored(n.inputs[1])))}
    unsigned.unsign(graph, write)
    count = 0
    if not options.standard:
        integer_products.products(graph, write)
        count = nbits.products(graph, write, options.accuracy_level, fused)
    constants.spread(graph, write, fused)
    clean(graph)
    shorten(graph)
    if clipped:
        text = f"{_counted(len(clipped), 'activation')} clip one step below the lowest value of their format"
        notes.append(f"{text} (in 8 bits at code −128, not −127).")
    if whole:
        text = f"{_counted(len(whole), 'activation')} that are never negative use codes up to 255"
        notes.append(f"{text} where the format clips at 127.")
    if changed:
        notes.append(f"Biases are int32 in steps of both scales: they differ by {changed:.2g} at most.")
    if count and options.accuracy_level > 1:
        notes.append(f"{_counted(count, 'product')} of float activations have accuracy level {options.accuracy_level}: "
                     "onnxruntime may round these activations.")  # fmt: skip
    return Rewritten(tuple(notes), frozenset(integers))


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
