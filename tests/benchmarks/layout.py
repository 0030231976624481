"""CPU of the canvas layout, everything open, against igraph's flat layered layout of the same graph in the same run."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import igraph
import numpy as np

from espalier.app.canvas.hierarchy import open_all
from espalier.app.canvas.hierarchy_builder import build
from espalier.app.canvas.layout import layout
from espalier.app.canvas.layout_worker import without_garbage_collection
from espalier.app.figures import captions
from espalier.model.graph.graph import Graph
from tests.benchmarks.synthetic import transformer

MACHINE = "2-core x86-64 VM"
ROUNDS = 5
FLAT_MOST = 2000  # a shared mask makes the flat reference take minutes above this


def seconds(act: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Median CPU seconds."""
    found = []
    for _ in range(rounds):
        start = time.process_time()
        act()
        found.append(time.process_time() - start)
    return round(statistics.median(found), 4)


def whole(graph: Graph) -> None:
    """From a graph to positions and routes, with nothing remembered from before."""
    captions._caption.cache_clear()
    with without_garbage_collection():
        tree = build(graph)
        layout(tree, open_all(tree))


def flat(graph: Graph) -> None:
    """The reference: all nodes in one namespace; positions only, no sizes, routes or groups."""
    index = {name: i for i, name in enumerate(graph.nodes)}
    edges = [(index[ref.node], index[user]) for ref, user in graph.edges()]
    igraph.Graph(n=len(graph), edges=edges, directed=True).layout_sugiyama()


def measure(size: int, mask: bool) -> dict[str, object]:
    """One graph: ours, its parts, the default view, and the reference where it ends in reasonable time."""
    graph = transformer(size, mask)
    tree = build(graph)
    result: dict[str, object] = {
        "nodes": len(graph),
        "build and layout": seconds(lambda: whole(graph)),
        "layout alone": seconds(lambda: layout(tree, open_all(tree))),
    }
    if not mask or size <= FLAT_MOST:
        result["igraph flat"] = seconds(lambda: flat(graph), 3)
        result["ratio"] = round(float(np.divide(result["build and layout"], result["igraph flat"])), 2)  # type: ignore[call-overload]
    else:
        result["igraph flat"] = "not run: more than a minute"
    return result


def main() -> None:
    """Print the figures; `--save` keeps them."""
    cases = {f"{n // 1000}k{' with mask' * m}": measure(n, m) for n in (1000, 10_000, 50_000) for m in (False, True)}
    about = {"what": "layout with everything open, CPU seconds", "date": str(date.today()), "machine": MACHINE}
    text = json.dumps({**about, **cases}, indent=1)
    print(text)
    if "--save" in sys.argv:
        (Path(__file__).parent / "results" / "layout.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
