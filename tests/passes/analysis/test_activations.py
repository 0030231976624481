"""Samples of activations: of the right ports, in rows, with the range of all that was seen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from espalier.model.errors import DataError
from espalier.model.opening import open_source
from espalier.passes.analysis.activations import (
    MAX_VALUES,
    ActivationOptions,
    ActivationSample,
    activation_ports,
    activations,
)
from espalier.passes.base import Context


def test_samples_of_the_digits_demo(tmp_path: Path) -> None:
    opened = open_source("demo:digits-mlp", tmp_path)
    graph, heard = opened.project.graph, list[object]()
    context = Context(opened.store, found=heard.append, callables=opened.callables)
    _, report = activations(graph, ActivationOptions(data="demo:digits-mlp", limit=8), context)
    found = {(h.node, h.port): h for h in heard if isinstance(h, ActivationSample)}
    assert set(found) == {(n.id, p) for n in graph for p in activation_ports(n)} and found
    for row in report.rows:
        held = found[row["node"], row["port"]]
        assert held.rows.dtype == np.float32 and 0 < held.rows.size <= MAX_VALUES
        assert held.least == row["min"] <= held.rows.min() and held.rows.max() <= held.most == row["max"]
    first = next(n for n in graph if n.op == "linear")
    width = graph.weights[first.weights["weight"]].shape[1]
    assert found[first.id, "data_in"].rows.shape == (8, width) and found[first.id, "data_in"].elements == 8 * width


def test_without_data_it_says_so(tmp_path: Path) -> None:
    opened = open_source("demo:digits-mlp", tmp_path)
    with pytest.raises(DataError, match="no data"):
        activations(opened.project.graph, ActivationOptions(), Context(opened.store))
