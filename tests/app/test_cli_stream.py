"""The arguments of `stream` as steps of a recipe."""

from __future__ import annotations

from argparse import Namespace

import pytest

from espalier.app.commands.command import UsageError
from espalier.app.commands.stream import recipe_of

NONE = {"recipe": None, "preset": None, "uneven": "error", "method": [], "calibration": None, "samples": 128, "seed": 3}


def test_methods_come_before_and_after_the_formats() -> None:
    given = {"preset": "w4a16_g128", "uneven": "channel", "method": ["gptq", "smoothquant"], "calibration": "t.txt"}
    steps = recipe_of(Namespace(**{**NONE, **given})).steps
    assert [s.pass_name for s in steps] == ["smoothquant", "quantize_preset", "gptq"]
    assert steps[1].options.uneven == "channel" and steps[1].options.preset == "w4a16_g128"
    assert all(steps[i].options.data == "t.txt" and steps[i].options.limit == 128 for i in (0, 2))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"method": ["gptq"], "calibration": "t.txt"}, "needs formats"),
        ({"method": ["gptq"], "preset": "w4a16_g128"}, "need one another"),
        ({"calibration": "t.txt", "preset": "w4a16_g128"}, "need one another"),
        ({"recipe": "r.toml", "preset": "w4a16_g128"}, "has its own steps"),
    ],
)
def test_arguments_that_exclude_one_another(given: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        recipe_of(Namespace(**{**NONE, **given}))
