"""Processors that this process may use: its affinity and the quota of its control group."""

from __future__ import annotations

import math
import os
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")  # `0::/path` for version 2, `4:cpu,cpuacct:/path` for version 1


def ours() -> tuple[int, ...]:
    """The processors that this process may run on, by number."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def allowed() -> float:
    """How many processors' time this process gets at most: a container may have many in sight, and a quota of two."""
    return min(float(len(ours())), _quota() or math.inf)


def threads() -> int:
    """How many threads can run at once."""
    return max(1, math.ceil(allowed()))


def group_seconds() -> float | None:
    """What all of this process's control group took; None without a quota, where it tells nothing of its own."""
    if _quota() is None:
        return None
    for name, controller in (("cpu.stat", ""), ("cpuacct.usage", "cpuacct")):
        words = _read(name, controller)
        if name == "cpuacct.usage" and words:
            return int(words[0]) / 1e9
        if "usage_usec" in words:
            return int(words[words.index("usage_usec") + 1]) / 1e6
    return None


def _quota() -> float | None:
    """Processors' time by the quota; None where there is none."""
    words = _read("cpu.max", "") or _read("cpu.cfs_quota_us", "cpu") + _read("cpu.cfs_period_us", "cpu")
    if len(words) != 2 or words[0] in ("max", "-1"):
        return None
    return int(words[0]) / int(words[1])


def _read(name: str, controller: str) -> list[str]:
    """The words of a file of our group: below the root, or in it where the group is all that is seen of the tree."""
    root = GROUPS / controller
    for folder in (root / _path(controller).lstrip("/"), root):
        try:
            return (folder / name).read_text(encoding="ascii").split()
        except OSError:
            continue
    return []


def _path(controller: str) -> str:
    try:
        lines = [line.split(":", 2) for line in OWN.read_text(encoding="utf-8").splitlines() if line.count(":") > 1]
    except OSError:
        return ""
    return next((path for _, names, path in lines if controller in names.split(",")), "")
