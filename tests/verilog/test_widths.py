"""Changes of elements and rows a beat: any to any, bit for bit and on time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.verilog.design.netlist import Boundary, Design, Wire
from espalier.verilog.design.stream import Stream
from espalier.verilog.design.template import Template
from espalier.verilog.lowering.widths import changes
from espalier.verilog.numbers.fixed import Fixed
from espalier.verilog.proof.simulate import build, run
from espalier.verilog.templates.reorder import Reorder
from espalier.verilog.templates.resize import Resize
from espalier.verilog.timing.schedule import schedule
from tests.verilog.checks import needs_icarus, random_codes


def chained(now: Stream, then: Stream) -> Design:
    """The modules between two streams, in a design."""
    instances: list[Template] = []
    wires: dict[str, tuple[Wire, ...]] = {}
    wire = Wire("", 0)
    for k, (came, leaves, order) in enumerate(changes(now, then.par, then.tokens)):
        name = f"m{k}"
        if order is None:
            instances.append(Resize(name=name, node=name, inputs=(came,), outputs=(leaves,)))
        else:
            instances.append(Reorder(name=name, node=name, inputs=(came,), outputs=(leaves,), beats=order))
        wires[name], wire = (wire,), Wire(name)
    plain, shape = np.arange(now.elements), (now.rows, now.size)
    ends = Boundary("x", now, "x", shape, plain), Boundary("y", then, "y", shape, plain)
    return Design("top", ends[:1], ends[1:], tuple(instances), wires, (wire,))


@needs_icarus
@pytest.mark.rtl
@settings(max_examples=5)
@given(st.data())
def test_any_to_any(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    rows, size = (data.draw(st.sampled_from((1, 2, 4, 6))) for _ in range(2))
    some = [n for n in (1, 2, 3, 4, 6) if size % n == 0]
    many = [n for n in (1, 2, 3, 4, 6) if rows % n == 0]
    fixed = Fixed(3, 1)
    now, then = (
        Stream(rows, size, fixed, data.draw(st.sampled_from(some)), data.draw(st.sampled_from(many))) for _ in "xy"
    )
    design = chained(now, then)
    design.check()
    codes = random_codes(np.random.default_rng(0), now, 3)
    np.testing.assert_array_equal(then.reads(*_end(design, codes)), codes)
    built = build(design, 3, tmp_path_factory.mktemp("builds"), "icarus")
    for stall in range(4):
        done = run(design, built, (codes,), stall, limit=100_000)
        assert not done.stuck and not done.mismatches
        if stall == 0:
            for wire, stamps in schedule(design, 3).stamps.items():
                np.testing.assert_array_equal(done.cycles[wire] - done.cycles[Wire("", 0)][0], stamps)


def _end(design: Design, codes: np.ndarray) -> tuple[Stream, np.ndarray]:
    wire = design.ends[0]
    return design.stream(wire), design.run(codes)[wire]
