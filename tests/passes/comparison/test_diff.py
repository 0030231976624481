"""Changes against edits made by hand, bytes against the packed layout, norms against numpy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import espalier as es
from espalier.model.packed.layout import plan
from espalier.model.store.weights import Tensor, WeightStore
from espalier.passes.comparison.diff import GraphDiff, compare_graphs
from espalier.passes.comparison.groups import grouped, ranges
from espalier.passes.comparison.norms import relative_distance
from espalier.passes.score import static_score

SOURCE = "config:bert?num_hidden_layers=4&hidden_size=64&num_attention_heads=2&intermediate_size=96&vocab_size=50"


@pytest.fixture(scope="module")
def bert() -> es.Model:
    """A foreign model of four layers."""
    return es.open(SOURCE)


def diff_of(a: es.Model, b: es.Model) -> GraphDiff:
    """The difference with norms."""
    return compare_graphs(a.project.graph, b.project.graph, (a._place.opened.store, b._place.opened.store))


def told(diff: GraphDiff) -> dict[tuple[str, str], tuple[object, object]]:
    """(node, what) → (A, B)."""
    return {(c.node, c.what): (c.a, c.b) for c in diff.changes}


@pytest.mark.slow
def test_equal_models_do_not_differ(bert: es.Model) -> None:
    found = diff_of(bert, bert.copy())
    assert not found and found.changes == () and found.renamed == 0 and not found.rewired


def test_each_kind_of_change_has_a_row() -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 8))
    a = es.trace(net, torch.randn(2, 64), name="Net")
    a.quantize("0", weight="int8")
    with torch.no_grad():
        net[2].bias += 1
    b = es.trace(net, torch.randn(2, 64), name="Net")
    b.quantize("0", weight="int8", data_in="int8").prune("2", sparsity=0.25)
    b.edit_graph([{"replace": {"node": "1", "op": "relu"}}, {"rename": {"node": "2", "name": "head"}}])  # type: ignore[attr-defined]
    rows = told(diff_of(a, b))
    assert rows["1", "op"] == ("gelu", "relu")
    assert rows["0", "data_in format"][0] == "float"
    assert rows["2", "weight sparsity"] == (0.0, 0.25)
    assert rows["2", "title"] == ("", "head")
    assert rows["2", "bias values"][0] == "8"
    assert ("0", "weight format") not in rows and ("2", "weight values") not in rows


def test_a_finer_scale_is_a_change_of_granularity(bert: es.Model) -> None:
    coarse, fine = bert.copy(), bert.copy()
    coarse.quantize("linear", weight="scaled_integer(width=8, granularity=tensor)")
    fine.quantize("linear", weight="scaled_integer(width=8, granularity=group, group=32)")
    found = diff_of(coarse, fine)
    assert {c.kind for c in found.changes} == {"granularity"}
    wider = bert.copy()
    wider.quantize("linear", weight="scaled_integer(width=4, granularity=group, group=32)")
    assert {c.kind for c in diff_of(coarse, wider).changes} == {"format"}


def test_bytes_add_up_to_those_of_the_packed_weights(bert: es.Model) -> None:
    """The reference is the score's own size, whose layout tests/model/packed hold against the written file."""
    b = bert.copy()
    b.quantize("linear", weight="int4").prune("linear", sparsity=0.5)
    found = diff_of(bert, b)
    total = sum(c.size_bytes or 0 for c in found.changes)
    before, after = static_score(bert.project.graph).size_bytes, static_score(b.project.graph).size_bytes
    assert total < 0 and abs((after - before) - total) < 4096, "but for the text of graph and header"
    linear = [c for c in found.changes if c.node == "encoder_layer_0_intermediate_dense"]
    # 96 × 64 float32 → 4 bits each and a float32 scale a row, then a bit of mask each and half the codes
    dense, masked = 96 * 64 * 4 // 8 + 96 * 4, 96 * 64 // 8 + 96 * 32 * 4 // 8 + 96 * 4
    assert linear[0].size_bytes == dense - 96 * 64 * 4
    assert linear[1].size_bytes == min(dense, masked) - dense


def test_bytes_of_formats_adapters_and_types_add_up() -> None:
    """The reference is the sum over the packed layout's tensors."""
    net = torch.nn.Sequential(torch.nn.Linear(32, 50), torch.nn.GELU(), torch.nn.Linear(50, 16))
    a, halves = es.trace(net, torch.randn(2, 32)), es.trace(net.half(), torch.randn(2, 32).half())
    adapted, quantised = a.copy(), halves.copy()
    adapted.quantize("linear", weight="int8").lora("linear", rank=4)
    quantised.quantize("linear", weight="int8")
    for b in (adapted, halves, quantised):
        expected = packed_bytes(b) - packed_bytes(a)
        assert sum(c.size_bytes or 0 for c in diff_of(a, b).changes) == expected != 0
        assert sum(c.size_bytes or 0 for c in diff_of(b, a).changes) == -expected
    added = [c.size_bytes for c in diff_of(a, adapted).changes if c.kind == "adapter"]
    assert added == [4 * 4 * (32 + 50), 4 * 4 * (50 + 16)], "rank 4, float32"


