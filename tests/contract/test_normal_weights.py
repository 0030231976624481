"""The benchmark's table of normal weights against the figures that were known beforehand."""

from __future__ import annotations

import pytest

from espalier.model.formats.base import parse_format
from tests.benchmarks.normal_sqnr import REFERENCES, row


@pytest.mark.parametrize("text", REFERENCES)
def test_the_reference_figures_come_out(text: str) -> None:
    found = row(parse_format(text))
    assert found["db, 0.02"] == found["reference"] == REFERENCES[text]


def test_most_of_small_weights_vanish_in_coarse_steps() -> None:
    assert row(parse_format("integer(width=8, frac_width=4)"))["not 0, 0.02"] == 0.119
