"""Tool tips of what is drawn on the canvas."""

from __future__ import annotations

from espalier.app.canvas.boxes import Item, Kind
from espalier.app.canvas.scene import Hit, Scene
from espalier.app.canvas.wires import wrapped
from espalier.app.translation import tr

_BOXES: dict[str, Kind] = {"node": "node", "group": "group", "fold": "fold"}


def tip(scene: Scene, hit: Hit) -> str:
    """A node's name, adapter and problem; the sources of a shared tensor; a layer of a fold, or what differs in it."""
    tree = scene.layout.tree
    sent = scene.transfers.told_at(Item(_BOXES[hit.kind], hit.place)) if scene.transfers and hit.kind in _BOXES else ""
    if hit.kind == "group":
        return sent
    if hit.kind == "frame":
        return tr("Drag the title to move the frame with its nodes. F2 renames it.")
    if hit.kind == "fold":
        metrics, title = scene.fold_metrics(hit.place), scene.layout.folds[hit.place].chain.title
        return f"{title} {metrics.told(hit.bar)}" if hit.bar >= 0 else metrics.differences() or sent
    if hit.kind == "stub":
        return "\n".join(f"{tree.ids[i]}: {scene.output(i)}" for i in scene.sources_at(hit))
    number = int(scene.layout.nodes[hit.place])
    node = scene.graph.nodes[tree.ids[number]]
    name = node.target if node.call == "call_module" else node.id
    muted = tr("muted: an identity stands for it") if node.annotation.muted else ""
    pinned = tr("pinned") if Item("node", hit.place) in scene.layout.pinned else ""
    problem, adapter = scene.problems.get(number, ""), scene.figures.adapters[number]
    lines = [name, muted, pinned, wrapped(node.annotation.note), adapter, problem, sent]
    return "\n".join(filter(None, lines))
