"""Specification of a kernel: versions of a computation, inputs of a shape, a reference, FLOPs and bytes.

Imports no torch. Each file of kernels.lab registers a Kernel; the window shows its `KernelInfo`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from espalier.model.errors import EspalierError, nearest
from espalier.model.registry import Registry

if TYPE_CHECKING:
    import torch

DEVICES = ("cpu", "cuda")
Shape = dict[str, int]
Inputs = tuple[Any, ...]


class KernelError(EspalierError):
    """A kernel, a shape or a results file is unknown or cannot be used."""


def _nothing(shape: Shape, dtype: str, device: str) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Version:
    """One implementation of a kernel. `run` takes the kernel's inputs.

    `needs`: some of triton, numba, compiler. `traffic`: (shape, bytes of an element) → bytes it moves, if more
    than the minimum. `refuses`: (shape, dtype, device) → reason why it cannot run, or "". `shows`: functions to
    display.
    `optional`: runs only if named, since it is slow to start.
    """

    name: str
    run: Callable[..., Any]
    about: str
    devices: tuple[str, ...] = ("cpu", "cuda")
    needs: tuple[str, ...] = ()
    traffic: Callable[[Shape, int], int] | None = None
    refuses: Callable[[Shape, str, str], str] = _nothing
    shows: tuple[Callable[..., Any], ...] = ()
    optional: bool = False

    @property
    def source(self) -> str:
        """Source text of the functions that it runs."""
        texts: list[str] = []
        for shown in (self.run, *self.shows):
            function = getattr(shown, "fn", None) or getattr(shown, "py_func", shown)
            text = inspect.getsource(function)
            if text not in texts:
                texts.append(text)
        return "\n\n".join(texts)


@dataclass(frozen=True, slots=True)
class Kernel:
    """A computation with several versions to measure.

    `inputs`: (shape, dtype, device, seed) → arguments of each version. `reference`: the same inputs → the result in
    float64 by torch; `sampled` selects the part of a version's result that the reference computes, if not all.
    `flops`, `traffic`: minimum over all versions, by shape; traffic also takes the bytes of an element. `baseline`: the
    version that ratios refer to. `tolerance`: allowed error by dtype, relative to the reference's norm; 0:
    bit-identical.
    """

    name: str
    title: str
    about: str
    formula: str
    dims: tuple[str, ...]
    inputs: Callable[[Shape, torch.dtype, str, int], Inputs]
    reference: Callable[..., Any]
    versions: tuple[Version, ...]
    flops: Callable[[Shape], int]
    traffic: Callable[[Shape, int], int]
    shapes: Mapping[str, tuple[Shape, ...]]  # by device: the default shapes
    sweep: Mapping[str, tuple[Shape, ...]]  # by device: the shapes of a curve
    baseline: str = "torch"
    dtypes: tuple[str, ...] = ("float32", "bfloat16", "float16")
    tolerance: Mapping[str, float] = field(default_factory=lambda: {"float32": 1e-5, "bfloat16": 8e-3, "float16": 2e-3})
    sampled: Callable[..., Any] | None = None
    family: str = ""  # title of a group of kernels; the kernel's own if empty

    def version(self, name: str) -> Version:
        """The version with a name; raises KernelError for an unknown one."""
        match = next((v for v in self.versions if v.name == name), None)
        if match is None:
            raise KernelError(f"{self.name} has no version {name!r}.", nearest(name, [v.name for v in self.versions]))
        return match


KERNELS: Registry[str, Kernel] = Registry("kernel", KernelError, ("espalier.kernels.lab",))


def add(kernel: Kernel, *, replace: bool = False) -> Kernel:
    """Register a kernel under its name; `replace`: override a built-in one."""
    return KERNELS.add(kernel.name, kernel, replace=replace)


@dataclass(frozen=True, slots=True)
class VersionInfo:
    """A version for display. `missing`: device → reason why it cannot run here; `bytes`: formula of its traffic."""

    name: str
    about: str
    devices: tuple[str, ...]
    needs: tuple[str, ...]
    source: str
    missing: Mapping[str, str]
    optional: bool = False
    bytes: str = ""


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """A kernel for display, as plain values that can be sent between processes.

    `flops` and `bytes`: minimum over all versions, as formulas of the dimensions and e, the bytes of an element.
    """

    name: str
    title: str
    about: str
    formula: str
    dims: tuple[str, ...]
    dtypes: tuple[str, ...]
    baseline: str
    shapes: Mapping[str, tuple[Shape, ...]]
    sweep: Mapping[str, tuple[Shape, ...]]
    versions: tuple[VersionInfo, ...]
    family: str = ""
    flops: str = ""
    bytes: str = ""


@dataclass(frozen=True, slots=True)
class Lab:
    """All kernels and devices. `missing`: device → reason why it is unavailable; `machines`: facts by device."""

    kernels: tuple[KernelInfo, ...]
    missing: Mapping[str, str]
    machines: Mapping[str, Mapping[str, Any]]


def shape_text(shape: Mapping[str, int]) -> str:
    """A shape as text, such as `m=4096,n=1024`."""
    return ",".join(f"{k}={v}" for k, v in shape.items())


def parse_shape(text: str, kernel: Kernel | KernelInfo) -> Shape:
    """Parse `m=4096,n=1024` or `4096x1024`, in the order of the dimensions; missing ones are as in the first shape.

    Raises KernelError.
    """
    first = dict(next(iter(kernel.shapes.values()))[0])
    hint = f"Write {shape_text(first)}, or {'x'.join(map(str, first.values()))}."
    if "=" not in text:
        sizes = text.lower().replace("×", "x").split("x")
        if len(sizes) > len(first):
            raise KernelError(f"{kernel.name} has {len(first)} dimensions, {text!r} gives {len(sizes)}.", hint)
        pairs = list(zip(first, sizes, strict=False))
    else:
        pairs = [(k.strip(), v) for k, _, v in (part.partition("=") for part in text.split(","))]
    for name, size in pairs:
        if name not in first:
            raise KernelError(f"{kernel.name} has no dimension {name!r}.", f"{nearest(name, first)} {hint}")
        if not size.strip().isdecimal() or int(size) < (0 if name in ("causal", "mask") else 1):
            raise KernelError(f"{name} cannot be {size.strip()!r} in a shape of {kernel.name}.", hint)
        first[name] = int(size)
    return first
