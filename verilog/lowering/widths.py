"""Changes of the elements and rows per beat: merging and splitting beats, and interleaving rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from espalier.verilog.design.stream import Stream

Change = tuple[Stream, Stream, np.ndarray | None]  # input, output, and the order of beats if it changes


def changes(now: Stream, par: int, tokens: int) -> list[Change]:
    """The steps of a change, each a Resize or, with an order, a Reorder of the beats of a few rows."""
    if (now.par, now.tokens) == (par, tokens):
        return []
    steps: list[Change] = []
    if now.tokens > 1:
        steps += _split_rows(now)
        now = replace(now, tokens=1)
    if now.par != par:
        steps.append((now, replace(now, par=par), None))
        now = replace(now, par=par)
    return steps + (_merge_rows(now, tokens) if tokens > 1 else [])


def _merge_rows(now: Stream, tokens: int) -> list[Change]:
    """One row per beat → several rows per beat: interleave the rows' beats, then merge them."""
    turns = _interleaved(now, tokens)
    steps = now.size // now.par
    order = np.arange(tokens * steps).reshape(tokens, steps).T.reshape(-1)
    first: list[Change] = [(now, turns, order)] if steps > 1 else []
    return [*first, (turns, replace(turns, par=turns.size), None)]


def _split_rows(now: Stream) -> list[Change]:
    """The inverse of `_merge_rows`."""
    single = replace(now, tokens=1)
    turns, steps = _interleaved(single, now.tokens), now.size // now.par
    order = np.arange(now.tokens * steps).reshape(steps, now.tokens).T.reshape(-1)
    last: list[Change] = [(turns, single, order)] if steps > 1 else []
    return [(replace(turns, par=turns.size), turns, None), *last]


def _interleaved(now: Stream, tokens: int) -> Stream:
    """The stream of the interleaved beats of `tokens` rows; a beat of each makes a row."""
    return Stream(now.elements // (tokens * now.par), tokens * now.par, now.fixed, now.par)
