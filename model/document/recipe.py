"""The recipe: the ordered steps from the base graph to the present graph."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

from espalier.model.errors import EspalierError


@dataclass(frozen=True, slots=True)
class Raw:
    """Options of a pass that is not installed, stored unchanged so that saving loses nothing."""

    data: Any


@dataclass(frozen=True, slots=True)
class Step:
    """One run of a pass; `options` is the pass's own frozen options dataclass, or Raw."""

    pass_name: str
    options: Any
    seed: int = 0
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class Recipe:
    """Steps in order."""

    steps: tuple[Step, ...] = ()

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def active(self) -> tuple[Step, ...]:
        """The steps that run."""
        return tuple(s for s in self.steps if s.enabled)

    def append(self, *steps: Step) -> Recipe:
        """With steps at the end."""
        return Recipe((*self.steps, *steps))

    def insert(self, index: int, *steps: Step) -> Recipe:
        """With steps before step `index`."""
        return Recipe((*self.steps[:index], *steps, *self.steps[index:]))

    def set(self, index: int, step: Step) -> Recipe:
        """With step `index` replaced."""
        return Recipe((*self.steps[:index], step, *self.steps[index + 1 :]))

    def remove(self, index: int) -> Recipe:
        """Without step `index`."""
        return Recipe((*self.steps[:index], *self.steps[index + 1 :]))

    def move(self, index: int, to: int) -> Recipe:
        """With step `index` moved to position `to`."""
        steps = list(self.steps)
        steps.insert(to, steps.pop(index))
        return Recipe(tuple(steps))

    def enable(self, index: int, enabled: bool) -> Recipe:
        """With step `index` switched on or off."""
        return self.set(index, replace(self.steps[index], enabled=enabled))

    def common(self, other: Recipe) -> int:
        """The number of leading active steps that both have in common."""
        count = 0
        for mine, theirs in zip(self.active, other.active, strict=False):
            if mine != theirs:
                break
            count += 1
        return count


@contextlib.contextmanager
def naming_step(index: int, name: str = "") -> Generator[None]:
    """Prefix an error's message with its step, counted from 1."""
    try:
        yield
    except EspalierError as error:
        error.message = f"Step {index + 1}{f' ({name})' if name else ''}: {error.message}"
        raise
