"""What devices send one another, as the edges of the graph show it. Free of Qt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from espalier.app.canvas.transfers import Transfer
from espalier.app.number_text import data_size
from espalier.passes.sharding.drawn import Moved, Sent


def transfers_of(moved: Iterable[Moved]) -> tuple[Transfer, ...]:
    """A transfer for each collective of the tensors that are redistributed."""
    return tuple(each for move in moved for each in _transfers(move))


def _transfers(move: Moved) -> Iterator[Transfer]:
    what = f"{move.weight}: " if move.weight else ""
    placements = f"{what}{move.before} → {move.after}"
    for sent, of in [*((s, placements) for s in move.sent), *((s, f"{what}gradient") for s in move.gradient)]:
        told = f"{of} · {sent.collective} {_size(sent, move.format)}"
        yield Transfer(move.source, move.user, sent.collective, sent.bytes * sent.times, told)


def _size(sent: Sent, fmt: str) -> str:
    """`1.50 MiB`, with what a format makes of it: `1.50 MiB, 0.38 MiB as int8`."""
    times = f"{sent.times} × " if sent.times > 1 else ""
    wire = f", {times}{data_size(sent.wire)} as {fmt}" if fmt and sent.wire != sent.bytes else ""
    return f"{times}{data_size(sent.bytes)}{wire}"
