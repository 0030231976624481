"""A study as the window keeps it with its project: what was asked for and what came, to be shown without Optuna.

Its journal, which the search itself goes on from, lies beside it. One head line, then a line a trial; a later line of
the same number holds.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from espalier.app.number_text import plural
from espalier.model.borders import parse_json, reading, tried
from espalier.model.document.codec import decode, encode
from espalier.model.document.project import recipe_from_json, recipe_to_json
from espalier.model.document.recipe import Recipe
from espalier.model.errors import EspalierError, OptionsError
from espalier.passes.search.project_studies import FOLDER, member
from espalier.passes.search.space import Space
from espalier.passes.search.spec import SearchSpec
from espalier.passes.search.trial import Trial

VERSION = 1
MOST_TOLD = 3
ENDING = ".trials.jsonl"


@dataclass(frozen=True, slots=True)
class Record:
    """A study: the search, the recipe that it begins with, its choices, its trials, and the id by which it is known.

    `damaged`: how many lines of it could not be read.
    """

    spec: SearchSpec
    recipe: Recipe
    space: Space | None = None
    trials: tuple[Trial, ...] = ()
    key: str = ""
    baseline: dict[str, float] = field(default_factory=dict[str, float])
    against: dict[str, Any] = field(default_factory=dict[str, Any])
    damaged: int = 0


def member_of(name: str) -> str:
    """The member of the project that keeps a study's record."""
    return member(name).rpartition(".")[0] + ENDING


def name_of(held: str) -> str:
    """The study of a member that `member_of` gave."""
    from urllib.parse import unquote

    return unquote(held.removeprefix(FOLDER).removesuffix(ENDING))


def head_line(record: Record) -> str:
    """The first line: all but the trials."""
    head = {
        "version": VERSION, "spec": encode(record.spec), "recipe": recipe_to_json(record.recipe), "key": record.key,
        "space": encode(record.space) if record.space else None, "baseline": record.baseline,
        "against": record.against,
    }  # fmt: skip
    return json.dumps({"study": head}, separators=(",", ":"), ensure_ascii=False)


def dump(record: Record) -> bytes:
    """A record as a member."""
    return "\n".join([head_line(record), *map(line, record.trials), ""]).encode()


def line(trial: Trial) -> str:
    """The line of a trial, without what is empty."""
    data = {name: getattr(trial, name) for name in Trial.__slots__}
    kept = {k: v for k, v in data.items() if v or k in ("number", "started")}
    return json.dumps(kept, separators=(",", ":"), ensure_ascii=False)


def load(data: bytes) -> Record:
    """A record; a line that is cut off is left out. Raises OptionsError where the head cannot be read."""
    head, *rest = data.decode("utf-8", "replace").split("\n")
    with reading("The record of a study", OptionsError, "cannot be read", "It is left as it is."):
        found = parse_json(head)["study"]
        if found["version"] != VERSION:
            raise OptionsError(f"The study is of version {found['version']}.", "Open it with a newer Espalier.")
        space = decode(Space, found["space"], "space") if found.get("space") else None
        spec, recipe = decode(SearchSpec, found["spec"], "spec"), recipe_from_json(found["recipe"])
        baseline = {str(k): float(v) for k, v in found.get("baseline", {}).items()}
        trials, damaged = _trials(rest, spec)
        return Record(spec, recipe, space, trials, str(found.get("key", "")), baseline,
                      dict(found.get("against", {})), damaged)  # fmt: skip


def _trials(lines: list[str], spec: SearchSpec) -> tuple[tuple[Trial, ...], int]:
    """Those that can be read, each by its last line, and how many whole lines cannot."""
    goals, damaged = 1 if spec.summed else len(spec.goals), 0
    found: dict[int, Trial] = {}
    for place, text in enumerate(lines, 1):
        trial = tried(lambda t=text: _trial(parse_json(t)), None)
        if trial and (trial.state != "complete" or len(trial.values) == goals):  # one for each goal
            found[trial.number] = trial
        elif text.strip() and place < len(lines):
            damaged += 1
    return tuple(found.values()), damaged


def damage(extras: Mapping[str, bytes], own: Mapping[str, Record]) -> str:
    """What of a project's studies could not be read, in a sentence; empty where all could. `own`: those that could."""
    members = [name_of(m) for m in extras if m.startswith(FOLDER) and m.endswith(ENDING)]
    told = [f"the study {name!r}" for name in members if name not in own]
    told += [f"{plural(r.damaged, 'trial')} of the study {name!r}" for name, r in own.items() if r.damaged]
    more = f" and {len(told) - MOST_TOLD} more" if len(told) > MOST_TOLD else ""
    return f"Of this project {', '.join(told[:MOST_TOLD])}{more} cannot be read." if told else ""


def _trial(data: Mapping[str, Any]) -> Trial:
    """A later version may have noted more."""
    known = {k: v for k, v in data.items() if k in Trial.__slots__ and k != "figures"}
    figures = data.get("figures", {})
    decode(dict[str, float | str | bool | None], figures, "figures")  # some are none, or a word
    return replace(decode(Trial, known, "trial"), figures=dict(figures))


def records(extras: Mapping[str, bytes]) -> dict[str, Record]:
    """The studies among a project's further members, by name; what cannot be read stays where it is."""
    found: dict[str, Record] = {}
    for held, data in sorted(extras.items()):
        if held.startswith(FOLDER) and held.endswith(ENDING):
            with contextlib.suppress(EspalierError):
                found[name_of(held)] = load(data)
    return found
