"""A kind of weights is named only where it really holds the average of stored bits up."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from espalier.app.number_text import dominant_text
from espalier.model.formats.base import parse_format
from espalier.model.graph.graph import Graph
from espalier.model.opening import open_source
from espalier.model.trust import Origin
from espalier.passes.base import Context
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.dominant import Dominants, dominant
from espalier.passes.score import static_score
from espalier.passes.select import Select
from espalier.passes.transform.quantize import quantize

VOCABULARY, WIDTH = 5000, 32
SPEC = (f"config:bert?num_hidden_layers=2&hidden_size={WIDTH}&num_attention_heads=2&intermediate_size=64"
        f"&vocab_size={VOCABULARY}&max_position_embeddings=64&task=sequence-classification")  # fmt: skip


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> tuple[Graph, Context]:
    opened = open_source(SPEC, tmp_path_factory.mktemp("work"), origin=Origin.TYPED)
    return opened.project.base, Context(opened.store)


def formatted(held: tuple[Graph, Context], width: int, *kinds: str) -> Graph:
    rule = Rule(Select("type", kinds), {"weight": parse_format(f"integer(width={width}, frac_width={width - 1})")})
    return quantize(held[0], QuantizeOptions((rule,)), held[1])[0]


@pytest.mark.slow
def test_a_vocabulary_that_is_left_in_float_is_named(bert: tuple[Graph, Context]) -> None:
    graph = formatted(bert, 8, "linear")
    found = dominant(graph)
    assert found and found.kind == "embedding" and found.bits == 32
    parameters = [w for w in graph.weights.values() if w.role == "parameter"]
    elements = sum(w.elements for w in parameters)
    total = static_score(graph).weight_bits * elements
    tables = sum(graph.weights[n.weights["weight"]].elements for n in graph if n.op == "embedding")
    assert found.share == pytest.approx(32 * tables / total) and found.share > 0.9
    assert found.node_share == pytest.approx(32 * VOCABULARY * WIDTH / total) and "word_embeddings" in found.node
    words = dominant_text(found).replace("\u2009", " ")
    assert words.startswith(f"embedding weights hold {math.floor(100 * found.share + 0.5)} % of the stored bits")


@pytest.mark.slow
def test_nothing_is_named_where_nothing_stands_out(bert: tuple[Graph, Context]) -> None:
    assert dominant(bert[0]) is None, "all is float"
    assert dominant(formatted(bert, 8, "linear", "embedding")) is None, "all is narrow: the norms are few"
    assert dominant(formatted(bert, 8, "embedding")) is None, "the vocabulary is what was made narrow"


def test_one_graph_after_another_gives_the_same(bert: tuple[Graph, Context]) -> None:
    """What an edit left alone is not counted again; what it changed is."""
    counted = Dominants()
    kinds = (("linear",), ("linear", "embedding"), (), ("embedding",), ("linear",))
    for width, chosen in zip((8, 4, 8, 2, 8), kinds, strict=True):
        graph = formatted(bert, width, *chosen) if chosen else bert[0]
        assert counted.of(graph) == dominant(graph)


def test_a_dense_model_names_none(tmp_path: Path) -> None:
    opened = open_source("demo:digits-mlp", tmp_path)
    held = opened.project.base, Context(opened.store)
    assert dominant(formatted(held, 4, "linear")) is None
