"""Processors that this process may use: its affinity and the quota of its control group."""

from __future__ import annotations

import math
import os
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")  # `0::/path` for version 2, `4:cpu,cpuacct:/path` for version 1


def allowed_cpus() -> tuple[int, ...]:
    """The numbers of the processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def cpu_limit() -> float:
    """Largest processor time per second of this process: the affinity, limited by the quota of a container."""
    return min(float(len(allowed_cpus())), _quota() or math.inf)


def threads() -> int:
    """Number of threads that can run at once."""
    return max(1, math.ceil(cpu_limit()))


def group_seconds() -> float | None:
    """Processor seconds of this process's control group; None without a quota."""
    if _quota() is None:
        return None
    for name, controller in (("cpu.stat", ""), ("cpuacct.usage", "cpuacct")):
        fields = _read(name, controller)
        if name == "cpuacct.usage" and fields:
            return int(fields[0]) / 1e9
        if "usage_usec" in fields:
            return int(fields[fields.index("usage_usec") + 1]) / 1e6
    return None


def _quota() -> float | None:
    """Processor seconds per second of the quota; None without one."""
    fields = _read("cpu.max", "") or _read("cpu.cfs_quota_us", "cpu") + _read("cpu.cfs_period_us", "cpu")
    if len(fields) != 2 or fields[0] in ("max", "-1"):
        return None
    return int(fields[0]) / int(fields[1])


def _read(name: str, controller: str) -> list[str]:
    """The fields of a file of this control group: below the root, or in the root within a cgroup namespace."""
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
