"""Devices, compilers and memory of this machine, and reasons why a version cannot run."""

from __future__ import annotations

import os
import platform
import shutil
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from espalier.kernels.bench import processors
from espalier.kernels.bench.spec import Version

KEEP_FREE = 0.1  # share of the memory kept free


def interpreted() -> bool:
    """Whether Triton runs its kernels in Python, on the CPU."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@cache
def compiler() -> str | None:
    """The C++ compiler that torch.compile would call on the CPU."""
    return shutil.which(os.environ.get("CXX", "g++")) or shutil.which("clang++")


def has_space_in_torch_path() -> bool:
    """Whether torch is installed in a folder with a space in its name, with which inductor cannot link."""
    return " " in torch.__file__


def no_device(device: str) -> str:
    """The reason why a device is unavailable; empty if it is available."""
    if device == "cpu" or torch.cuda.is_available():
        return ""
    built = torch.version.cuda or torch.version.hip
    return "no CUDA device" if built else "this build of torch is for the CPU only"


def unavailable(version: Version, device: str) -> str:
    """The reason why a version cannot run on a device; empty if it can."""
    if reason := no_device(device):
        return reason
    if "triton" in version.needs:
        if find_spec("triton") is None:
            return "triton is not installed (pip install 'espalier[gpu]')"
        if device == "cpu":
            return "" if interpreted() else "Triton needs a GPU (or TRITON_INTERPRET=1, slowly)"
    if device not in version.devices:
        return f"made for {' and '.join(version.devices)}"
    if "numba" in version.needs and find_spec("numba") is None:
        return "numba is not installed"
    if "compiler" in version.needs and device == "cpu" and compiler() is None:
        return "torch.compile needs a C++ compiler, and there is none (apt install g++)"
    if "compiler" in version.needs and device == "cpu" and has_space_in_torch_path():
        return "torch lies in a folder with a space in its name, where inductor cannot link on the CPU"
    if "compiler" in version.needs and device == "cuda" and find_spec("triton") is None:
        return "torch.compile needs triton on a GPU"
    return ""


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def name(device: str) -> str:
    """Name of the GPU or the processor."""
    return torch.cuda.get_device_name() if device == "cuda" else _cpu_name()


def facts(device: str) -> dict[str, Any]:
    """Name, cores, memory and versions; no host name."""

    def _installed(package: str) -> str | None:
        try:
            return version(package)
        except PackageNotFoundError:
            return None

    values: dict[str, Any] = {
        "name": name(device), "device": device, "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(), "torch": str(torch.__version__), "triton": _installed("triton"),
        "numba": _installed("numba"), "threads": torch.get_num_threads(), "cores": processors.threads(),
    }  # fmt: skip
    if device == "cuda":
        card = torch.cuda.get_device_properties(0)
        values |= {"multiprocessors": card.multi_processor_count, "memory_bytes": card.total_memory,
                  "cache_bytes": card.L2_cache_size, "capability": f"{card.major}.{card.minor}"}  # fmt: skip
    else:
        values |= {"memory_bytes": _total(), "cache_bytes": cache_bytes("cpu"), "load": _load()}
    return values


def _load() -> float | None:
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def _total() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 0


@cache
def cache_bytes(device: str) -> int:
    """Bytes of the last-level cache; 32 MB if unknown."""
    if device == "cuda":
        return int(torch.cuda.get_device_properties(0).L2_cache_size)
    sizes: list[int] = []
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = path.read_text(encoding="utf-8").strip()
        unit = {"K": 1 << 10, "M": 1 << 20}.get(text[-1:], 1)
        sizes.append(int(text.rstrip("KM")) * unit)
    return max(sizes, default=32 << 20)


def free_bytes(device: str) -> int:
    """Bytes that a run may allocate now."""
    if device == "cuda":
        return int(torch.cuda.mem_get_info()[0] * (1 - KEEP_FREE))
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
        free = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        free = _total() // 2
    return int(min(free, _limit()) * (1 - KEEP_FREE))


def size_text(size: float) -> str:
    """A size such as `14.3 GiB`, in the largest fitting unit."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"):
        if size < 1000 or unit == "EiB":
            break
        size /= 1024
    return f"{size:.4g} {unit}"


def _limit() -> int:
    """The memory limit of the container in bytes."""
    try:
        text = Path("/sys/fs/cgroup/memory.max").read_text(encoding="utf-8").strip()
        used = Path("/sys/fs/cgroup/memory.current").read_text(encoding="utf-8").strip()
        return int(text) - int(used)
    except (OSError, ValueError):
        return 1 << 62
