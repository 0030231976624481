"""Transfers of large graphs with placements: computed and placed in threads, never those of an earlier state."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest
from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from espalier.app.canvas.transfers import Transfer, TransferLayer
from espalier.app.canvas.view import GraphCanvas
from espalier.app.features.deploy import placing as placing_module
from espalier.app.features.deploy.placing import SYNCHRONOUS, Placing
from espalier.app.features.deploy.transfers import NONE_PLACED, PlacedTransfers, transfers_of
from espalier.model.formats.integer import Integer
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Precision, Sharding
from espalier.passes.sharding.drawn import placed_moves
from tests.benchmarks.synthetic import transformer
from tests.gui.canvas.steps import settle
from tests.model.zoo import case
from tests.patience import MILLISECONDS

pytestmark = pytest.mark.gui


def split(graph: Graph, of: str = "S0") -> Graph:
    """Every second node splits its result, so that something moves between all of them."""
    return graph.replace(*(
        replace(n, sharding=Sharding((2,), {p: (of if k % 2 and p == "data_out" else "R",) for p in n.ports}))
        for k, n in enumerate(graph)
    ))  # fmt: skip


def all_of(graph: Graph) -> tuple[Transfer, ...]:
    """The transfers of a graph, computed at once."""
    return transfers_of(placed_moves(graph))


def after(known: PlacedTransfers, graph: Graph) -> PlacedTransfers:
    """The transfers of another state."""
    return known.after(graph, known.changed(graph))


def test_only_changed_nodes_and_their_readers_are_computed_again() -> None:
    graph = split(case("bert").graph)
    known = after(NONE_PLACED, graph)
    assert known.all == all_of(graph) and known.all and not known.changed(graph)
    node = next(n for n in graph if n.op == "linear" and n.sharding)
    readers = {n.id for n in graph if any(r.node == node.id for r in n.inputs)}
    assert node.sharding is not None
    other = replace(node, sharding=Sharding((2,), {**node.sharding.ports, "data_out": ("S1",)}))
    edited = graph.replace(other)
    assert {n.id for n in known.changed(edited)} == {node.id, *readers}
    assert after(known, edited).all == all_of(edited) != known.all
    gone = Graph({k: n for k, n in graph.nodes.items() if n.call != "output"}, graph.weights, symbols=graph.symbols)
    assert after(known, gone).all == all_of(gone)
    wider = replace(graph, symbols={k: 2 * v for k, v in graph.symbols.items()})
    assert after(known, wider).all == all_of(wider) != known.all, "bytes go by sizes"


def test_a_large_graph_is_computed_in_a_thread(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, threads = QObject(), list[str]()
    placing = Placing(owner)
    plain = placing_module.PlacedTransfers.after

    def counted(self: Any, *given: Any) -> Any:
        threads.append(threading.current_thread().name)
        return plain(self, *given)

    monkeypatch.setattr(placing_module.PlacedTransfers, "after", counted)
    graph = split(transformer(2 * SYNCHRONOUS))
    with qtbot.waitSignal(placing.changed, timeout=MILLISECONDS):
        assert placing.transfers(graph) == () == placing.transfers(graph)
    assert placing.transfers(graph) == all_of(graph)
    node = next(n for n in graph if n.op == "linear")
    edited = graph.replace(replace(node, precision={"weight": Precision(Integer(8, 4))}))
    assert placing.transfers(edited) == all_of(edited), "at once after a small edit"
    main = threading.current_thread().name
    assert len(threads) == 2 and threads[0] != main and threads[1] == main
    assert placing.transfers(transformer(2 * SYNCHRONOUS)) == (), "without placements"


def test_an_edit_in_between_leaves_nothing_stale(qtbot: QtBot) -> None:
    owner = QObject()
    placing, seen = Placing(owner), list[Any]()
    first, second = (split(transformer(2 * SYNCHRONOUS), of) for of in ("S0", "S1"))
    placing.changed.connect(lambda: seen.append(placing.transfers(second)))
    assert placing.transfers(first) == () == placing.transfers(second)
    qtbot.waitUntil(lambda: bool(seen), timeout=MILLISECONDS)
    assert seen == [all_of(second)] and all_of(second) != all_of(first)
    assert placing.transfers(first) == (), "that of the present graph alone is known"
    placing.clear()
    qtbot.wait(50)
    assert len(seen) == 1


def test_a_large_scene_gets_its_transfers_in_a_thread(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a new layout they come at once; otherwise none are drawn until they are placed."""
    canvas, threads = GraphCanvas(), list[bool]()
    qtbot.addWidget(canvas)
    plain = TransferLayer.__init__

    def place(self: TransferLayer, *given: Any) -> None:
        threads.append(threading.current_thread() is threading.main_thread())
        plain(self, *given)

    monkeypatch.setattr(TransferLayer, "__init__", place)
    graph = split(transformer(400))
    canvas.resize(600, 400)
    canvas.show()
    canvas.set_graph(graph)
    settle(qtbot, canvas)
    shown = all_of(graph)
    canvas.set_transfers(shown)
    assert canvas.scene is not None and canvas.scene.transfers is None
    qtbot.waitUntil(lambda: canvas.scene is not None and canvas.scene.transfers is not None, timeout=MILLISECONDS)
    assert canvas.scene.transfers is not None and canvas.scene.transfers.transfers == shown
    before = len(threads)
    canvas.set_all_open(False)
    settle(qtbot, canvas)
    assert canvas.scene.transfers is not None and len(threads) == before + 1, "placed once, with the layout"
    canvas.set_transfers(shown[:1])
    canvas.set_transfers(shown[:2])
    assert canvas.scene.transfers is None, "not those of before"
    qtbot.waitUntil(lambda: canvas.scene is not None and canvas.scene.transfers is not None, timeout=MILLISECONDS)
    assert canvas.scene.transfers.transfers == shown[:2] and not any(threads)
    canvas.set_transfers(())
    assert canvas.scene.transfers is None
