"""Fast fake quantisation on the CPU gives the bits of the definitions: values, gates, gradients, for every format."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from espalier import passes
from espalier.kernels.fake_quant.plan import PLANS
from espalier.model.formats.base import FAST, Format, parse_format
from espalier.model.formats.binary import Binary
from espalier.model.formats.binary_residual import BinaryResidual
from espalier.model.formats.binary_scaled import BinaryScaled
from espalier.model.formats.integer import Integer
from espalier.model.formats.nvfp4_row import NVFP4Row
from espalier.model.formats.offset_integer import OffsetInteger
from espalier.model.formats.scaled import ScaledFormat
from espalier.model.formats.scaled_element import ScaledElement
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.formats.straight_through import straight_through
from espalier.model.formats.ternary import Ternary
from espalier.model.registry import FORMATS
from tests.contract.format_cases import FORMS, probes
from tests.patience import PATIENCE

cpu = pytest.importorskip("espalier.kernels.fake_quant.cpu", reason="numba is not installed")

ROOT = Path(passes.__file__).parents[2]  # what lies on the path
SCALED: list[ScaledFormat] = [
    *(ScaledInteger(w, g, 5) for w in (2, 8, 16) for g in ("tensor", "channel", "group")),
    *(ScaledInteger(8, g, 5, False) for g in ("tensor", "channel", "group")),
    ScaledInteger(8, "channel", scale_dtype="bfloat16"),
    *(BinaryScaled(g) for g in ("tensor", "channel")),
    *(BinaryResidual(n, g) for n in (1, 2, 3) for g in ("tensor", "channel")),
    *(Ternary(t, g) for t in (0.0, 0.7) for g in ("tensor", "channel")),
]
OTHERS: list[Format] = [*SCALED, Binary(), Binary(bipolar=False)]
SLOW = (NVFP4Row, OffsetInteger, ScaledElement)  # run as they are defined
FAST_FORMS = [fmt for fmt in FORMS if type(fmt) not in SLOW]
DEFAULTS = [cls() for _, cls in FORMATS.items() if cls not in SLOW]
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
SPECIAL = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e-40, -1e-40, 3.4e38, -3.4e38, 65504, 65519, -0.3, 448, 465, 2.5]

each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)
# Each type has loops of its own, which take a second each to compile: one of the short types a run, the same in all
# tests that name every case.
float32_and_one = pytest.mark.parametrize(
    "dtype",
    [torch.float32, *(pytest.param(d, marks=pytest.mark.sampled(0.5, by=f"fast {d}")) for d in DTYPES[1:])],
    ids=str,
)
float32_and_some = pytest.mark.parametrize(
    "dtype", [torch.float32, *(pytest.param(d, marks=pytest.mark.sampled(0.25)) for d in DTYPES[1:])], ids=str
)


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """As many threads as before."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def bits(x: Tensor) -> Tensor:
    """Patterns; all NaN alike."""
    plain = torch.where(x.isnan(), torch.nan, x).contiguous()
    return plain.view(torch.int32 if x.dtype == torch.float32 else torch.int16)


def agrees(fmt: Format, x: Tensor) -> None:
    """Value without and with a gate, and the gate itself."""
    fast = FAST[type(fmt), "cpu"]
    want, inside = fmt.define(x), fmt.inside(x)
    value, gate = fast.masked(fmt, x)
    alone = fmt.forward(x)
    # torch's clamp between tensors gives a zero the sign of the value or of the limit, as vectors happen to fall.
    free = isinstance(fmt, ScaledInteger) and not fmt.symmetric
    want = want + 0.0 if free else want
    for got in (alone + 0.0, value + 0.0) if free else (alone, value):
        assert got.dtype == x.dtype and got.shape == x.shape
        wrong = (bits(got) != bits(want)).reshape(x.shape)
        assert not wrong.any(), (x[wrong][:4], got[wrong][:4], want[wrong][:4])
    assert torch.equal(torch.ones_like(inside) if gate is None else gate, inside)


