"""The choices of a search on one model: entries of a space, expanded over the graph's nodes and the recipe's steps."""

from __future__ import annotations

from dataclasses import dataclass

from passes.search.spec import Kind, When

Plain = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Choice:
    """One thing that a trial decides: one of `values` (formats as text), or a number from `low` to `high`.

    `nodes` and `ports`: where a format, a sparsity or an identity goes; several nodes are tied. `key`: an option's path
    or the configuration's key. `ordered`: the values stand from cheap to dear. `when`: the condition it exists under.
    """

    name: str
    kind: Kind
    values: tuple[Plain, ...] = ()
    low: float | None = None
    high: float | None = None
    log: bool = False
    whole: bool = False
    ordered: bool = False
    nodes: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()
    key: str = ""
    method: str = ""
    fit: bool = False
    when: When | None = None


@dataclass(frozen=True, slots=True)
class Space:
    """All choices of a study, in order: a condition names a choice before it."""

    choices: tuple[Choice, ...] = ()
