"""Every module of the library in sizes drawn at random: slang elaborates it without an error."""

from __future__ import annotations

import importlib.util

import pytest

from espalier.verilog.design.template import Template
from espalier.verilog.proof.lint import slang
from espalier.verilog.rtl.write import texts
from tests.benchmarks.rtl_configurations import configurations, held_out
from tests.verilog.checks import alone

EACH = 3  # of a module


def _some() -> list[Template]:
    found: dict[str, list[Template]] = {}
    for template in (*configurations(), *held_out()):
        found.setdefault(template.module, []).append(template)
    return [t for many in found.values() for t in many[:EACH]]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("pyslang") is None, reason="pyslang is not installed")
def test_slang_reads_every_module() -> None:
    some = _some()
    assert len({t.module for t in some}) > 25
    assert not {t.module: found for t in some if (found := slang(texts(alone(t)), "top"))}