def tame(dtype: torch.dtype, shape: tuple[int, ...] = (24, 96), seed: int = 3) -> Tensor:
    """Rows of scales that float32 constants can follow, one of zeros."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=generator)
    if len(shape) > 1:
        x = x * torch.exp2(torch.randint(-12, 8, (*shape[:-1], 1), generator=generator))
        x[0] = 0
    return x.to(dtype)


def test_every_format_has_a_fast_version() -> None:
    """But for three that their definitions compute."""
    assert {cls for _, cls in FORMATS.items()} - set(SLOW) == set(PLANS)
    assert all((cls, "cpu") in FAST for cls in PLANS)


@pytest.mark.slow
@pytest.mark.sampled(0.1)
@pytest.mark.parametrize("fmt", FAST_FORMS, ids=str)
@each_dtype
def test_bits_on_the_contract_inputs(fmt: Format, dtype: torch.dtype) -> None:
    agrees(fmt, torch.from_numpy(probes(fmt, 4000)).to(dtype))


@pytest.mark.slow
@pytest.mark.sampled(0.1)
@pytest.mark.parametrize("fmt", [*FAST_FORMS, *OTHERS], ids=str)
@each_dtype
def test_bits_on_rows_of_every_kind(fmt: Format, dtype: torch.dtype) -> None:
    """Scales of rows, special values among others, short blocks, a layout that is not contiguous, no elements."""
    x = tame(dtype)
    agrees(fmt, x)
    agrees(fmt, x[:, :37])
    agrees(fmt, x.t())
    x[2, ::5] = -0.0
    agrees(fmt, x[:3])
    x[1, : len(SPECIAL)] = torch.tensor(SPECIAL, dtype=torch.float64).to(dtype)
    agrees(fmt, x)
    agrees(fmt, x.reshape(4, 2, 3, 96))
    for few in (x[3, 5], x[3, :1], x[:0], x[:, :0]):
        agrees(fmt, few)


@pytest.mark.sampled(0.34)
@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    ["mxint(block=64)", "mxfp(block=128)", "block_minifloat(block=64)", "block_log(block=32)", "nvfp4(block=32)",
     "nvfp4(block=128)", *(f"int8(granularity=group({n}))" for n in (16, 32, 64, 128)),
     "int4(granularity=group(32), scale_dtype=float16)", "affine(granularity=group(64))"],
)  # fmt: skip
@float32_and_one
def test_blocks_taken_side_by_side(text: str, dtype: torch.dtype) -> None:
    """More and fewer than sixteen, some of zeros, some not finite, some too small for the tensor's scale."""
    fmt = parse_format(text)
    x = tame(dtype, (5, 640))
    agrees(fmt, x)
    agrees(fmt, x[:1, :256])
    x[3, :: 5 * len(SPECIAL)] = torch.nan
    x[1, : len(SPECIAL)] = torch.tensor(SPECIAL, dtype=torch.float64).to(dtype)
    agrees(fmt, x)
    agrees(fmt, x * 0)
    x = tame(dtype, (2, 640))
    x[1, 256:] *= 1e-5
    agrees(fmt, x)


