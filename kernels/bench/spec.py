"""Specification of a kernel: versions of a computation, inputs of a shape, a reference, FLOPs and bytes.

No torch here. Files of kernels.lab register a Kernel each; `KernelInfo` is what is shown of them.
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
    """One way to compute it. `run` takes the kernel's inputs.

    `needs`: of triton, numba, compiler. `traffic`: bytes it moves, (shape, bytes of an element), where that is more
    than the least. `refuses`: (shape, dtype, device) → why it cannot, or nothing. `shows`: functions that explain it.
    `optional`: runs only where it is named, since it takes long to begin.
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
        """The text of what it runs."""
        texts: list[str] = []
        for shown in (self.run, *self.shows):
            function = getattr(shown, "fn", None) or getattr(shown, "py_func", shown)
            text = inspect.getsource(function)
            if text not in texts:
                texts.append(text)
        return "\n\n".join(texts)


@dataclass(frozen=True, slots=True)
class Kernel:
    """A computation that is measured.

    `inputs`: (shape, dtype, device, seed) → what each version takes. `reference`: the same inputs → the result in
    float64 on plain torch; `sampled` picks of a version's result what the reference computed, where it is a part.
    `flops`, `traffic`: of a shape, the least any version can do; traffic takes the bytes of an element. `baseline`: the
    version that ratios are against. `tolerance`: error allowed by dtype, as a share of the reference's norm; 0: bits.
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
    shapes: Mapping[str, tuple[Shape, ...]]  # by device: what is measured unasked
    sweep: Mapping[str, tuple[Shape, ...]]  # by device: sizes for a curve
    baseline: str = "torch"
    dtypes: tuple[str, ...] = ("float32", "bfloat16", "float16")
    tolerance: Mapping[str, float] = field(default_factory=lambda: {"float32": 1e-5, "bfloat16": 8e-3, "float16": 2e-3})
    sampled: Callable[..., Any] | None = None
    family: str = ""  # what several are listed under; none: the title

    def version(self, name: str) -> Version:
        """The version of a name; raises KernelError."""
        found = next((v for v in self.versions if v.name == name), None)
        if found is None:
            raise KernelError(f"{self.name} has no version {name!r}.", nearest(name, [v.name for v in self.versions]))
        return found


KERNELS: Registry[str, Kernel] = Registry("kernel", KernelError, ("espalier.kernels.lab",))


def add(kernel: Kernel, *, replace: bool = False) -> Kernel:
    """Register a kernel under its name; `replace`: in the place of one of ours."""
    return KERNELS.add(kernel.name, kernel, replace=replace)


@dataclass(frozen=True, slots=True)
class VersionInfo:
    """What is shown of a version. `missing`: why it cannot run here, by device; `bytes`: what it moves, a formula."""

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
    """What is shown of a kernel: plain values, so that they travel between processes.

    `flops` and `bytes`: the least any version can do, as formulas of the dimensions and e, the bytes of an element.
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
    """What there is to measure, and where: `missing` says by device why it is not here; `machines`: their facts."""

    kernels: tuple[KernelInfo, ...]
    missing: Mapping[str, str]
    machines: Mapping[str, Mapping[str, Any]]


def shape_text(shape: Mapping[str, int]) -> str:
    """`m=4096,n=1024`"""
    return ",".join(f"{k}={v}" for k, v in shape.items())


def parse_shape(text: str, kernel: Kernel | KernelInfo) -> Shape:
    """`m=4096,n=1024` or `4096x1024`, in the order of the dimensions; what is not named is as in the first shape.

    Raises KernelError.
    """
    known = dict(next(iter(kernel.shapes.values()))[0])
    hint = f"Write {shape_text(known)}, or {'x'.join(map(str, known.values()))}."
    if "=" not in text:
        sizes = text.lower().replace("×", "x").split("x")
        if len(sizes) > len(known):
            raise KernelError(f"{kernel.name} has {len(known)} dimensions, {text!r} gives {len(sizes)}.", hint)
        pairs = list(zip(known, sizes, strict=False))
    else:
        pairs = [(k.strip(), v) for k, _, v in (part.partition("=") for part in text.split(","))]
    for name, size in pairs:
        if name not in known:
            raise KernelError(f"{kernel.name} has no dimension {name!r}.", f"{nearest(name, known)} {hint}")
        if not size.strip().isdecimal() or int(size) < (0 if name in ("causal", "mask") else 1):
            raise KernelError(f"{name} cannot be {size.strip()!r} in a shape of {kernel.name}.", hint)
        known[name] = int(size)
    return known
