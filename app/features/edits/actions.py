"""Actions of the canvas's keys and menus on the selected nodes; each is one edit of the recipe and one undo step."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from espalier.app.features.edits import arrange, clipboard, offers
from espalier.app.features.edits.offers import Offer
from espalier.app.features.edits.recipe_edits import with_graph_edit, without_mute
from espalier.app.features.edits.titles import type_title
from espalier.app.number_text import plural
from espalier.app.translation import message, tr
from espalier.model.errors import EspalierError
from espalier.passes.choices.configuration import Configuration, with_configuration
from espalier.passes.edits.annotate import Rename
from espalier.passes.edits.base import Edit

if TYPE_CHECKING:
    from espalier.app.host import Host
    from espalier.model.document.recipe import Recipe
    from espalier.model.graph.graph import Node

NO_MUTE = tr("No step of the recipe names these nodes to mute them. Undo the step, or switch it off in the recipe.")


def selected(host: Host) -> list[Node]:
    """The selected nodes of the open document."""
    document = host.session.document
    return [document.graph[i] for i in host.session.selection if i in document.graph.nodes] if document else []


def apply(host: Host, edit: Edit, ids: Sequence[str]) -> None:
    """Add an edit of these nodes to the recipe."""
    document = host.session.open_document
    chosen = host.session.saved_selections.selecting(ids, lambda n: edit.able(n, document.graph))
    recipe = with_graph_edit(host.session.recipe, edit, chosen)
    where = ids[0] if len(ids) == 1 else plural(len(ids), "node")
    host.session.set_recipe(recipe, f"{edit.title} {where}")


def offered(host: Host, offer: Offer) -> None:
    """Apply an offered edit to the selected nodes, or show why it is impossible."""
    if offer.reason:
        host.banner.show_message(offer.reason)
    elif host.session.selection:
        apply(host, offer.edit, host.session.selection)


def bypass(host: Host) -> None:
    """Bypass the selected nodes."""
    if document := host.session.document:
        offered(host, offers.bypass(document.graph, host.session.selection))


def mute(host: Host) -> None:
    """Mute the selected nodes, or unmute them if all are muted."""
    nodes, document = selected(host), host.session.document
    if not nodes or document is None:
        return
    offer = offers.mute(document.graph, [n.id for n in nodes if not n.annotation.muted])
    if all(n.annotation.muted for n in nodes):
        unmute(host, [n.id for n in nodes])
    else:
        offered(host, offer)


def unmuted(host: Host, ids: Sequence[str]) -> Recipe | None:
    """The recipe without the mutes of these nodes; None if no step names them, such as mutes stored in the file."""
    document = host.session.document
    nodes = [document.graph[i] for i in ids if i in document.graph.nodes] if document else []
    paths = [n.target for n in nodes if n.call == "call_module"]
    recipe = without_mute(host.session.recipe, (*ids, *paths))
    return recipe if recipe != host.session.recipe else None


def unmute(host: Host, ids: Sequence[str]) -> None:
    """Remove the mutes of these nodes from the recipe."""
    recipe = unmuted(host, ids)
    if recipe is None:
        host.banner.show_message(NO_MUTE)
    else:
        host.session.set_recipe(recipe, tr("Unmute {}", ids[0] if len(ids) == 1 else plural(len(ids), "node")))


def rename(host: Host) -> None:
    """Edit the title of the selected node on its card."""
    if nodes := selected(host):
        ids = [n.id for n in nodes]
        type_title(host.canvas, nodes, lambda text: apply(host, Rename(name=text), ids))


def copy(host: Host) -> None:
    """Put the configuration of the selected node on the clipboard."""
    if nodes := selected(host):
        clipboard.copy(nodes[-1])


def cut(host: Host) -> None:
    """Copy the configuration of the selected node, and clear that of the selected nodes."""
    copy(host)
    _configure(host, Configuration(), tr("Clear the configuration of"))


def paste(host: Host) -> None:
    """Apply the configuration on the clipboard to the selected nodes."""
    try:
        configuration = clipboard.pasted()
    except EspalierError as error:
        host.banner.show_message(message(error.message), message(error.hint))
        return
    _configure(host, configuration, tr("Configure"))


def _configure(host: Host, configuration: Configuration, verb: str) -> None:
    nodes, document = selected(host), host.session.document
    if not nodes or document is None:
        return
    try:
        recipe = with_configuration(host.session.recipe, document.graph, [n.id for n in nodes], configuration)
    except EspalierError as error:
        host.banner.show_message(message(error.message), message(error.hint))
        return
    if recipe != host.session.recipe:
        where = nodes[0].id if len(nodes) == 1 else plural(len(nodes), "node")
        host.session.set_recipe(recipe, f"{verb} {where}")


def duplicate(host: Host) -> None:
    """Insert a module of the same kind after the selected node."""
    nodes, document = selected(host), host.session.document
    if len(nodes) == 1 and document is not None:
        offered(host, offers.duplicate(document.graph, nodes[0]))
    elif nodes:
        host.banner.show_message(tr("Several nodes are selected."), tr("Select one node to duplicate it."))


KEYS = {"delete": bypass, "mute": mute, "rename": rename, "copy": copy, "cut": cut, "paste": paste,
        "duplicate": duplicate}  # fmt: skip
FRAME_KEYS = {"delete": arrange.remove_frame, "rename": arrange.rename_frame}


def press(host: Host, key: str) -> None:
    """Perform the action of a key of the canvas; Delete and F2 apply to the frame whose title was clicked, if any."""
    frame = host.canvas.chosen_frame
    if frame >= 0 and key in FRAME_KEYS:
        FRAME_KEYS[key](host, frame)
    else:
        KEYS[key](host)


def connect(host: Host) -> None:
    """Connect the keys of the canvas."""
    host.canvas.key_pressed.connect(partial(press, host))
