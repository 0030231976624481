"""The formulas that the window shows of FLOPs and bytes count what the bench counts."""

from __future__ import annotations

import math
import re

import pytest

from espalier.kernels.bench.catalogue import lab
from espalier.kernels.bench.counted import SWITCHES, bytes_formula, flops_formula
from espalier.kernels.bench.spec import KERNELS

NAMES = [name for name, _ in KERNELS.items()]


def _value(formula: str, sizes: dict[str, int]) -> int:
    """What a formula comes to."""
    text = re.sub(r"⌈([^⌉]*)⌉", r"ceil(\1)", re.sub(r"⌊([^⌋]*)⌋", r"floor(\1)", formula))
    text = text.replace("·", "*").replace("²", "**2").replace("−", "-")
    return eval(text, {"ceil": math.ceil, "floor": math.floor}, sizes)


@pytest.mark.parametrize("name", NAMES)
def test_formulas_count_as_the_bench_does(name: str) -> None:
    kernel = KERNELS.get(name)
    for shape in (*kernel.shapes["cpu"], *kernel.sweep["cuda"]):
        plain = shape | dict.fromkeys(SWITCHES, 0) if "causal" in shape else shape
        assert _value(flops_formula(kernel), plain) == kernel.flops(plain)
        for size in (2, 4):
            assert _value(bytes_formula(kernel), {**plain, "e": size}) == kernel.traffic(plain, size)
            for version in kernel.versions:
                moved = (version.traffic or kernel.traffic)(plain, size)
                assert _value(bytes_formula(kernel, version), {**plain, "e": size}) == moved


def test_lab_tells_families_versions_and_devices() -> None:
    found = lab()
    assert [k.name for k in found.kernels] == NAMES
    assert all(k.family and k.flops and k.bytes and all(v.bytes for v in k.versions) for k in found.kernels)
    assert "cpu" in found.machines and set(found.machines) | set(found.missing) == {"cpu", "cuda"}
