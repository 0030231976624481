"""MX weights: packed models compute what the fake-quantised ones do, in less memory; what cannot be packed is said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from espalier.model.document.codec import decode
from espalier.model.document.graph_json import graph_from_json, graph_to_json
from espalier.model.document.recipe import Step
from espalier.model.errors import OptionsError, PassError
from espalier.model.formats.integer import Integer
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Precision
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import build
from espalier.model.torch.mx_weights import MXLinear, plain, values
from espalier.model.trace.trace import trace
from espalier.passes.analysis.memory import MemoryOptions
from espalier.passes.analysis.profile import ProfileOptions
from espalier.passes.base import Context, run_step
from espalier.passes.transform.pack_mx import PackMXOptions, pack_mx

X = {"input": torch.randn(5, 70, generator=torch.Generator().manual_seed(0))}


def opened(folder: Path) -> tuple[Graph, Context]:
    """An MLP whose rows no block divides."""
    torch.manual_seed(0)
    store = WeightStore(folder)
    model = nn.Sequential(nn.Linear(70, 64), nn.ReLU(), nn.Linear(64, 3, bias=False))
    return trace(model.eval(), dict(X), store).graph, Context(store)


def ran(graph: Graph, context: Context, *, packed: bool) -> Tensor:
    """The result."""
    with torch.no_grad():
        found = build(graph, context.store, packed=packed)(**{graph.placeholders[0].target: X["input"]})
    return found[0] if isinstance(found, tuple) else found


@pytest.mark.parametrize("width", ["8", "4"])
def test_packed_is_the_fake_quantised_model_in_less_memory(tmp_path: Path, width: str) -> None:
    graph, context = opened(tmp_path)
    after, report = pack_mx(graph, PackMXOptions(width=width), context)  # type: ignore[arg-type]
    assert torch.equal(ran(after, context, packed=True), ran(after, context, packed=False))
    assert not torch.equal(ran(after, context, packed=True), ran(graph, context, packed=False))
    module = build(after, context.store, packed=True)
    layers = [m for m in module.modules() if isinstance(m, MXLinear)]
    held = sum(m.codes.nbytes + m.exponents.nbytes for m in layers)
    assert len(layers) == 2 and held == report.summary["bytes"]
    assert report.summary["bytes_before"] == 4 * (70 * 64 + 64 * 3)
    assert not any(p.ndim == 2 for p in module.parameters())
    assert report.summary["saved"] > (0.73 if width == "8" else 0.85)


def test_a_width_may_be_written_as_a_number() -> None:
    assert [decode(PackMXOptions, {"width": w}).width for w in (8, 4, "8", "as it is")] == ["8", "4", "8", "as it is"]
    for wrong in (5, 8.5, True, None):
        with pytest.raises(OptionsError, match="width is"):
            decode(PackMXOptions, {"width": wrong})


def test_the_choice_is_saved_and_the_model_still_trains(tmp_path: Path) -> None:
    graph, context = opened(tmp_path)
    after, _ = pack_mx(graph, PackMXOptions(width="8"), context)
    again = graph_from_json(graph_to_json(after))
    assert again == after and any(n.packed for n in again)
    assert "packed" not in str(graph_to_json(graph))
    module = build(after, context.store)
    assert sum(p.requires_grad and p.ndim == 2 for p in module.parameters()) == 2


def test_all_dtypes_and_a_rounded_bias_that_moves_along(tmp_path: Path) -> None:
    graph, context = opened(tmp_path)
    after, _ = pack_mx(graph, PackMXOptions(width="8"), context)
    first = next(n for n in after if "bias" in n.weights)
    rounded = replace(first, precision={**first.precision, "bias": Precision(Integer(8, 6))})
    module = build(after.replace(rounded), context.store, packed=True)
    kept = {p.shape for p in module.parameters()}
    assert (64,) in kept and all(v.dtype == torch.float64 for v in module.double().parameters())
    held = next(m for m in module.modules() if isinstance(m, MXLinear)).packed
    assert torch.equal(values(held, torch.float64), plain(held, torch.float64))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("width", ["8", "4"])
def test_torch_compile_finds_one_graph_of_the_same_values(tmp_path: Path, width: str) -> None:
    graph, context = opened(tmp_path)
    after, _ = pack_mx(graph, PackMXOptions(width=width), context)  # type: ignore[arg-type]
    module = build(after, context.store, packed=True)
    name = after.placeholders[0].target
    with torch.no_grad():
        once = torch.compile(module, backend="aot_eager", fullgraph=True)(**{name: X["input"]})
    torch.compiler.reset()
    found = once[0] if isinstance(once, tuple) else once
    assert torch.equal(found, ran(after, context, packed=False))


def test_timed_and_measured_runs_hold_codes(tmp_path: Path) -> None:
    graph, context = opened(tmp_path)
    after, report = pack_mx(graph, PackMXOptions(width="8"), context)
    saved = report.summary["bytes_before"] - report.summary["bytes"]
    wishes = (("memory", MemoryOptions(), "model_in_memory"), ("profile", ProfileOptions(runs=1), "weights_bytes"))
    for name, options, key in wishes:
        plainly, packed = (run_step(g, Step(name, options), context).report.summary for g in (graph, after))
        assert plainly[key] - packed[key] == saved
        assert "rounded_copies_in_memory" not in packed


def test_floats_are_refused_in_words(tmp_path: Path) -> None:
    graph, context = opened(tmp_path)
    with pytest.raises(PassError, match="weight is in float") as caught:
        pack_mx(graph, PackMXOptions(), context)
    assert "width" in caught.value.hint
