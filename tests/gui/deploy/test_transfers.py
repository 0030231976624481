"""Transfers between devices on the graph: of a plan in its modes, of placements in all, with legend and tool tips."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPointF

from espalier.app.canvas.overlay import _edge_text
from espalier.app.features.deploy.panel import DeployPanel
from espalier.app.features.deploy.state import MOVED, STRATEGY, TIME
from espalier.app.features.deploy.transfers import transfers_of
from espalier.app.shell.window import Window
from espalier.model.registry import PASSES
from espalier.passes.base import Context
from espalier.passes.choices.shard import ShardOptions
from espalier.passes.jobs.kinds import Done, ReplayJob, ReplayResult, Started
from espalier.passes.sharding.drawn import Moved, Sent, placed_moves
from espalier.passes.sharding.options import ShardPlanOptions
from tests.gui.canvas.steps import settle
from tests.gui.conftest import FakeRunner
from tests.gui.deploy.steps import answer
from tests.patience import PATIENCE

pytestmark = pytest.mark.gui


def shard(window: Window, runner: list[FakeRunner], strategy: str) -> None:
    """Append the step, as the worker runs it."""
    window.session.run_pass("shard", ShardOptions("2", strategy, batch_size=64))  # type: ignore[arg-type]
    document = window.session.open_document
    options = window.session.recipe.steps[-1].options
    graph = PASSES.get("shard").run(document.graph, options, Context(document.store))[0]
    replay = next(j for j in runner[-1].waiting if isinstance(j.job, ReplayJob))
    runner[-1].tell(replay, Started())
    runner[-1].tell(replay, Done(ReplayResult(graph, (None,), {})))


def drawn(window: Window) -> dict[str, int]:
    """Bytes by node of what the canvas draws."""
    layer = window.canvas.scene.transfers if window.canvas.scene else None
    found: dict[str, int] = {}
    for load in (*layer.edges.values(), *layer.boxes.values()) if layer else ():
        for each in load.transfers:
            found[each.user or each.source] = found.get(each.user or each.source, 0) + each.bytes
    return found


def test_placements_are_drawn_in_every_mode(window: Window, panel: DeployPanel, runner: list[FakeRunner]) -> None:
    window.pages.workbench.show_workspace("graph")
    assert not drawn(window)
    shard(window, runner, "megatron")
    moved = placed_moves(window.session.open_document.graph)
    assert sum(drawn(window).values()) == sum(m.bytes for m in moved) > 0
    legend = window.canvas.bars.legend
    entries = [text for text, _ in legend._entries()]
    assert entries[0] in ("all-reduce", "all-gather", "reduce-scatter") and any("widest" in e for e in entries)
    window.canvas.set_mode(STRATEGY)
    assert sum(drawn(window).values()) > 0 and legend.legend.title == "placement on devices (of results)"
    assert window.canvas._measured[MOVED].values and window.canvas._measured[TIME].note
    action = window.actions_table.actions["transfers"]
    action.trigger()
    assert not drawn(window) and not window.canvas.show_transfers and not legend.legend.edges
    action.trigger()
    assert drawn(window) and window.canvas.view_state()["transfers"]
    window.session.undo()
    assert not drawn(window)


def test_a_plan_is_drawn_in_its_own_modes(window: Window, panel: DeployPanel, runner: list[FakeRunner]) -> None:
    panel.form.put(ShardPlanOptions(mesh="2", device="cpu", batch_size=64, training=True, memory="1KiB"))
    panel.form.put(ShardPlanOptions(mesh="2", device="cpu", batch_size=64, training=True))
    panel.plan()
    report = answer(runner, "shard_plan")
    assert not drawn(window), "the model itself is not sharded"
    for mode in (STRATEGY, MOVED, TIME):
        window.canvas.set_mode(mode)
        assert sum(drawn(window).values()) == report.summary["moved_bytes"]
    window.canvas.set_mode("kind")
    assert not drawn(window)


def test_pointing_tells_placements_bytes_and_format(
    window: Window, panel: DeployPanel, runner: list[FakeRunner]
) -> None:
    moved = (
        Moved("fc1", "drop", "data_in", "S0", "R", (Sent("all-gather", 4096, 1024),), format="int 8/4"),
        Moved("", "fc2", "weight", "S0", "R", (Sent("all-gather", 128, 128, 2),), (Sent("all-reduce", 64, 64),), "w"),
    )
    window.canvas.set_transfers(transfers_of(moved))
    scene = window.canvas.scene
    assert scene is not None and scene.transfers is not None
    (edge,) = scene.transfers.edges
    text = _edge_text(scene, edge)
    assert text.splitlines()[1] == "S0 → R · all-gather 4.0\u2009KiB, 1.0\u2009KiB as int 8/4"
    x, y, w, h = scene.layout.node_rects[scene.place_of[scene.layout.tree.index["fc2"]]].tolist()
    spot = QPointF(*window.canvas.camera.to_screen(x + w / 2, y + h / 2))
    note = window.canvas.note_at(spot).splitlines()
    assert note[-2:] == ["w: S0 → R · all-gather 2 × 128\u2009B", "w: gradient · all-reduce 64\u2009B"]


def test_wide_edges_and_chips_are_painted(window: Window, panel: DeployPanel, qtbot: object) -> None:
    """The picture differs, and is the former one again without transfers."""
    window.pages.workbench.show_workspace("graph")
    canvas = window.canvas
    settle(qtbot, canvas)  # type: ignore[arg-type]
    plain = canvas.grab().toImage()
    canvas.set_transfers(transfers_of([Moved("fc1", "drop", "data_in", "S0", "R", (Sent("all-gather", 4096, 4096),))]))
    settle(qtbot, canvas)  # type: ignore[arg-type]
    assert canvas.grab().toImage() != plain
    canvas.set_transfers(())
    settle(qtbot, canvas)  # type: ignore[arg-type]
    assert canvas.grab().toImage() == plain and PATIENCE


def test_the_legend_takes_the_place_of_the_map_where_it_is_narrow(
    window: Window, panel: DeployPanel, runner: list[FakeRunner]
) -> None:
    """What colours stand for comes before where the view is."""
    panel.plan()
    answer(runner, "shard_plan")
    bars = window.canvas.bars
    window.canvas.set_mode("kind")
    assert bars.minimap.isVisibleTo(bars.below)
    window.canvas.set_mode(TIME)
    assert bars.below.width() < 400 and bars.legend.isVisibleTo(bars.below) and bars.legend.holds
    assert not bars.minimap.isVisibleTo(bars.below)
