"""Visits results and menus: tables of reports and of a step, a sweep, edges, groups and ground of the graph, offers."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QMenu, QWidget

from espalier.model.document.recipe import Recipe
from tests.texts.settling import settle, wait

if TYPE_CHECKING:
    from espalier.app.shell.window import Window

REPORTS = ("memory", "structure", "export_targets", "statistics", "sparsity", "cost", "parameters", "data", "trainable",
           "quantization")  # fmt: skip


def visit_results(window: Window, look: Callable[..., None]) -> None:
    """Run and show everything; leaves edits behind."""
    visit_graph_menus(window, look)
    visit_offers(window, look)
    visit_reports(window, look)
    visit_sweep(window, look)


def visit_graph_menus(window: Window, look: Callable[..., None]) -> None:
    """The menus of edges of each kind, of groups, and of the ground; and the window of an ONNX file."""
    from espalier.app.canvas.wires import Edge
    from espalier.app.features.edits.edge_menu import edge_menu, group_menu
    from espalier.app.shell.onnx_window import OnnxWindow

    graph, host = window.session.open_document.graph, window.host
    layer = next(n for n in graph if n.op == "linear")
    user = next(n for n in graph if any(r.node == layer.id for r in n.inputs))
    edges = (Edge(layer.id, 0, user.id), Edge(layer.id, 0, ""), Edge(layer.id, 1, user.id))
    menus: list[QWidget] = [edge_menu(host, graph, edge) for edge in edges]
    host.canvas.select((layer.id, user.id), True)
    settle()
    menus.append(group_menu(host, layer.module_path.rpartition(".")[0]))
    for place, menu in enumerate([*menus, OnnxWindow(window, window.session.document)]):
        look(f"menu {place} of the graph", menu)
        menu.deleteLater()
    host.canvas.handle.open_menu(QPoint(5, 5))
    for popup in host.canvas.findChildren(QMenu):
        look("menu of the ground", popup)
        popup.close()


def visit_offers(window: Window, look: Callable[..., None]) -> None:
    """What a crash left behind, and the consent to code."""
    from espalier.app.session.edit_journal import Subject, UnsavedEdits
    from espalier.app.session.recovery import UnsavedProject
    from espalier.app.shell.consent import Consent

    subject = Subject("bert", "", "bert", "bert")
    for count, damaged, waiting in ((3, 1, ()), (1, 0, ("bert",)), (0, 0, ())):
        edits = UnsavedEdits(subject, Recipe(), count, time.time(), "bert", waiting, damaged)
        left = UnsavedProject(Path("bert"), Path("bert"), edits)
        window.pages.welcome.refresh([left])
        window.banner.offer(left.summary, "", [])
        look(f"{count} edits to recover")
    window.banner.drop_offer()
    Consent(window.session, window.banner)._ask(Path("/bert.py"))  # type: ignore[reportPrivateUsage]
    look("consent")
    window.banner.drop_offer()


def visit_reports(window: Window, look: Callable[..., None]) -> None:
    """Reports and a step in the panel Tables."""
    from espalier.app.shell.pass_defaults import default_options
    from espalier.model.registry import PASSES

    for name in REPORTS:
        options = default_options(window.session, PASSES.get(name))
        window.services.reports.run_with(name, options)
        wait(window)
        look(f"report {name}", window.docks.panels["tables"])


def visit_sweep(window: Window, look: Callable[..., None]) -> None:
    """A small sweep with its chart and points."""
    from espalier.app.features.sweep.panel import SweepsPanel

    window.docks.bring("sweeps")
    panel = window.docks.panels["sweeps"]
    assert isinstance(panel, SweepsPanel)
    panel.run_example()
    wait(window)
    look("sweep", panel)
