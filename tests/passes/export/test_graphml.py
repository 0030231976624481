"""GraphML, read by another program than ours: the graph's nodes, edges, formats and shapes are in it."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import networkx as nx

from espalier.model.opening import open_any
from espalier.model.trust import Origin
from espalier.passes.export import export
from tests.passes.export.test_export import compressed

NAMES = "{http://graphml.graphdrawing.org/xmlns}"


def test_graphml_is_the_graph(tmp_path: Path) -> None:
    opened, project = compressed("demo:digits-mlp", tmp_path)
    done = export(project, opened.store, "graphml", tmp_path / "net")
    assert done.files == (str(tmp_path / "net.graphml"),)
    found = nx.read_graphml(tmp_path / "net.graphml", force_multigraph=True)
    assert set(found) == set(project.graph.nodes)
    assert sorted(found.edges()) == sorted((ref.node, user) for ref, user in project.graph.edges())
    layer = next(n for n in project.graph if n.op == "linear")
    told = found.nodes[layer.id]
    assert told["op"] == "linear" and told["formats"].startswith("weight: integer(width=8, frac_width=7")
    assert told["sparsity"] == "weight: 0.5"
    weight, bias = (project.graph.weights[layer.weights[k]] for k in ("weight", "bias"))
    assert told["parameters"] == weight.shape[0] * weight.shape[1] + bias.shape[0]


def test_each_key_of_the_file_is_named(tmp_path: Path) -> None:
    """Viewers list attributes by name: d0, d1 would say nothing."""
    opened = open_any("demo:digits", tmp_path / "work", origin=Origin.TYPED)
    export(opened.project, opened.store, "graphml", tmp_path / "g.graphml")
    root = ElementTree.parse(tmp_path / "g.graphml").getroot()
    keys = {k.attrib["attr.name"]: k.attrib["id"] for k in root.iter(f"{NAMES}key")}
    assert {"op", "shape", "formats", "parameters"} <= set(keys) and all(k == v for k, v in keys.items())
