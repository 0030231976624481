"""A study as the window keeps it with its project: what was asked for and what came, to be shown without Optuna.

Its journal, which the search itself goes on from, lies beside it. One head line, then a line a trial; a later line of
the same number holds.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from model.borders import parse_json, reading, tried
from model.codec import decode, encode
from model.errors import EspalierError, OptionsError
from model.project import recipe_from_json, recipe_to_json
from model.recipe import Recipe
from passes.search.kept import FOLDER, member
from passes.search.space import Space
from passes.search.spec import SearchSpec
from passes.search.trial import Trial

VERSION = 1
ENDING = ".trials.jsonl"


@dataclass(frozen=True, slots=True)
class Record:
    """A study: the search, the recipe that it begins with, its choices, its trials, and the id by which it is known."""

    spec: SearchSpec
    recipe: Recipe
    space: Space | None = None
    trials: tuple[Trial, ...] = ()
    key: str = ""
    baseline: dict[str, float] = field(default_factory=dict[str, float])
    against: dict[str, Any] = field(default_factory=dict[str, Any])


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
        return Record(spec, recipe, space, tuple(_trials(rest, spec)), str(found.get("key", "")), baseline,
                      dict(found.get("against", {})))  # fmt: skip


def _trials(lines: Iterable[str], spec: SearchSpec) -> Iterable[Trial]:
    """Those that can be read, each by its last line; a complete one has a value for each goal."""
    goals = 1 if spec.summed else len(spec.goals)
    found: dict[int, Trial] = {}
    for trial in filter(None, (tried(lambda t=text: _trial(parse_json(t)), None) for text in filter(str.strip, lines))):
        if trial.state != "complete" or len(trial.values) == goals:
            found[trial.number] = trial
    return found.values()


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
