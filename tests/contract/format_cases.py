"""What the contract tests of number formats share: the variants tried, the inputs tried on them, brute force.

Formats whose scale is a float of the data or is given, and stochastic ones, have their own file of tests.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from espalier.model.formats.base import Array, Format, make_format
from espalier.model.formats.blocks import BlockFormat
from espalier.model.formats.scaled import ScaledFormat
from espalier.model.formats.straight_through import straight_through
from espalier.model.registry import FORMATS

VARIANTS: dict[str, tuple[dict[str, Any], ...]] = {
    "integer": (
        {"width": 8, "frac_width": 4},
        {"width": 8, "frac_width": 4, "rounding": "floor"},
        {"width": 8, "frac_width": 4, "signed": False},
        {"width": 8, "frac_width": 4, "signed": False, "rounding": "floor"},
        {"width": 1, "frac_width": 0},
        {"width": 1, "frac_width": 0, "signed": False},
        {"width": 2, "frac_width": 1},
        {"width": 4, "frac_width": -2},
        {"width": 4, "frac_width": -32},
        {"width": 4, "frac_width": -32, "rounding": "floor"},
        {"width": 7, "frac_width": 12},
        {"width": 8, "frac_width": 64},
        {"width": 8, "frac_width": 64, "rounding": "floor"},
        {"width": 16, "frac_width": 8},
        {"width": 24, "frac_width": 20},
        {"width": 25, "frac_width": 20},
        {"width": 32, "frac_width": 16},
        {"width": 32, "frac_width": -32},
        {"width": 32, "frac_width": 64, "signed": False},
    ),
    "minifloat_ieee": (
        {},
        {"reserved": "nan"},
        {"exponent_width": 5, "reserved": "inf"},
        {"width": 6, "exponent_width": 3},
        {"width": 6, "exponent_width": 2},
        {"width": 4, "exponent_width": 2},
        {"width": 4, "exponent_width": 2, "reserved": "nan"},
        {"width": 4, "exponent_width": 3},
        {"width": 2, "exponent_width": 1},
        {"width": 8, "exponent_width": 1},
        {"width": 8, "exponent_width": 4, "exponent_bias": 15},
        {"width": 8, "exponent_width": 2, "exponent_bias": -124},
        {"width": 8, "exponent_width": 4, "exponent_bias": 147},
        {"width": 8, "exponent_width": 7},
        {"width": 16, "exponent_width": 5, "reserved": "inf"},
        {"width": 16, "exponent_width": 8, "reserved": "inf"},
        {"width": 19, "exponent_width": 8, "reserved": "inf"},
        {"width": 32, "exponent_width": 4},
        {"width": 32, "exponent_width": 8, "reserved": "inf"},
    ),
    "minifloat_denorm": (
        {},
        {"width": 6, "exponent_width": 2},
        {"width": 4, "exponent_width": 2},
        {"width": 8, "exponent_width": 3, "exponent_bias": 15},
        {"width": 8, "exponent_width": 2, "exponent_bias": -125},
        {"width": 8, "exponent_width": 3, "exponent_bias": 145},
        {"width": 16, "exponent_width": 3},
        {"width": 32, "exponent_width": 4},
    ),
    "log": (
        {},
        {"width": 2},
        {"width": 4},
        {"width": 4, "exponent_bias": 15},
        {"width": 4, "exponent_bias": -120},
        {"width": 4, "exponent_bias": 150},
        {"width": 16},
        {"width": 32},
    ),
    "block_fp": (
        {},
        {"width": 4, "exponent_width": 4, "block": 32},
        {"width": 2, "block": 2},
        {"width": 8, "exponent_width": 1, "block": 5},
        {"width": 8, "exponent_width": 3, "exponent_bias": 5},
        {"width": 6, "exponent_width": 5, "exponent_bias": 1, "block": 8},
        {"width": 6, "block": 4, "rows": 3},
        {"width": 16, "block": 16},
        {"width": 32, "block": 16},
    ),
    "block_minifloat": (
        {},
        {"exponent_bias_width": 4, "block": 32},
        {"width": 4, "exponent_width": 2, "block": 7},
        {"width": 4, "exponent_width": 3, "block": 8},
        {"width": 8, "exponent_width": 6, "exponent_bias_width": 1},
        {"width": 6, "exponent_width": 3, "block": 4, "rows": 2},
        {"width": 16, "exponent_width": 3},
        {"width": 32, "exponent_width": 4},
    ),
    "block_log": (
        {},
        {"exponent_bias_width": 4, "block": 32},
        {"width": 2, "block": 3},
        {"width": 4, "block": 8},
        {"width": 5, "block": 4, "rows": 2},
        {"width": 16},
        {"width": 32, "exponent_bias_width": 4},
    ),
    "mxint": (
        {},
        {"width": 4},
        {"width": 2, "block": 2},
        {"width": 8, "block": 16, "rows": 2},
        {"width": 8, "block": 1},
        {"width": 16},
        {"width": 24},
        {"width": 32, "block": 5},
    ),
    "mxfp": (
        {},
        {"element": "e5m2"},
        {"element": "e3m2"},
        {"element": "e2m3"},
        {"element": "e2m1", "block": 16},
        {"element": "e4m3", "block": 4, "rows": 4},
    ),
    "nvfp4": ({}, {"block": 5}, {"block": 4, "rows": 4}),
    "nvfp4_row": ({}, {"block": 5}),
}
FLOAT = np.finfo(np.float32)
POWERS = 2.0 ** np.arange(-149, 129)


def covered(cls: type[Format]) -> bool:
    """Whether these tests hold a format to its contract."""
    return not issubclass(cls, ScaledFormat) and not cls.stochastic


def every() -> list[Format]:
    """All variants of all registered formats, the plain default where no variant is listed."""
    names = [name for name, cls in FORMATS.items() if covered(cls)]
    return [make_format(name, values) for name in names for values in VARIANTS.get(name, ({},))]


FORMS = every()
ELEMENTWISE = [f for f in FORMS if not isinstance(f, BlockFormat)]
BLOCKED = [f for f in FORMS if isinstance(f, BlockFormat)]


def floors(fmt: Format) -> bool:
    """Whether a format rounds down."""
    return getattr(fmt, "rounding", "") == "floor"


def logarithmic(fmt: Format) -> bool:
    """Whether nearness is measured in the log domain."""
    return fmt.name in ("log", "block_log")


def spread(fmt: Format) -> Array:
    """Values of an element: all of them, or some where there are many; ascending float32."""
    if fmt.element_bits <= 8:
        return fmt.codes()
    rng = np.random.default_rng(5)
    span = 2.0 if isinstance(fmt, BlockFormat) else float(np.abs(apply(fmt, np.array([-np.inf, np.inf], "f4"))).max())
    wide = np.ldexp(rng.uniform(-1, 1, 200), rng.integers(-40, 1, 200)) * span
    one = wide.astype(np.float32)[:, None] if isinstance(fmt, BlockFormat) else wide.astype(np.float32)
    return np.unique(apply(fmt, one))


def around(fmt: Format) -> Array:
    """The element's values, the middles between them, and the floats beside all of those."""
    codes = spread(fmt)
    middles = ((codes[1:].astype(np.float64) + codes[:-1]) / 2).astype(np.float32)
    if logarithmic(fmt):  # thresholds are geometric means
        below, above = codes[:-1].astype(np.float64), codes[1:].astype(np.float64)
        middles = np.concatenate(
            [middles, (np.sign(below + above) * np.sqrt(np.abs(below * above))).astype(np.float32)]
        )
    found = np.concatenate([codes, middles])
    with np.errstate(over="ignore"):
        beside = [np.nextafter(found, np.float32(s)) for s in (-np.inf, np.inf)]
    return np.concatenate([found, *beside])


