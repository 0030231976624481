"""The step by which a cost finds what its shares are made of: its finder, with the data and the formats at hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from espalier.model.document.recipe import Step
from espalier.model.formats.base import Format
from espalier.model.registry import PASSES
from espalier.passes.choices.edits import bare
from espalier.passes.running.splits import WHICH, EvaluateOptions

SAME = ("split", *WHICH)  # taken over from the options at hand


def finding(name: str, data: EvaluateOptions, formats: Sequence[Format]) -> Step:
    """Formats that differ in what is fitted to each layer alone are asked for once."""
    options: Any = PASSES.get(name).options
    known = {f.name for f in fields(options)}
    given: dict[str, Any] = {n: getattr(data, n) for n in SAME if n in known}
    if "formats" in known:
        given["formats"] = tuple({bare(f): f for f in formats}.values())
    return Step(name, options(**given))
