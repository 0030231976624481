"""The list of kernels and of this machine's devices, for the window and tables. Imports torch."""

from __future__ import annotations

from espalier.kernels.bench.counted import bytes_formula, flops_formula
from espalier.kernels.bench.machine import facts, no_device, unavailable
from espalier.kernels.bench.spec import DEVICES, KERNELS, Kernel, KernelInfo, Lab, Version, VersionInfo


def catalogue() -> tuple[KernelInfo, ...]:
    """All kernels, by name."""

    def _version(k: Kernel, v: Version) -> VersionInfo:
        why = {d: unavailable(v, d) for d in DEVICES}
        told = {d: w for d, w in why.items() if w}
        return VersionInfo(v.name, v.about, v.devices, v.needs, v.source, told, v.optional, bytes_formula(k, v))

    return tuple(
        KernelInfo(k.name, k.title, k.about, k.formula, k.dims, k.dtypes, k.baseline, k.shapes, k.sweep,
                   tuple(_version(k, v) for v in k.versions), k.family or k.title, flops_formula(k), bytes_formula(k))
        for _, k in KERNELS.items()
    )  # fmt: skip


def lab() -> Lab:
    """The catalogue and this machine."""
    reasons = {d: no_device(d) for d in DEVICES}
    return Lab(catalogue(), {d: w for d, w in reasons.items() if w}, {d: facts(d) for d, w in reasons.items() if not w})
