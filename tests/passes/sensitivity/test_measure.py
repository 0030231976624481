"""What counts as a change between a baseline and a graph that is measured against it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from espalier.model.data.base import Split
from espalier.model.formats.base import parse_format
from espalier.model.graph.meta import Precision
from espalier.model.opening import open_source
from espalier.model.torch.build import build
from espalier.model.trust import Origin
from espalier.passes.base import Context
from espalier.passes.sensitivity.measure import Baseline
from espalier.passes.transform.hardware_functions import HardwareFunctionsOptions, hardware_functions

CLASSIFIER = """
import torch

def classifier():
    torch.manual_seed(0)
    layers = [torch.nn.Linear(6, 8), torch.nn.Softmax(-1), torch.nn.ReLU(), torch.nn.Unflatten(1, (2, 4)),
              torch.nn.Flatten(), torch.nn.Linear(8, 3)]
    return torch.nn.Sequential(*layers).eval(), {"input": torch.randn(4, 6)}
"""


def test_other_arithmetic_is_a_change(tmp_path: Path) -> None:
    (tmp_path / "classifier.py").write_text(CLASSIFIER)
    opened = open_source(f"{tmp_path / 'classifier.py'}:classifier", tmp_path / "work", origin=Origin.TYPED)
    context = Context(opened.store, callables=opened.callables, base=opened.project.base)
    some, fine = (Precision(parse_format(f"integer(width={w}, frac_width={w - 3})")) for w in (8, 12))
    chosen = {"linear": {"data_in": some, "weight": some, "bias": some}, "softmax": {"data_in": some, "data_out": fine}}
    graph = opened.project.base
    scored = graph.replace(*(replace(n, precision=chosen[n.op]) for n in graph if n.op in chosen))
    hardware = hardware_functions(scored, HardwareFunctionsOptions(), context)[0]
    assert [n.op for n in hardware if n.arithmetic == "hardware"] == ["softmax"]
    assert [n.precision for n in hardware] == [n.precision for n in scored]

    x = np.random.default_rng(0).standard_normal((64, 6)).astype(np.float32)
    split = Split({"input": x}, np.zeros(64, np.int64))
    with torch.no_grad():
        before, after = (
            torch.as_tensor(build(g, opened.store)(torch.from_numpy(x))).double().log_softmax(-1)
            for g in (scored, hardware)
        )
    true = float((before.exp() * (before - after)).sum(-1).mean())
    assert true > 0
    assert np.isclose(Baseline(scored, split, 16, context).measure(hardware).kl, true, rtol=1e-5)