def packed_bytes(model: es.Model) -> int:
    """Bytes of all weights in the packed layout."""
    return sum(p.size for p in plan(model.project.graph))


def test_adapters_differ_by_alpha_and_by_their_matrices() -> None:
    torch.manual_seed(0)
    model = es.trace(torch.nn.Sequential(torch.nn.Linear(8, 6)), torch.randn(2, 8))
    a, wider = model.copy(), model.copy()
    a.lora("linear", rank=2, alpha=4)
    wider.lora("linear", rank=2, alpha=8)
    assert told(diff_of(a, wider))["0", "adapter"] == ("weight: LoRA r2, alpha 4", "weight: LoRA r2, alpha 8")
    graph = a.project.graph
    name = graph["0"].adapters["weight"].b
    store = a._place.opened.store
    trained = replace(graph.weights[name], key=store.hold(Tensor(np.ones((6, 2), np.float32), "float32")))
    moved = replace(graph, weights={**graph.weights, name: trained})
    (change,) = compare_graphs(graph, moved, (store, store)).changes
    assert (change.what, change.size_bytes, change.distance) == ("weight lora_B values", None, None), "B starts at 0"


def test_moved_weights_are_told_by_their_norm(tmp_path: Path) -> None:
    rng, store = np.random.default_rng(0), WeightStore(tmp_path)
    for shape, scale in (((7, 5), 1.0), ((1500, 1501), 1e-3), ((3,), 1e8)):
        x = rng.standard_normal(shape).astype(np.float32) * np.float32(scale)
        y = x + rng.standard_normal(shape).astype(np.float32) * np.float32(scale / 10)
        keys = [store.hold(Tensor(v, "float32")) for v in (x, y)]
        expected = np.linalg.norm(y.astype(np.float64) - x) / np.linalg.norm(x.astype(np.float64))
        assert relative_distance(store, keys[0], store, keys[1]) == pytest.approx(expected, rel=1e-12)
    bits = (np.arange(16, dtype=np.float32) + 1).view(np.uint32) >> 16
    halves = [store.hold(Tensor((bits + k).astype(np.uint16), "bfloat16")) for k in (0, 1)]
    values = [((bits + k) << 16).astype(np.uint32).view(np.float32).astype(np.float64) for k in (0, 1)]
    expected = np.linalg.norm(values[1] - values[0]) / np.linalg.norm(values[0])
    assert relative_distance(store, halves[0], store, halves[1]) == pytest.approx(expected)
    zero = store.hold(Tensor(np.zeros(16, np.float32), "float32"))
    assert relative_distance(store, zero, store, zero) is None, "no relation to zero"
    assert relative_distance(store, keys[0], store, halves[0]) is None, "another shape"
    assert relative_distance(store, "missing", store, zero) is None
    assert relative_distance(store, keys[0], store, keys[1], lambda: True) is None, "stopped"


def test_twins_are_one_row(bert: es.Model) -> None:
    a, b = bert.project.graph, bert.copy()
    b.quantize("linear", weight="int8")
    b.quantize(["encoder_layer_1_output_dense", "encoder_layer_2_output_dense"], weight="int4")
    groups = diff_of(bert, b).groups(a, b.project.graph)
    sizes = {(g.label, str(g.b).partition(",")[0]): len(g.nodes) for g in groups}
    assert sizes["encoder.layer.*.attention.self.query", "scaled_integer(width=8"] == 4
    assert sizes["encoder.layer.1–2.output.dense", "scaled_integer(width=4"] == 2
    assert sizes["encoder.layer.0, 3.output.dense", "scaled_integer(width=8"] == 2
    assert sizes["pooler.dense", "scaled_integer(width=8"] == 1


@pytest.mark.slow
def test_each_change_is_in_one_group(bert: es.Model) -> None:
    other = es.open(SOURCE.replace("layers=4", "layers=2"))
    found = diff_of(bert, other)
    groups = grouped(found.changes, bert.project.graph, other.project.graph)
    nodes = [(g.kind, g.what, n) for g in groups for n in g.nodes]
    assert sorted(nodes) == sorted((c.kind, c.what, c.node) for c in found.changes)
    gone = next(g for g in groups if g.kind == "removed")
    assert gone.label == "encoder.layer.2–3" and len(gone.nodes) == len(found.removed)


def test_ranges() -> None:
    assert ranges([3, 4, 5, 6, 7, 8]) == "3–8" and ranges([0, 2, 5, 6]) == "0, 2, 5–6"
    assert ranges([0, 2, 4, 6, 8]) == "*" and ranges([7]) == "7"


@pytest.mark.slow
def test_resized_layers_tell_shapes_not_their_repetition_in_attributes(bert: es.Model) -> None:
    narrow = es.open(SOURCE.replace("intermediate_size=96", "intermediate_size=80"))
    rows = told(diff_of(bert, narrow))
    node = "encoder_layer_0_intermediate_dense"
    assert rows[node, "weight shape"] == ("96 × 64", "80 × 64") and rows[node, "bias shape"] == ("96", "80")
    assert (node, "out_features") not in rows
    assert rows[node, "data_out shape"] == ("batch × seq × 96", "batch × seq × 80")
