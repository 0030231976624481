"""A lab of two kernels and rows of theirs, as a worker tells them; no torch."""

from __future__ import annotations

from typing import Any

from espalier.kernels.bench.ceilings import Ceilings
from espalier.kernels.bench.request import Request
from espalier.kernels.bench.results import Results, Row
from espalier.kernels.bench.spec import KernelInfo, Lab, VersionInfo

NO_CUDA = "no CUDA device"
NO_TRITON = "triton is not installed"
TEXT = '''def naive(x):
    """Row by row,
    in two lines."""
    return torch.exp(x) / 2  # later
'''
LIMITS = Ceilings("cpu", 10.0, {"float32": 0.1})


def _version(name: str, optional: bool = False, missing: str = "", moved: str = "2·m·n") -> VersionInfo:
    lacks = {"cuda": NO_CUDA} | ({"cpu": missing} if missing else {})
    return VersionInfo(name, f"what {name} does", ("cpu",), (), TEXT.replace("naive", name), lacks, optional, moved)


def _kernel(name: str, title: str, family: str, *versions: VersionInfo) -> KernelInfo:
    sizes = tuple({"m": 256, "n": n} for n in (128, 256, 512))
    return KernelInfo(
        name, title, f"about {name}", "y = f(x)", ("m", "n"), ("float32", "bfloat16"), "torch",
        {"cpu": sizes[:1], "cuda": sizes[:1]}, {"cpu": sizes, "cuda": sizes}, versions, family, "5·m·n", "2·m·n",
    )  # fmt: skip


LAB = Lab(
    (
        _kernel("norm", "Norm", "Rows", _version("torch"), _version("naive", moved="8·m·n")),
        _kernel("softmax", "Softmax", "Rows", _version("torch"), _version("naive", moved="8·m·n"),
                _version("compiled", optional=True), _version("triton", missing=NO_TRITON)),
    ),
    {"cuda": NO_CUDA},
    {"cpu": {"name": "A processor", "device": "cpu", "cores": 4}},
)  # fmt: skip


def row(version: str = "torch", n: int = 128, seconds: float | None = 1e-4, **more: Any) -> Row:
    """A row of 256 × n."""
    moved = 256 * n * 8
    return Row(
        "softmax", version, "cpu", "float32", {"m": 256, "n": n}, seconds, seconds, seconds, 0.05 if seconds else None,
        flops=256 * n * 5, bytes=moved, bytes_least=moved, baseline="torch",
        **({"ratio": 1.0, "error": 1e-8, "of_roof": 0.4, "rounds": 9} | more if seconds else more),
    )  # fmt: skip


def rows(slower: float = 2.0) -> list[Row]:
    """A sweep of two versions."""
    versions = (("torch", 1.0), ("naive", slower))
    return [row(v, n, n * 1e-6 * f, ratio=1 / f) for n in (128, 256, 512) for v, f in versions]


def header(request: Request) -> Results:
    """What comes first."""
    settings = {"kernels": list(request.kernels), "sweep": request.sweep}
    return Results({"name": "A processor", "device": "cpu"}, "2026-11-22", None, (), settings)
