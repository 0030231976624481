"""The menus of edges and groups, and the handling of drawn wires."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QMenu

from espalier.app.canvas.wires import Edge
from espalier.app.features.edits import actions, arrange_menu, offers
from espalier.app.figures.captions import shape_text
from espalier.app.number_text import plural
from espalier.app.translation import tr
from espalier.model.graph.graph import Graph, Ref, out_port
from espalier.model.graph.ops import spec
from espalier.passes.edits.insert_after import InsertAfter
from espalier.passes.edits.rewire import Rewire, input_sources

if TYPE_CHECKING:
    from collections.abc import Collection

    from PySide6.QtCore import QPoint

    from espalier.app.canvas.folding import Fold
    from espalier.app.host import Host


def connect(host: Host) -> None:
    """Connect the canvas to menus of edges and groups, and wires."""
    canvas = host.canvas
    canvas.edge_menu_requested.connect(partial(show_edge_menu, host))
    canvas.group_menu_requested.connect(partial(show_group_menu, host))
    canvas.fold_menu_requested.connect(partial(show_fold_menu, host))
    canvas.wire_connected.connect(partial(connect_wire, host))
    canvas.wire_takers = partial(takers, host)


def takers(host: Host, source: str) -> Collection[str]:
    """The nodes to which a wire from `source` may be drawn; shows a message if there are none."""
    document = host.session.document
    if document is None or source not in document.graph.nodes:
        return ()
    if document.graph.runs == "module":
        host.banner.show_message(offers.RECORDED)
        return ()
    ports = offers.wire_takers(document.graph, source)
    if not ports:
        shape = shape_text(document.graph[source].out) or tr("no tensor")
        host.banner.show_message(tr("No other node takes what {} gives ({}).", source, shape),
                         tr("Insert a module behind it that gives the wanted shape."))  # fmt: skip
    return ports


def connect_wire(host: Host, source: str, target: str, spot: QPoint) -> None:
    """Connect the result of `source` to `target`; asks for the input if several fit."""
    document = host.session.document
    ports = offers.wire_takers(document.graph, source).get(target, ()) if document else ()
    if document is None or not ports:
        return
    if len(ports) == 1:
        rewire(host, source, target, ports[0])
        return
    menu = QMenu(host.canvas)
    menu.addAction(tr("{}: which input?", target)).setEnabled(False)
    present = {p: r.node for p, r in input_sources(document.graph[target], document.graph) if p}
    for port in ports:
        menu.addAction(tr("{} (now {})", port, present[port]), partial(rewire, host, source, target, port))
    menu.aboutToHide.connect(menu.deleteLater)
    menu.popup(spot)


def rewire(host: Host, source: str, target: str, port: str) -> None:
    """The edit of a drawn wire."""
    actions.apply(host, Rewire(port=port, source=source), (target,))


def edge_menu(host: Host, graph: Graph, edge: Edge) -> QMenu:
    """The menu of an edge: insert a module, or select one of its ends."""
    menu = QMenu(host.canvas)
    menu.setToolTipsVisible(True)
    shape = shape_text(graph[edge.source].ports.get(out_port(edge.output)))
    title = f"{edge.source} → {edge.user or tr('several')} · {shape}"
    menu.addAction(title.replace("&", "&&")).setEnabled(False)
    menu.addSeparator()
    rows = menu.addMenu(tr("Insert here"))
    reason = edge_refusal(graph, edge)
    rows.menuAction().setEnabled(not reason)
    rows.menuAction().setToolTip(reason)
    for offer in offers.insertions(graph, [graph[edge.source]]) if not reason else ():
        assert isinstance(offer.edit, InsertAfter)
        edit = replace(offer.edit, user=direct_user(graph, edge))
        rows.addAction(offer.title, partial(actions.apply, host, edit, (edge.source,)))
    more = menu.addAction(tr("Add operation…\tShift+A"), lambda: host.canvas.operation_wanted.emit(edge, None))
    more.setEnabled(not reason)
    more.setToolTip(reason)
    menu.addSeparator()
    menu.addAction(tr("Select {}", edge.source), partial(host.canvas.select, (edge.source,), True))
    if edge.user:
        menu.addAction(tr("Select {}", edge.user), partial(host.canvas.select, (edge.user,), True))
    return menu


def direct_user(graph: Graph, edge: Edge) -> str:
    """The direct user of the source: the edge's user, or a hidden shape operation on the edge's path.

    Empty if there is none.
    """
    ways, visited = [edge.user], {edge.user}
    while ways:
        node = graph[ways.pop(0)]
        if Ref(edge.source) in node.inputs:
            return node.id
        ups = [r.node for r in node.inputs if r.node not in visited and spec(graph[r.node].op).moves]
        visited.update(ups)
        ways += ups
    return ""


def edge_refusal(graph: Graph, edge: Edge) -> str:
    """The reason why nothing can be inserted on an edge; empty if it is possible."""
    if graph.runs == "module":
        return offers.RECORDED
    if edge.output:
        return tr("It carries result {} of {}; modules are inserted on first results.", edge.output, edge.source)
    if not edge.user:
        return tr("The edge leads into a closed group. Open the group first.")
    if not direct_user(graph, edge):
        return tr("The edge is a part of a longer way from {}.", edge.source)
    if not offers.insertions(graph, [graph[edge.source]]):
        return tr("It carries no floating-point tensor.")
    return ""


def show_edge_menu(host: Host, edge: Edge, spot: QPoint) -> None:
    """Open the menu of an edge."""
    document = host.session.document
    if document is None or edge.source not in document.graph.nodes:
        return
    menu = edge_menu(host, document.graph, edge)
    menu.aboutToHide.connect(menu.deleteLater)
    menu.popup(spot)


def group_menu(host: Host, path: str) -> QMenu:
    """The menu of a group: expand, collapse, and paste a configuration."""
    canvas, menu = host.canvas, QMenu(host.canvas)
    title = f"{path or tr('model')} · {plural(len(host.session.selection), 'node')}"
    menu.addAction(title.replace("&", "&&")).setEnabled(False)
    menu.addSeparator()
    opened = path in (canvas.open_groups or frozenset())
    menu.addAction(tr("Collapse") if opened else tr("Expand"), partial(canvas.set_open, path, not opened))
    if (chain := canvas.chain_of(path)) is not None and canvas.folding:
        title = f"{chain.title} ×{len(chain.members)}"
        menu.addAction(tr("Fold {}\tShift+Return", title), partial(canvas.open_chain, chain, False))
        menu.addAction(tr("Open all of {}", title), partial(canvas.open_chain, chain, True))
    _add_common(host, menu)
    return menu


def _add_common(host: Host, menu: QMenu) -> None:
    menu.addAction(tr("Expand all groups"), host.canvas.open_all)
    menu.addAction(tr("Collapse all groups"), host.canvas.close_all)
    menu.addSeparator()
    menu.addAction(tr("Paste configuration\tCtrl+V"), partial(actions.paste, host))
    menu.addSeparator()
    arrange_menu.add_rows(host, menu, host.session.selection)


def fold_menu(host: Host, fold: Fold, bar: int) -> QMenu:
    """The menu of a fold: expand one or all groups, fold the chain again, and paste a configuration."""
    canvas, menu = host.canvas, QMenu(host.canvas)
    chain = fold.chain
    menu.addAction(f"{fold.title} · {plural(len(host.session.selection), 'node')}".replace("&", "&&")).setEnabled(False)
    menu.addSeparator()
    layer = fold.first + max(bar, 0)
    menu.addAction(
        tr("Open {} {}\tReturn", chain.title, chain.numbers[layer]), partial(canvas.open_member, chain, layer)
    )
    menu.addAction(tr("Open all {}", len(chain.members)), partial(canvas.open_chain, chain, True))
    menu.addAction(tr("Fold\tShift+Return"), partial(canvas.open_chain, chain, False)).setEnabled(not fold.is_whole)
    _add_common(host, menu)
    return menu


def show_fold_menu(host: Host, fold: Fold, bar: int, spot: QPoint) -> None:
    """Open the menu of a fold; the nodes of the bar, or all, are selected."""
    if host.session.document is None:
        return
    menu = fold_menu(host, fold, bar)
    menu.aboutToHide.connect(menu.deleteLater)
    menu.popup(spot)


def show_group_menu(host: Host, path: str, spot: QPoint) -> None:
    """Open the menu of a group; its nodes are selected."""
    if host.session.document is None:
        return
    menu = group_menu(host, path)
    menu.aboutToHide.connect(menu.deleteLater)
    menu.popup(spot)