@pytest.mark.sampled(0.34)
@pytest.mark.slow
@pytest.mark.parametrize("fmt", DEFAULTS, ids=str)
@float32_and_some
def test_ordinary_tensors_never_need_the_definition(
    fmt: Format, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> Tensor:
        raise AssertionError("the definition ran")

    x = tame(dtype)
    want, inside = fmt.define(x), fmt.inside(x)
    fmt.forward(x)  # the plan is made once, and may ask the definition what infinity is
    monkeypatch.setattr(type(fmt), "define", refuse)
    monkeypatch.setattr(type(fmt), "inside", refuse)
    assert torch.equal(fmt.forward(x), want)
    _, gate = FAST[type(fmt), "cpu"].masked(fmt, x)
    assert torch.equal(torch.ones_like(inside) if gate is None else gate, inside)


@pytest.mark.sampled(0.34)
@pytest.mark.parametrize("fmt", [d for d in DEFAULTS if not d.stochastic], ids=str)
@pytest.mark.parametrize("count", [1, 2, 5])
def test_threads_change_nothing(fmt: Format, count: int) -> None:
    torch.set_num_threads(count)
    agrees(fmt, tame(torch.float32, (1037, 960)))


@pytest.mark.parametrize("fmt", [f for f in SCALED if getattr(f, "granularity", "") == "tensor"], ids=str)
def test_scales_of_whole_tensors_are_found_by_all_threads(fmt: ScaledFormat) -> None:
    torch.set_num_threads(2)
    x = tame(torch.float32, (701, 511))
    assert torch.equal(bits(fmt.forward(x) + 0.0), bits(fmt.define(x) + 0.0))


@pytest.mark.slow
@pytest.mark.parametrize("fmt", SCALED, ids=str)
@float32_and_one
def test_given_scales(fmt: ScaledFormat, dtype: torch.dtype) -> None:
    for shape in ((24, 96), (3, 4, 37), (5,), ()):
        x = tame(dtype, shape)
        special = torch.tensor(SPECIAL, dtype=torch.float64).to(dtype)
        for factor in (0.75, 1e-3, 3e4):
            scale = fmt.scale_of(x) * factor
            for given in (x, special.expand(*shape[:-1], len(SPECIAL))[..., : shape[-1]] if shape else x):
                if tuple(scale.shape) == fmt.scale_shape(tuple(given.shape)):
                    got, want = fmt.forward_with(given, scale), fmt.with_scale(given, scale)
                    free = isinstance(fmt, ScaledInteger) and not fmt.symmetric
                    assert torch.equal(bits(got + 0.0 if free else got), bits(want + 0.0 if free else want))


@pytest.mark.slow
@pytest.mark.parametrize("fmt", DEFAULTS, ids=str)
@float32_and_some
def test_gradients_are_those_of_the_definition(fmt: Format, dtype: torch.dtype) -> None:
    x = tame(dtype).requires_grad_()
    upstream = tame(dtype, seed=4)
    straight_through(fmt, x).backward(upstream)
    assert x.grad is not None and torch.equal(x.grad, upstream * fmt.inside(x.detach()))
    x.grad = None
    straight_through(fmt, x).sum().backward()  # an expanded gradient
    assert torch.equal(x.grad, torch.ones_like(upstream) * fmt.inside(x.detach()))


def test_a_gate_is_kept_only_where_something_lies_outside() -> None:
    fast = FAST[Integer, "cpu"]
    assert fast.masked(Integer(8, 4), torch.zeros(5))[1] is None
    gate = fast.masked(Integer(8, 4), torch.tensor([0.0, 99.0]))[1]
    assert gate is not None and gate.tolist() == [True, False] and gate.element_size() == 1


def test_what_is_no_plain_tensor_takes_the_definition() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    fmt = Integer(8, 4)
    assert straight_through(fmt, torch.ones(3, dtype=torch.float64)).dtype == torch.float64
    with FakeTensorMode():
        assert straight_through(fmt, torch.ones(3, 4)).shape == (3, 4)


def test_denormals_and_extremes_are_left_to_the_definition() -> None:
    fmt = parse_format("mxint")
    assert cpu.quantize(fmt, torch.full((2, 32), 1e-40), False) is None
    assert cpu.quantize(fmt, torch.full((2, 32), 1e-20), False) is not None


def run(code: str, *, root: Path = ROOT, **environment: Any) -> str:
    """What a fresh interpreter prints."""
    every = os.environ | {"PYTHONPATH": str(root)} | environment
    done = subprocess.run(
        [sys.executable, "-c", code], env=every, cwd=root, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_registering_loads_nothing_heavy() -> None:
    assert run("import sys, espalier.passes; print({'torch', 'numba', 'triton'} & set(sys.modules))").strip() == "set()"


@pytest.mark.slow
def test_everything_works_without_numba() -> None:
    """Missing when registered, or broken when first needed."""
    use = "import torch; from espalier.model.formats.base import FAST, parse_format;"
    use += "from espalier.model.formats.straight_through import straight_through; f = parse_format('mxint');"
    use += "x = torch.randn(4, 64).requires_grad_(); straight_through(f, x).sum().backward();"
    use += "print(torch.equal(f.forward(x.detach()), f.define(x.detach())), (type(f), 'cpu') in FAST)"
    hidden = "import sys, importlib.util as u; find = u.find_spec;"
    hidden += "u.find_spec = lambda name, *a: None if name == 'numba' else find(name, *a); import espalier.passes;"
    assert run(hidden + use).split() == ["True", "False"]
    assert run("import sys; import espalier.passes; sys.modules['numba'] = None;" + use).split() == ["True", "True"]


@pytest.mark.slow
@pytest.mark.parametrize("text", ["integer(width=32, frac_width=0)", "minifloat_ieee", "log", "binary", "mxint"])
def test_bits_of_every_float16(text: str) -> None:
    """What lies above the largest number, infinity included, is clipped by its pattern; NaN stays."""
    agrees(parse_format(text), torch.arange(2**16).to(torch.int16).view(torch.float16))


@pytest.mark.parametrize("place", [0, 2047, 2048, 4095, 4999])
@float32_and_one
def test_the_largest_of_a_tensor_is_found_wherever_it_lies(place: int, dtype: torch.dtype) -> None:
    x = tame(dtype, (5000,)).clamp(-4, 4)
    x[place] = -11
    for fmt in (ScaledInteger(8, "tensor"), parse_format("nvfp4")):
        agrees(fmt, x)


@pytest.mark.slow
def test_loops_are_compiled_once_a_machine(tmp_path: Path) -> None:
    """What a loop closes over must be the same in the next process, or its cache is never found; checkouts share it."""
    use = "import torch, espalier.passes; from espalier.kernels.fake_quant import cpu;"
    use += "from espalier.model.formats.base import parse_format;"
    use += "[parse_format(t).forward(torch.ones(2, 32)) for t in ('mxint', 'nvfp4', 'int8(granularity=group(32))')];"
    use += "loops = cpu.LOOPS['fixed_blocks'][32], cpu.LOOPS['nvfp4'][16], cpu.LOOPS['scaled_groups'][32];"
    use += "print([sum(loop.stats.cache_hits.values()) for loop in loops])"
    folder: dict[str, Any] = {"XDG_CACHE_HOME": str(tmp_path), "NUMBA_CACHE_DIR": ""}
    assert run(use, **folder).strip() == "[0, 0, 0]"
    assert run(use, **folder).strip() == "[1, 1, 1]"
    for package in ("kernels", "model", "passes", "verilog"):
        to = tmp_path / "other" / "espalier" / package
        shutil.copytree(ROOT / "espalier" / package, to, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "espalier" / "__init__.py", tmp_path / "other" / "espalier")
    where = f"import espalier.kernels.fake_quant as here; assert {str(tmp_path)!r} in here.__file__;"
    assert run(where + use, root=tmp_path / "other", **folder).strip() == "[1, 1, 1]"


@pytest.mark.slow
def test_a_folder_that_cannot_be_written_costs_only_the_cache(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    code = "import torch, espalier.passes; from espalier.model.formats.integer import Integer;"
    code += "print(Integer().forward(torch.ones(2)))"
    assert "tensor([1., 1.])" in run(code, XDG_CACHE_HOME=str(tmp_path / "cache"), NUMBA_CACHE_DIR="")
