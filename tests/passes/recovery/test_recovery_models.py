"""Each recovery works on models of every kind: functions with stored weights, experts, recorded models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from espalier.model.data.base import Split
from espalier.model.errors import PassError
from espalier.model.formats.base import parse_format
from espalier.model.graph.check import check
from espalier.model.graph.graph import Graph
from espalier.passes.base import Context
from espalier.passes.choices.gptq import GptqOptions
from espalier.passes.transform.bias_correction import BiasCorrectionOptions, bias_correction
from espalier.passes.transform.gptq import gptq
from espalier.passes.transform.mse_clip import MseClipOptions, mse_clip
from espalier.passes.transform.smoothquant import SmoothquantOptions, smoothquant
from tests.model.zoo import Case, case
from tests.passes.recovery.recovery_cases import with_format

PASSES: dict[str, Any] = {
    "gptq": (gptq, GptqOptions(data="given")),
    "bias_correction": (bias_correction, BiasCorrectionOptions(data="given")),
    "mse_clip": (mse_clip, MseClipOptions(data="given")),
    "smoothquant": (smoothquant, SmoothquantOptions(data="given", insert=True)),
}
NAMES = ("mlp", "twice", "tied", "attention", "image", "bert", "mixtral", "choosy", "no-grad", "odd")


def split_of(held: Case) -> Split:
    """Random samples of the model's kind."""
    made = held.fresh(24, 8, 5)
    inputs = {n.target: np.asarray(v) for n, v in zip(held.graph.placeholders, made.values(), strict=True)
              if n.target != "labels"}  # fmt: skip
    return Split(inputs, np.zeros(24, np.int64))


def results(held: Case, graph: Graph) -> torch.Tensor:
    with torch.no_grad():
        found: Any = held.build(graph)(**{k: torch.from_numpy(v) for k, v in split_of(held).inputs.items()})
    while not isinstance(found, torch.Tensor):
        found = next(v for v in (found.values() if isinstance(found, dict) else found) if v is not None)
    return found.float()


@pytest.mark.slow
@pytest.mark.sampled(0.4)
@pytest.mark.parametrize(
    "fmt", ["scaled_integer(width=3)", "mxint(width=3, block=4)", "integer(width=4, frac_width=1)"]
)
@pytest.mark.parametrize("name", NAMES)
def test_any_model(name: str, fmt: str, monkeypatch: pytest.MonkeyPatch) -> None:
    held = case(name)
    before = with_format(held.graph, Context(held.store), ("linear", "conv2d"), weight=parse_format(fmt))
    monkeypatch.setattr("espalier.passes.running.splits.load_split", lambda *_: split_of(held))
    for key, (run, options) in PASSES.items():
        try:
            after, report = run(before, options, Context(held.store, callables=held.traced.callables))
        except PassError as error:
            assert error.hint and key != "gptq", error.message
            continue
        assert not [p for p in check(after) if p.severity == "error"] and report.rows
        assert results(held, after).isfinite().all()
        for row in report.rows:
            assert "skipped" in row or row.get("error", 0.0) is None or key == "smoothquant" or _no_worse(row)
        if key == "gptq" and fmt.startswith("scaled"):
            assert any(r.get("changed") for r in report.rows)


def _no_worse(row: dict[str, Any]) -> bool:
    pairs = (("error", "error_rounded"), ("error", "error_before"), ("shift", "shift_before"))
    return all(row[a] <= row[b] for a, b in pairs if a in row and b in row)