def probes(fmt: Format, count: int = 20_000) -> Array:
    """Finite float32 inputs: flat, or rows that do not fill their last block.

    Random values at the format's scale and at every scale, all midpoints ±1 ulp, the extremes.
    """
    rng = np.random.default_rng(7)
    return block_probes(fmt, count, rng) if isinstance(fmt, BlockFormat) else flat_probes(fmt, count, rng)


def flat_probes(fmt: Format, count: int, rng: np.random.Generator) -> Array:
    """Inputs of an elementwise format, each with its negative."""
    near = around(fmt)
    span = max(float(np.abs(near).max()), float(FLOAT.tiny))
    scales = np.ldexp(rng.uniform(-1, 1, 2000), rng.integers(-149, 128, 2000))
    edges = [0.0, FLOAT.tiny, FLOAT.smallest_subnormal, 1e-40, FLOAT.max, FLOAT.eps, 1.0, 0.1]
    parts = [near, scales, edges, rng.uniform(-2, 2, count) * span, rng.normal(0, span / 3, count)]
    return mirrored(np.concatenate([np.clip(p, -FLOAT.max, FLOAT.max).astype(np.float32) for p in parts]))


def block_probes(fmt: BlockFormat, count: int, rng: np.random.Generator) -> Array:
    """Inputs of a block format: values, midpoints and their neighbours under every power of two, random blocks."""
    wide = 2 * fmt.blocks.block + max(fmt.blocks.block // 2, 1)
    tall = max(count // wide, 40)
    shape, scale = (tall, wide), rng.integers(-150, 128, (tall, 1))
    picked = np.ldexp(rng.choice(around(fmt).astype(np.float64), shape), scale)
    tame = np.ldexp(rng.choice(around(fmt).astype(np.float64), shape), rng.integers(-12, 1, (tall, 1)))
    normal = np.ldexp(rng.normal(0, 1, shape), scale)
    uneven = np.ldexp(rng.uniform(-1, 1, shape), scale + rng.integers(-12, 1, shape))
    tops = np.ldexp(np.where(rng.random(shape) < 0.1, 1.0, rng.uniform(-1, 1, shape)), scale)
    edges = np.resize([0.0, FLOAT.tiny, FLOAT.smallest_subnormal, 1e-40, 0.0, FLOAT.max, FLOAT.eps, 1.0, 0.1], shape)
    edges[: tall // 2] = 0
    found = np.concatenate([picked, tame, normal, uneven, tops, edges])
    return mirrored(np.clip(found, -FLOAT.max, FLOAT.max).astype(np.float32))


def mirrored(x: Array) -> Array:
    """`x` and −x."""
    return np.concatenate([x, -x])


def apply(fmt: Format, x: Array) -> Array:
    """`quantize` of a numpy array."""
    return straight_through(fmt, torch.from_numpy(np.array(x))).numpy()


def apart(fmt: Format, values: Array) -> Array:
    """A flat array so laid out that no element sees another: one a row, and rows apart by zeros in a tile."""
    if not isinstance(fmt, BlockFormat):
        return values
    found = np.zeros((len(values), fmt.blocks.rows, 1), values.dtype)
    found[:, 0, 0] = values
    return found


def single(fmt: Format, found: Array) -> Array:
    """Undoes `apart`."""
    return found[:, 0, 0] if isinstance(fmt, BlockFormat) else found


def underflows(fmt: Format, x: Array) -> Array:
    """Where x·2^f falls to zero in float32, in which all maths is done (golden integer.json: floor of it is 0)."""
    shift = getattr(fmt, "frac_width", 0)
    with np.errstate(all="ignore"):
        return (x != 0) & (np.ldexp(x, shift).astype(np.float32) == 0)


# -- brute force


def nearest(codes: Array, x: Array, one_digit: bool = False, floor: bool = False) -> Array:
    """Nearest of all codes (ascending), float64; in a tie the one of even number, counted from zero.

    `one_digit`: numbers of one significant digit, where the larger is taken instead (IEEE 754-2019 §4.3.1), but zero
    before the smallest.
    """
    codes = codes.astype(np.float64)
    number = np.arange(len(codes)) - np.searchsorted(codes, 0)
    value = np.clip(x.astype(np.float64), codes[0], codes[-1])
    right = np.clip(np.searchsorted(codes, value, "left"), 0, len(codes) - 1)
    left = np.clip(right - 1, 0, len(codes) - 1)
    if floor:
        return np.where(codes[right] <= value, codes[right], codes[left])
    # The distances are exact where it matters: all terms are float32 values, held in float64.
    below, above = np.abs(value - codes[left]), np.abs(codes[right] - value)
    even = number[left] % 2 == 0
    if one_digit:
        even = (number[left] == 0) | ((number[right] != 0) & (value < 0))
    take_left = (below < above) | ((below == above) & even)
    return np.where(take_left, codes[left], codes[right])


def nearest_power(x: Array, low: Any, high: Any) -> Array:
    """The power of two nearest in the log domain by exact squares, 0 below 2^(low − ½); float64."""
    x = x.astype(np.float64)
    e = floor_log2(np.abs(x))
    e = e + (x * x > np.ldexp(1.0, 2 * e + 1))
    return np.where((x == 0) | (e < low), 0.0, np.sign(x) * np.ldexp(1.0, np.minimum(e, high)))


def floor_log2(x: Array) -> Array:
    """floor(log2 x) of x ≥ 2^−149, by comparison with the powers themselves; −150 below."""
    return np.searchsorted(POWERS, x, "right") - 150
