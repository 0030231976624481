"""The rewritings in their order, and what they changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir as ir

from espalier.passes.export.fusing import batch_norms, constants, dynamic, integer_products, layers, moved_grids, nbits, ranges, unsigned
from espalier.passes.export.fusing.values import Writer, clean

if TYPE_CHECKING:
    from espalier.passes.export.settings import Settings


def rewrite(graph: ir.Graph, settings: Settings) -> list[str]:
    """Let a session compute in integers what it can; returns what then differs from the model's own arithmetic."""
    write, exact, notes = Writer(graph), settings.exact, list[str]()
    batch_norms.fold(graph, write)
    dynamic.expand(graph, write)
    clipped = ranges.drop_clips(graph, write, exact=exact)
    whole = [] if exact else ranges.use_whole_range(graph, write)
    moved_grids.move_up(graph, write)
    ranges.relus_by_table(graph, write)
    fused, changed = layers.integer_layers(graph, write, exact=exact)
    unsigned.unsign(graph, write)
    count = 0
    if not settings.standard:
        integer_products.products(graph, write)
        count = nbits.products(graph, write, settings.accuracy_level, fused)
    constants.spread(graph, write, fused)
    clean(graph)
    if clipped:
        notes.append(f"{_counted(len(clipped), 'activation')} clip at code −128 where the format clips at −127.")
    if whole:
        notes.append(f"{_counted(len(whole), 'activation')} that are never negative use codes up to 255 where the format "
                     "clips at 127.")  # fmt: skip
    if changed:
        notes.append(f"Biases are int32 in steps of both scales: they differ by {changed:.2g} at most.")
    if count and settings.accuracy_level == 4:
        notes.append(f"{_counted(count, 'product')} of accuracy level 4 round float activations to int8 in blocks.")
    return notes


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
