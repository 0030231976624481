"""The SVG writer: well-formed, complete, escaped."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

from espalier.app.canvas.hierarchy import open_all
from espalier.app.canvas.hierarchy_builder import build
from espalier.app.canvas.svg import to_svg
from espalier.app.theme import DARK
from espalier.model.formats.integer import Integer
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Adapter, Precision, Sparsity
from tests.benchmarks.synthetic import transformer

SVG = "{http://www.w3.org/2000/svg}"


def test_well_formed_and_complete() -> None:
    """Every shown node is there by its id; closed groups stand for what they hide."""
    graph = transformer(40)
    root = ElementTree.fromstring(to_svg(graph, open_all(build(graph)), show_shapes=True))
    assert root.tag == f"{SVG}svg"
    assert {g.get("id") for g in root.iter(f"{SVG}g") if g.get("id")} == set(graph.nodes)
    closed = ElementTree.fromstring(to_svg(graph, frozenset(), DARK, horizontal=True))
    ids = {g.get("id") for g in closed.iter(f"{SVG}g") if g.get("id")}
    assert ids < set(graph.nodes) and "input_ids" in ids


def test_text_is_escaped_and_choices_show() -> None:
    """Names from models cannot break the document; badges carry the format."""
    graph = transformer(30)
    node = next(n for n in graph if n.op == "linear")
    odd = replace(
        node,
        target='model.<b>&"evil"\x00\ud800</b>',
        precision={"weight": Precision(Integer(4, 2))},
        sparsity={"weight": Sparsity("l1", 0.5, "local", None, 10)},
    )
    text = to_svg(Graph({**graph.nodes, node.id: odd}, symbols=graph.symbols))
    ElementTree.fromstring(text)
    assert "<b>" not in text and "int 4/2" in text and text.encode()


def test_numbers_are_finite() -> None:
    """No NaN reaches the file."""
    assert not re.search(r'"[^"]*\b(nan|inf)\b[^"]*"', to_svg(transformer(200, mask=True)))


def test_cut_edges_show_at_closed_groups() -> None:
    """Every closed block says that it takes the mask; the ends of one tensor share a class that a style marks."""
    graph = transformer(300, mask=True)
    tree = build(graph)
    text = to_svg(graph, frozenset({"model"}), folding=False)
    root = ElementTree.fromstring(text)
    blocks = sum(g.label.startswith("layers.") for g in tree.groups)
    found = [g for g in root.iter(f"{SVG}g") if (g.get("class") or "").startswith("tensor")]
    words = [(t.text or "") for g in found for t in g.iter(f"{SVG}text")]
    assert words.count("↳ attention_mask") == blocks and words.count(f"→ {blocks} blocks") == 1
    assert {g.get("class") for g in found} == {f"tensor{tree.index['attention_mask']}"}
    assert f".tensor{tree.index['attention_mask']}:hover" in text


def test_a_wide_badge_goes_below_a_name_that_it_would_hide() -> None:
    """A norm keeps its title whole; a name with room beside the badge keeps it there."""
    graph = transformer(30)
    norm = next(n for n in graph if n.op == "layer_norm")
    linear = next(n for n in graph if n.op == "linear")
    chosen = [replace(n, precision={"weight": Precision(fmt)}) for n, fmt in (
        (replace(norm, target="post_feedforward_norm"), ScaledInteger(8)), (linear, Integer(4, 2)))]  # fmt: skip
    root = ElementTree.fromstring(to_svg(graph.replace(*chosen), open_all(build(graph))))
    places = {}
    for node in (norm, linear):
        drawn = next(g for g in root.iter(f"{SVG}g") if g.get("id") == node.id)
        places[node.id] = {t.text: float(t.get("y") or 0) for t in drawn.iter(f"{SVG}text")}
    assert places[norm.id]["int8 channel"] - places[norm.id]["post_feedforward_norm"] > 12
    name = next(iter(set(places[linear.id]) & {linear.target.rpartition(".")[2]}))
    assert places[linear.id]["int 4/2"] == places[linear.id][name]


def test_badges_stay_inside_of_a_narrow_node() -> None:
    """The badge of an adapter that has no room below that of the format is told by the tool tip instead."""
    graph = transformer(30)
    norm = next(n for n in graph if n.op == "layer_norm")
    pruned, adapters = {"weight": Sparsity("l1", 0.3, "local", None, 10)}, {"weight": Adapter(16, 16.0, 0.0, "a", "b")}
    for fmt, sparsity, fits in ((Integer(8, 4), pruned, False), (ScaledInteger(8), {}, False), (None, {}, True)):
        precision = {"weight": Precision(fmt)} if fmt else {}
        node = replace(norm, precision=precision, sparsity=sparsity, adapters=adapters)
        root = ElementTree.fromstring(to_svg(graph.replace(node), open_all(build(graph))))
        drawn = next(g for g in root.iter(f"{SVG}g") if g.get("id") == norm.id)
        body, *badges = (float(r.get("x") or 0) for r in drawn.iter(f"{SVG}rect"))
        assert badges and min(badges) >= body + 7.9
        assert ("LoRA r16" in {t.text for t in drawn.iter(f"{SVG}text")}) == fits
        assert (drawn.findtext(f"{SVG}title") == "LoRA r16") != fits
