"""Sweep files: a head line and one JSON line per point; truncation loses only incomplete points."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from espalier.model.borders import parse_json, read_bytes, reading, tried
from espalier.model.document.codec import decode, encode
from espalier.model.document.project import recipe_from_json, recipe_to_json
from espalier.model.document.recipe import Recipe
from espalier.model.errors import OptionsError
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.sweep.results import BASELINE, Outcome
from espalier.passes.sweep.sweep import Axis, Sweep, Variant

VERSION = 1
FOLDER = "sweeps/"
MAX_BYTES = 256 << 20  # of a journal


@dataclass(frozen=True, slots=True)
class Journal:
    """A sweep and the outcomes of its points so far."""

    sweep: Sweep
    outcomes: tuple[Outcome, ...] = ()


def sweep_to_json(sweep: Sweep) -> dict[str, Any]:
    """Plain JSON of a sweep."""
    return {
        "version": VERSION, "title": sweep.title, "recipe": recipe_to_json(sweep.recipe),
        "axis": encode(sweep.axis), "along": encode(sweep.along), "variants": encode(sweep.variants),
        "seeds": list(sweep.seeds), "score": encode(sweep.score),
        "baseline": recipe_to_json(sweep.baseline),
    }  # fmt: skip


def sweep_from_json(data: dict[str, Any]) -> Sweep:
    """A sweep from plain JSON; raises OptionsError."""
    if data.get("version") != VERSION:
        raise OptionsError(f"The sweep is of version {data.get('version')}.", "Open it with a newer Espalier.")
    return Sweep(
        recipe_from_json(data["recipe"]),
        decode(Axis | None, data.get("axis"), "axis"),
        decode(tuple[Axis, ...], data.get("along", []), "along"),
        decode(tuple[Variant, ...], data["variants"], "variants"),
        decode(tuple[int, ...], data["seeds"], "seeds"),
        decode(EvaluateOptions, data["score"], "score"),
        decode(str, data.get("title", ""), "title"),
        recipe_from_json(data["baseline"]) if "baseline" in data else Recipe(),
    )


def head_line(sweep: Sweep) -> str:
    """The head line."""
    return json.dumps({"sweep": sweep_to_json(sweep)}, separators=(",", ":"), ensure_ascii=False)


def line(outcome: Outcome) -> str:
    """The line of a point."""
    return json.dumps(encode(outcome), separators=(",", ":"), ensure_ascii=False)


def dump(journal: Journal) -> bytes:
    """A journal as bytes."""
    return "\n".join([head_line(journal.sweep), *map(line, journal.outcomes), ""]).encode()


def load(text: str | bytes) -> Journal:
    """Parse a journal, without damaged lines. Raises OptionsError if the head cannot be read."""
    head, *rest = (text.encode() if isinstance(text, str) else text).split(b"\n")
    with reading("The record of a sweep", OptionsError, "cannot be read", "It is unchanged."):
        sweep = sweep_from_json(parse_json(head)["sweep"])
    outcomes: dict[tuple[int, int, int], Outcome] = {}
    for outcome in filter(None, map(_outcome, filter(bytes.strip, rest))):
        if _is_point(sweep, outcome):
            outcomes[outcome.place] = outcome
    return Journal(sweep, tuple(outcomes.values()))


def _is_point(sweep: Sweep, outcome: Outcome) -> bool:
    """Whether the sweep has such a point."""
    if outcome.variant == BASELINE:
        return True
    values = len(sweep.values) if sweep.axis else 1
    return 0 <= outcome.variant < len(sweep.variants) and 0 <= outcome.x < values


def _outcome(text: bytes) -> Outcome | None:
    """Parse a line; None for a truncated one, whose point runs again."""
    return tried(lambda: decode(Outcome, parse_json(text), "point"), None)


def read(path: Path) -> Journal | None:
    """The journal of a file; None if it is missing or unreadable."""
    return tried(lambda: load(read_bytes(path, MAX_BYTES)), None)


def journals(extras: dict[str, bytes]) -> dict[str, Journal]:
    """The readable sweeps of a project's further members, by member."""
    loaded = ((n, tried(lambda d=d: load(d), None)) for n, d in sorted(extras.items()) if n.startswith(FOLDER))
    return {name: journal for name, journal in loaded if journal}


def member(extras: Iterable[str]) -> str:
    """An unused member name for a sweep."""
    taken = set(extras)
    return next(n for i in range(1, len(taken) + 2) if (n := f"{FOLDER}{i:03d}.jsonl") not in taken)
