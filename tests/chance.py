"""Where tests draw at random: hypothesis' profiles, one seed a run, which is printed, and torch begun alike.

A run of all tests draws its slow ones by the seed, but for those of files that changed last. A product of parameters
that is marked `sampled(share)` runs that share of its cases. `HYPOTHESIS_PROFILE=whole` runs everything, `thorough`
that with 20 times the examples. Cases that are marked with the same `by` are drawn alike in all tests.
"""

from __future__ import annotations

import os
import secrets
import sys
import zlib
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, register_random, settings

from tests.recent_changes import changed_files, files_for

TIMES = {"local": 1, "ci": 1, "whole": 1, "thorough": 20}
PROFILE = os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "local")
FIRST = 67280421310721  # at which torch's generator begins in a process of its own
SEED, ALL = "espalier_seed", "espalier_all"  # what processes of a run are given
SLOW = 30  # of the slow tests of a run of all, one in so many
EVERYTHING = pytest.StashKey[bool]()  # whether the run was given no file or folder
DRAWN = "_hypothesis_internal_use_settings"  # where hypothesis' own plugin for pytest finds a test's settings


class Torch:
    """Torch's generator as hypothesis knows one: an example that is repeated meets the same numbers."""

    def seed(self, number: int) -> None:
        """Begin at a number."""
        if torch := sys.modules.get("torch"):
            torch.manual_seed(number)

    def getstate(self) -> Any:
        """The state, where torch is there."""
        torch = sys.modules.get("torch")
        return torch and torch.get_rng_state()

    def setstate(self, state: Any) -> None:
        """Go on from a state."""
        if state is not None:
            sys.modules["torch"].set_rng_state(state)


TORCH = Torch()  # hypothesis holds it weakly


def prepare() -> None:
    """Load the profile; an unknown one ends the run."""
    if PROFILE not in TIMES:
        raise pytest.UsageError(f"HYPOTHESIS_PROFILE is {PROFILE!r}: give {', '.join(TIMES)}.")
    for name in TIMES:
        settings.register_profile(
            name, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True, derandomize=False
        )
    settings.load_profile(PROFILE)
    register_random(TORCH)


def begin(config: pytest.Config) -> None:
    """A seed where none was given: processes of one run have that of the one which began them."""
    config.option.hypothesis_seed = getattr(config, "workerinput", {}).get(SEED, config.option.hypothesis_seed)
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(secrets.randbits(32))
    unnamed = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    config.stash[EVERYTHING] = getattr(config, "workerinput", {}).get(ALL, unnamed)


def share(config: pytest.Config, given: dict[str, Any]) -> None:
    """Give a process of the run its seed: xdist starts each with options as they were on the command line."""
    given[SEED], given[ALL] = config.option.hypothesis_seed, config.stash[EVERYTHING]


def repeat(config: pytest.Config) -> str:
    """What repeats this run's examples."""
    chosen = f"HYPOTHESIS_PROFILE={PROFILE} " if whole() else ""
    return f"{chosen}.venv/bin/python -m pytest --hypothesis-seed={config.option.hypothesis_seed}"


def multiply(items: Iterable[pytest.Item]) -> None:
    """As many examples as the profile says, each function once."""
    tests = {item.function for item in items if isinstance(item, pytest.Function) and is_hypothesis_test(item.obj)}
    for test in tests if TIMES[PROFILE] > 1 else ():
        own: settings = getattr(test, DRAWN)
        setattr(test, DRAWN, settings(own, max_examples=own.max_examples * TIMES[PROFILE]))


def sample(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what this run's seed does not draw."""
    if whole() or any("::" in word for word in config.args):
        return
    left_out = _slow(config, items) if config.stash[EVERYTHING] else set[pytest.Item]()
    left_out |= _cases(config, [item for item in items if item not in left_out])
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def _slow(config: pytest.Config, items: list[pytest.Item]) -> set[pytest.Item]:
    """All but one of thirty slow tests, and none of the files that belong to what the last commits changed."""
    slow = [item for item in items if item.get_closest_marker("slow")]
    files = {item: item.path.relative_to(config.rootpath).as_posix() for item in slow}
    recent = files_for(changed_files(config.rootpath), set(files.values()))
    return {item for item in slow if files[item] not in recent and number(config, _name(item)) % SLOW}


def _cases(config: pytest.Config, items: list[pytest.Item]) -> set[pytest.Item]:
    """What is not drawn of products of parameters: of those which are there at least one case of each runs."""
    products: dict[tuple[str, float], list[pytest.Item]] = {}
    for item in items:
        if mark := item.get_closest_marker("sampled"):
            products.setdefault((item.nodeid.partition("[")[0], mark.args[0]), []).append(item)
    left_out = set[pytest.Item]()
    for (_, share), cases in products.items():
        drawn = sorted(cases, key=lambda case: number(config, _name(case)))
        left_out.update(drawn[max(1, round(share * len(cases))) :])
    return left_out


def _name(case: pytest.Item) -> str:
    """By what a case is drawn: what the mark says it shares with cases of other tests, or its own name."""
    mark = case.get_closest_marker("sampled")
    return mark.kwargs.get("by", case.nodeid) if mark else case.nodeid


def whole() -> bool:
    """Whether all tests and all cases of each product run."""
    return PROFILE in ("whole", "thorough")


def number(config: pytest.Config, name: str) -> int:
    """A number of this run and a name, the same in all processes of the run."""
    return zlib.crc32(f"{config.option.hypothesis_seed} {name}".encode())
