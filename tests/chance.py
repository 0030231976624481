"""Where tests draw at random: hypothesis' profiles, one seed a run, which is printed, and torch begun alike.

`HYPOTHESIS_PROFILE=thorough` gives each property 20 times its examples, whatever its own settings say. A product of
parameters that is marked `sampled(share)` runs that share of its cases, drawn by the seed; all of them under `thorough`
and where a test is named on the command line. Cases that are marked with the same `by` are drawn alike in all tests.
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

TIMES = {"local": 1, "ci": 1, "thorough": 20}
PROFILE = os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "local")
FIRST = 67280421310721  # at which torch's generator begins in a process of its own
SEED = "espalier_seed"  # what processes of a run are given
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


def share(config: pytest.Config, given: dict[str, Any]) -> None:
    """Give a process of the run its seed: xdist starts each with options as they were on the command line."""
    given[SEED] = config.option.hypothesis_seed


def repeat(config: pytest.Config) -> str:
    """What repeats this run's examples."""
    chosen = f"HYPOTHESIS_PROFILE={PROFILE} " if thorough() else ""
    return f"{chosen}.venv/bin/python -m pytest --hypothesis-seed={config.option.hypothesis_seed}"


def multiply(items: Iterable[pytest.Item]) -> None:
    """As many examples as the profile says, each function once."""
    tests = {item.function for item in items if isinstance(item, pytest.Function) and is_hypothesis_test(item.obj)}
    for test in tests if thorough() else ():
        own: settings = getattr(test, DRAWN)
        setattr(test, DRAWN, settings(own, max_examples=own.max_examples * TIMES[PROFILE]))


def sample(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out of each product of parameters what this run's seed does not draw: at least one case of each runs."""
    if thorough() or any("::" in word for word in config.args):
        return
    products: dict[tuple[str, float], list[pytest.Item]] = {}
    for item in items:
        if mark := item.get_closest_marker("sampled"):
            products.setdefault((item.nodeid.partition("[")[0], mark.args[0]), []).append(item)
    left_out = set[pytest.Item]()
    for (_, share), cases in products.items():
        drawn = sorted(cases, key=lambda case: number(config, _name(case)))
        left_out.update(drawn[max(1, round(share * len(cases))) :])
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def _name(case: pytest.Item) -> str:
    """By what a case is drawn: what the mark says it shares with cases of other tests, or its own name."""
    mark = case.get_closest_marker("sampled")
    return mark.kwargs.get("by", case.nodeid) if mark else case.nodeid


def thorough() -> bool:
    """Whether all cases of each product run."""
    return TIMES[PROFILE] > 1


def number(config: pytest.Config, name: str) -> int:
    """A number of this run and a name, the same in all processes of the run."""
    return zlib.crc32(f"{config.option.hypothesis_seed} {name}".encode())
