"""The files of tests that belong to what the last commits changed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

HOURS = 12  # before the newest commit: a day's work, whatever the clock says when its tests run


def changed_files(root: Path) -> set[str]:
    """What the commits of the last hours changed, relative to the root; nothing without git."""
    git = ["git", "-C", str(root), "log", "--no-show-signature"]
    try:
        newest = subprocess.run([*git, "-1", "--format=%ct"], capture_output=True, text=True, timeout=60, check=True)
        since = f"--since={int(newest.stdout) - 3600 * HOURS}"
        log = [*git, "--format=", "--name-only", "-z", since]
        done = subprocess.run(log, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, ValueError, subprocess.SubprocessError):
        return set()
    return {name.strip() for name in done.stdout.split("\0")} - {""}


def files_for(changed: Iterable[str], tests: Iterable[str]) -> set[str]:
    """Of files of tests: those that were changed, and those with the folder and the name of a changed file.

    `passes/sharding/plan.py` has `tests/passes/sharding/test_plan.py` and `test_plan_costs.py` beside it.
    """
    changed = set(changed)
    stems = {(f"tests/{Path(name).parent}", Path(name).stem) for name in changed if name.endswith(".py")}
    folders: dict[str, list[str]] = {}
    for folder, stem in stems:
        folders.setdefault(folder, []).append(stem)
    return {
        test
        for test in tests
        if test in changed
        or any(
            Path(test).stem == f"test_{stem}" or Path(test).stem.startswith(f"test_{stem}_")
            for stem in folders.get(str(Path(test).parent), ())
        )
    }
