"""The score's figures against numbers counted by hand."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace

import pytest

from espalier.model.document import graph_json
from espalier.model.formats.base import Format
from espalier.model.formats.integer import Integer
from espalier.model.graph.graph import Graph, Ref
from espalier.model.graph.meta import Precision, Sparsity, TensorMeta
from espalier.model.packed.graph import node_line
from espalier.model.packed.layout import Packed, blobs_of, described, header, packed_size, plan
from espalier.passes import score as score_module
from espalier.passes.base import Context
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.score import Score, Scorer, bitops, static_score
from espalier.passes.transform.prune import prune
from tests.model.zoo import case

# The small MLP: first 4 → 6, second 6 → 3, both with bias.
FIRST, SECOND, BIASES = 24, 18, 9
PARAMETERS = FIRST + SECOND + BIASES
INT4, INT8 = Integer(4, 2), Integer(8, 4)


def choose(graph: Graph, node: str, **formats: Format) -> Graph:
    return graph.replace(replace(graph[node], precision={p: Precision(f) for p, f in formats.items()}))


def pruned(ratio: float, graph: Graph | None = None) -> Graph:
    return prune(graph or case("mlp").graph, PruneOptions(ratio), Context(case("mlp").store))[0]


def stored(graph: Graph) -> dict[str, Packed]:
    return {p.name: p for p in plan(graph)}


# -- float


def test_a_float_model() -> None:
    score = static_score(case("mlp").graph)
    assert (score.accuracy, score.loss) == (None, None)
    assert score.weight_bits == 32 and score.activation_bits == 32 and score.memory_density == 1 and score.sparsity == 0
    assert score.bitops == (FIRST + SECOND) * 32 * 32  # one sample, whatever the batch of the trace
    assert 4 * PARAMETERS < score.size_bytes < 4 * PARAMETERS + 3000


def test_measured_figures_are_added() -> None:
    score = static_score(case("mlp").graph)
    full = score.measured(0.75, 0.5)
    assert (full.accuracy, full.loss) == (0.75, 0.5) and replace(full, accuracy=None, loss=None) == score
    assert score.accuracy is None and Score() == Score()


# -- formats


def test_weight_bits_are_stored_bits_over_all_parameters() -> None:
    graph = choose(case("mlp").graph, "first", weight=INT4, bias=INT8)
    score = static_score(graph)
    bits = FIRST * 4 + 6 * 8 + SECOND * 32 + 3 * 32
    assert score.weight_bits == bits / PARAMETERS and score.memory_density == 32 * PARAMETERS / bits


def test_activation_bits_weigh_by_elements() -> None:
    graph = choose(choose(case("mlp").graph, "first", data_in=INT8, data_out=INT4), "second", weight=INT4)
    assert static_score(graph).activation_bits == (4 * 8 + 6 * 32) / (4 + 6)


def test_bitops_are_macs_times_both_widths() -> None:
    graph = choose(choose(case("mlp").graph, "first", data_in=INT8, weight=INT4), "second", weight=INT8)
    assert static_score(graph).bitops == FIRST * 8 * 4 + SECOND * 32 * 8


@pytest.mark.parametrize(("dtype", "bits"), [("bfloat16", 16), ("float16", 16), ("float64", 64)])
def test_what_stays_float_counts_its_own_bits(dtype: str, bits: int) -> None:
    held = case("mlp").graph
    graph = held.replace(*(replace(n, ports={p: replace(m, dtype=dtype) for p, m in n.ports.items()}) for n in held))
    score = static_score(graph)
    assert score.activation_bits == bits and score.bitops == (FIRST + SECOND) * bits * bits
    mixed = static_score(choose(graph, "first", data_in=INT8))
    assert mixed.activation_bits == (4 * 8 + 6 * bits) / (4 + 6)
    assert mixed.bitops == FIRST * 8 * bits + SECOND * bits * bits


def test_both_operands_of_a_product_count() -> None:
    held = case("bert-eager")
    product = next(n for n in held.graph if n.op == "matmul")
    macs = 2 * 16 * 16 * 8  # heads, queries, keys, head size
    plain = bitops(held.graph)
    quantised = bitops(choose(held.graph, product.id, data_in=INT8, weight=INT4))
    assert plain - quantised == macs * (32 * 32 - 8 * 4)


def test_shapes_of_one_sample() -> None:
    """Costs do not depend on the batch of the example, but on its length."""
    graph = case("bert").graph
    assert bitops(replace(graph, symbols=graph.symbols | {"batch": 64, "batch_attention_mask": 64})) == bitops(graph)
    assert bitops(replace(graph, symbols=graph.symbols | {"seq": 32})) > bitops(graph)


# -- masks


@pytest.mark.parametrize("ratio, zeros", [(0.5, 12 + 9), (0.25, 6 + round(4.5)), (1.0, 42), (0.0, 0)])
def test_sparsity_is_zeros_over_weights_of_linears(ratio: float, zeros: int) -> None:
    assert static_score(pruned(ratio)).sparsity == zeros / (FIRST + SECOND)


def test_masked_weights_cost_a_bit_an_element_and_what_is_kept() -> None:
    found = stored(pruned(0.5))
    first, second = found["first.weight"], found["second.weight"]
    assert (first.layout, first.kept, first.bits) == ("masked", 12, 24 + 12 * 32)
    assert (second.layout, second.kept, second.bits) == ("masked", 9, 18 + 9 * 32)
    assert found["first.bias"].layout == "dense" and found["first.bias"].bits == 6 * 32
    score = static_score(pruned(0.5))
    assert score.weight_bits == (24 + 12 * 32 + 18 + 9 * 32 + BIASES * 32) / PARAMETERS


@pytest.mark.parametrize(
    "bits, ratio, layout",
    [(8, 0.1, "dense"), (8, 0.125, "dense"), (8, 0.17, "masked"), (4, 0.25, "dense"), (4, 0.3, "masked"),
     (1, 0.9, "dense"), (32, 0.05, "masked"), (32, 0.0, "dense")],
)  # fmt: skip
def test_a_mask_is_stored_only_where_it_saves(bits: int, ratio: float, layout: str) -> None:
    graph = choose(pruned(ratio), "first", weight=Integer(bits, 0)) if bits < 32 else pruned(ratio)
    found = stored(graph)["first.weight"]
    zeros = round(ratio * FIRST)
    assert found.layout == layout and found.bits == min(24 * bits, 24 + (24 - zeros) * bits if zeros else 24 * bits)
    assert found.kept == 24 - zeros


# -- shared and borrowed weights


def test_tied_weights_count_once() -> None:
    graph = case("tied").graph
    score = static_score(graph)
    assert sum(p.elements for p in plan(graph) if p.role == "parameter") == 44 + 20
    assert score.weight_bits == 32


def twice(*formats: Format | None) -> Graph:
    """A layer (4 → 4, with bias) that is called twice, its weight in these formats."""
    graph = case("twice").graph
    for node, fmt in zip([n.id for n in graph if n.target == "layer"], formats, strict=True):
        graph = choose(graph, node, weight=fmt) if fmt else graph
    return graph


def copies(graph: Graph) -> dict[str, Packed]:
    return {n: p for n, p in stored(graph).items() if n.startswith("layer.weight")}


def test_a_weight_that_is_also_read_in_float_is_stored_in_float() -> None:
    graph = choose(case("tied").graph, "head", weight=INT4)
    assert stored(graph)["embed.weight"].element_bits == 32  # the embedding and a function still read it in float
    assert [p.element_bits for p in copies(twice(INT4, None)).values()] == [32]


def test_a_weight_in_two_formats_is_stored_in_each() -> None:
    for other in (INT8, Integer(4, 1)):  # of the same width, but other values
        found = copies(twice(INT4, other))
        assert {n: p.format for n, p in found.items()} == {"layer.weight": str(INT4), "layer.weight@1": str(other)}
        more = static_score(twice(INT4, other)).weight_bits - static_score(twice(INT4, INT4)).weight_bits
        assert more == pytest.approx(16 * other.bits / 40)
    assert len(copies(twice(INT4, Integer(4, 2)))) == 1  # one format, one copy


def test_a_weight_in_two_wide_formats_is_stored_in_float() -> None:
    assert [p.format for p in copies(twice(Integer(16, 8), Integer(17, 8))).values()] == ["float32"]
    assert len(copies(twice(Integer(16, 8), Integer(15, 8)))) == 2


def test_weights_that_functions_read_are_stored_in_their_formats() -> None:
    """nn.MultiheadAttention hands its weights to functions; their ports carry the formats."""
    graph = case("attention").graph
    assert static_score(graph).weight_bits == 32
    for node in [n for n in graph if n.op == "linear"]:
        graph = choose(graph, node.id, weight=INT4, bias=INT8)
    found = {n: p.element_bits for n, p in stored(graph).items()}
    assert found == {"attention.in_proj_weight": 4, "attention.in_proj_bias": 8, "attention.out_proj.weight": 4,
                     "attention.out_proj.bias": 8, "norm.weight": 32, "norm.bias": 32}  # fmt: skip


def test_different_masks_of_one_weight_are_stored_beside_its_values() -> None:
    held = case("twice")
    graph = prune(held.graph, PruneOptions(0.5), Context(held.store))[0]
    assert stored(graph)["layer.weight"].layout == "masked" and len(copies(graph)) == 1
    second = [n for n in graph if n.target == "layer"][1]
    other = {"weight": Sparsity("l1", 0.5, "local", "another", 8)}
    for sparsity, masks in (({}, 1), (other, 2)):
        found = stored(graph.replace(replace(second, sparsity=sparsity)))
        beside = [p for n, p in found.items() if n.startswith("layer.weight@mask")]
        assert found["layer.weight"].layout == "dense" and found["layer.weight"].bits == 16 * 32
        assert [p.bits for p in beside] == [16] * masks


def test_one_mask_in_two_formats_is_stored_with_each() -> None:
    graph = prune(twice(INT4, INT8), PruneOptions(0.75), Context(case("twice").store))[0]
    found = stored(graph)
    assert (found["layer.weight"].bits, found["layer.weight@1"].bits) == (16 + 4 * 4, 16 + 4 * 8)


def test_buffers_are_stored_but_are_no_parameters() -> None:
    graph = case("image").graph
    score = static_score(graph)
    assert score.weight_bits == 32
    data = sum(w.elements * (8 if w.dtype == "int64" else 4) for w in graph.weights.values())
    assert 0 < score.size_bytes - data < 6000


def test_half_precision_is_stored_as_such() -> None:
    graph = case("odd").graph
    assert stored(graph)["brief.weight"].element_bits == 16
    bits = (16 + 4) * 16 + 4 * 32 + 32
    assert static_score(graph).weight_bits == bits / (20 + 4 + 1)


# -- sizes


def test_size_is_header_padding_and_whole_bytes() -> None:
    graph = choose(pruned(0.5), "first", weight=Integer(3, 1), bias=Integer(5, 1))
    packed = plan(graph)
    blobs = blobs_of(len(described(graph, packed)))
    text = header(packed, blobs)
    facts = json.loads(text)
    names = [n for n in facts if n != "__metadata__"]
    assert names == [*graph.weights, "@graph", "@source"]
    sizes = {n: facts[n]["shape"][0] for n in names}
    assert sizes == blobs | {
        "first.weight": math.ceil(24 / 8) + math.ceil(12 * 3 / 8),
        "first.bias": math.ceil(6 * 5 / 8),
        "second.weight": math.ceil(18 / 8) + 9 * 4,
        "second.bias": 12,
    }
    offsets = [facts[n]["data_offsets"] for n in names]
    assert offsets[0][0] == 0 and all(a[1] == b[0] for a, b in itertools.pairwise(offsets))
    start = 8 + len(text) + -(8 + len(text)) % 64
    assert static_score(graph).size_bytes == packed_size(graph) == start + sum(sizes.values())


def test_a_graph_without_anything_to_count() -> None:
    held = case("functions").graph
    score = static_score(held)
    assert (score.bitops, score.sparsity, score.activation_bits) == (0, 0, 32)
    bare = replace(held, nodes={k: n for k, n in held.nodes.items() if k in ("x", "output")}, weights={})
    bare = bare.replace(replace(bare.output, args=(Ref("x"),)))
    empty = static_score(bare)
    assert (empty.weight_bits, empty.memory_density, empty.sparsity) == (0, 0, 0) and empty.size_bytes > 0


# -- one score after another


def test_scores_in_a_row_are_those_of_each_graph_alone() -> None:
    scorer, base = Scorer(), case("bert").graph
    linears = [n.id for n in base if n.op == "linear"]
    half = prune(base, PruneOptions(0.5), Context(case("bert").store))[0]
    graphs = [base, half, choose(half, linears[0], weight=INT4), choose(half, linears[0], data_in=INT8), base,
              replace(half, symbols=half.symbols | {"seq": 32}), case("attention").graph, case("twice").graph,
              twice(INT4, INT8), case("attention").graph, half]  # fmt: skip
    for graph in graphs:
        assert scorer.score(graph) == Scorer().score(graph)


def test_an_edit_counts_one_node_and_its_weights_again(monkeypatch: pytest.MonkeyPatch) -> None:
    scorer, graph = Scorer(), case("bert").graph
    scorer.score(graph)
    counted: list[str] = []
    node_cost, weight_cost = score_module._node_cost, score_module._weight_cost
    monkeypatch.setattr(score_module, "_node_cost", lambda n, *a: counted.append(n.id) or node_cost(n, *a))
    monkeypatch.setattr(score_module, "_weight_cost", lambda n, *a: counted.append(n) or weight_cost(n, *a))
    node = next(n for n in graph if n.op == "linear")
    scorer.score(choose(graph, node.id, weight=INT8))
    assert counted == [node.id, node.weights["weight"]]


def test_another_weight_behind_the_same_name_of_a_node_is_seen() -> None:
    scorer, graph = Scorer(), case("attention").graph
    before = scorer.score(graph)
    source = next(n for n in graph if n.call == "get_attr")
    name = source.weights["value"]
    bigger = replace(graph.weights[name], shape=(7, *graph.weights[name].shape))
    other = replace(source, weights={"value": "other"})
    changed = graph.replace(other).with_weights({"other": bigger})
    assert scorer.score(changed) == Scorer().score(changed) != before


def test_tensors_that_an_edit_leaves_are_not_written_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Formats of all layers at once: most of their lines in the packed file, whose size is counted, is as before."""
    base, scorer, written = case("mlp").graph, Scorer(), list[object]()
    scorer.score(base)
    plain = graph_json.encode
    monkeypatch.setattr(graph_json, "encode", lambda value: (written.append(value), plain(value))[1])
    after = base.replace(*(replace(n, precision={"weight": Precision(INT4)}) for n in base if n.op == "linear"))
    scorer.score(after)
    assert written and not any(isinstance(v, TensorMeta) for held in written if isinstance(held, dict)
                               for v in (held, *held.values()))  # fmt: skip
    for node in (n for n in after if n.op == "linear"):
        told = json.loads(node_line(node))[2]
        assert told["ports"] == plain(node.ports) and told["precision"] == plain(node.precision)
