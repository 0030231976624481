"""From one number of elements and rows a beat to another: merging and splitting beats, and taking rows in turns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from espalier.verilog.design.stream import Stream

Change = tuple[Stream, Stream, np.ndarray | None]  # what comes, what leaves; and the order of beats, where that changes


def changes(now: Stream, par: int, tokens: int) -> list[Change]:
    """The steps, each a Resize or, where it has an order, a Reorder of the beats of a few rows."""
    if (now.par, now.tokens) == (par, tokens):
        return []
    found: list[Change] = []
    if now.tokens > 1:
        found += _apart(now)
        now = replace(now, tokens=1)
    if now.par != par:
        found.append((now, replace(now, par=par), None))
        now = replace(now, par=par)
    return found + (_together(now, tokens) if tokens > 1 else [])


def _together(now: Stream, tokens: int) -> list[Change]:
    """A row a beat → beats of several rows: their beats in turns, then as many merged."""
    turns = _turns(now, tokens)
    steps = now.size // now.par
    order = np.arange(tokens * steps).reshape(tokens, steps).T.reshape(-1)
    first: list[Change] = [(now, turns, order)] if steps > 1 else []
    return [*first, (turns, replace(turns, par=turns.size), None)]


def _apart(now: Stream) -> list[Change]:
    """The inverse."""
    single = replace(now, tokens=1)
    turns, steps = _turns(single, now.tokens), now.size // now.par
    order = np.arange(now.tokens * steps).reshape(steps, now.tokens).T.reshape(-1)
    last: list[Change] = [(turns, single, order)] if steps > 1 else []
    return [(replace(turns, par=turns.size), turns, None), *last]


def _turns(now: Stream, tokens: int) -> Stream:
    """The beats of `tokens` rows in turns, a beat of each making a row."""
    return Stream(now.elements // (tokens * now.par), tokens * now.par, now.fixed, now.par)
