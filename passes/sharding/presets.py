"""Presets of devices with their links, and the measurement of this machine.

`latency` (α) of a message is an assumption of the presets: data sheets have none. links.py has measured ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from espalier.model.errors import OptionsError, nearest
from espalier.model.memory import total
from espalier.passes.sharding.links import stored_links
from espalier.passes.sharding.mesh import Device, Mesh

GB, TERA, GIB = 1e9, 1e12, 2.0**30


@dataclass(frozen=True, slots=True)
class Preset:
    """`inside`: (α, bytes/s) of links between devices of one machine, which holds `machine` of them; `across`: of links
    between machines."""

    flops: float
    memory: float
    bandwidth: float
    inside: tuple[float, float]
    across: tuple[float, float]
    machine: int
    source: str


PRESETS: dict[str, Preset] = {
    "h100": Preset(
        989.4 * TERA, 80 * GB, 3.35e12, (3e-6, 450 * GB), (10e-6, 50 * GB), 8,
        "NVIDIA H100 SXM data sheet: 989.4 TFLOP/s bfloat16 without sparsity, 80 GB, 3.35 TB/s, NVLink 900 GB/s in "
        "both directions; between machines 400 Gbit/s per device (DGX H100). Latencies assumed",
    ),
    "a100": Preset(
        312 * TERA, 80 * GB, 2.039e12, (3e-6, 300 * GB), (10e-6, 25 * GB), 8,
        "NVIDIA A100 80GB SXM data sheet: 312 TFLOP/s bfloat16 without sparsity, 80 GB, 2 039 GB/s, NVLink 600 GB/s in "
        "both directions; between machines 200 Gbit/s per device (DGX A100). Latencies assumed",
    ),
    "cpu": Preset(
        100e9, 16 * GIB, 20e9, (100e-6, 1 * GB), (500e-6, 1 * GB), 64,
        "assumed: processes on one machine over gloo, at the speed of a few cores; `this` measures this machine",
    ),
}  # fmt: skip
MEASURED = "this"  # the name of this machine, measured


def device(name: str, mesh: Mesh, memory: float | None = None, rates: str = "") -> Device:
    """A preset over a mesh; raises OptionsError for an unknown one. `rates`: bytes/s of the links of each axis.

    Ranks count along the last axis first, so an axis whose neighbours lie within one machine has its links.
    """
    if rates:
        found = device(name, mesh, memory)
        return replace(found, rate=_rates(rates, mesh), source=f"{found.source}; the rates of the links are given")
    if name == MEASURED:
        return measure_device(mesh, memory)
    if name not in PRESETS:
        raise OptionsError(f"There is no device {name!r}.", nearest(name, (*PRESETS, MEASURED)))
    preset, links, span = PRESETS[name], list[tuple[float, float]](), 1
    for n in reversed(mesh.shape):
        span *= n
        links.insert(0, preset.inside if span <= preset.machine else preset.across)
    latency, rate = zip(*links, strict=True)
    return Device(name, preset.flops, memory or preset.memory, preset.bandwidth, latency, rate, preset.source)


def over(found: Device, mesh: Mesh, rates: str = "") -> Device:
    """A device, whose links are alike, over another mesh: this machine is measured once for all."""
    axes = len(mesh.shape)
    rate = _rates(rates, mesh) if rates else found.rate[:1] * axes
    return replace(found, latency=found.latency[:1] * axes, rate=rate)


def _rates(text: str, mesh: Mesh) -> tuple[float, ...]:
    """Bytes per second of each axis from "10e9, 100e9"; raises OptionsError."""
    try:
        rates = tuple(float(word) for word in text.split(","))
    except ValueError:
        rates = ()
    if len(rates) != len(mesh.shape) or not all(0 < r < float("inf") for r in rates):
        axes = f"{len(mesh.shape)} axes" if len(mesh.shape) > 1 else "one axis"
        raise OptionsError(f"rates is {text!r}; the mesh has {axes}.",
                           "Give bytes per second for each axis, such as 10e9,100e9.")  # fmt: skip
    return rates


def measure_device(mesh: Mesh, memory: float | None = None, size: int = 768, seconds: float = 0.5) -> Device:
    """This machine as a device: FLOP/s of a product of matrices of `size`, and bytes/s of a copy, each the best within
    `seconds`; its memory; the links that were measured here (links.py), else those of the preset "cpu".

    A device is a GPU where there are two, as for the links, else the processor.
    """
    import torch

    gpu = torch.cuda.is_available() and torch.cuda.device_count() > 1
    on, backend = ("cuda", "nccl") if gpu else ("cpu", "gloo")

    def settle() -> None:
        if gpu:
            torch.cuda.synchronize()

    a, b = torch.randn(size, size, device=on), torch.randn(size, size, device=on)
    flops = 2 * size**3 / _best(lambda: a @ b, settle, seconds)
    x = torch.empty(1 << 24, device=on)
    y = torch.empty_like(x)
    bandwidth = 2 * x.nbytes / _best(lambda: y.copy_(x), settle, seconds)
    links, ignored = stored_links(backend)
    whole = torch.cuda.get_device_properties(0).total_memory if gpu else total()
    found, axes = device("cpu", mesh, memory or whole), len(mesh.shape)
    if links is not None:
        found = replace(found, latency=(links.latency,) * axes, rate=(links.rate,) * axes)
    timed = f"measured here: product of {size}×{size} matrices, copy of {x.nbytes >> 20} MiB"
    each = "each device is one such machine, or one such GPU"
    source = f"{timed}; {each}; {links.about if links else 'links assumed as of cpu'}"
    return replace(found, name=MEASURED, flops=flops, bandwidth=bandwidth, source=source, warning=ignored)


def _best(run: Callable[[], object], settle: Callable[[], None], seconds: float) -> float:
    run()
    settle()
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        run()
        settle()
        best = min(best, time.perf_counter() - start)
    return best
