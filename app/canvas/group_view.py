"""The groups of the canvas: expanding, collapsing and folding them, and what a hit on them stands for."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Signal

from espalier.app.canvas.fold_card import OPEN_ALL
from espalier.app.canvas.hierarchy import Chain, default_open
from espalier.app.canvas.scene import Hit
from espalier.app.canvas.scene_view import SceneView


class GroupView(SceneView):
    """A scene whose groups can be expanded, collapsed and folded."""

    group_toggled = Signal(str, bool)

    def members(self, hit: Hit) -> list[str]:
        """Ids of the nodes that a hit represents; a stub represents the other end of its edge."""
        assert self.scene is not None
        layout = self.scene.layout
        if hit.kind == "node":
            return [layout.tree.ids[layout.nodes[hit.place]]]
        if hit.kind == "stub":
            stub, edges = layout.tree.stubs[layout.stubs[hit.place]], layout.tree.edges
            ends = edges[edges[:, 0] == stub.source, 1].tolist() if stub.uses else [stub.source, *stub.others]
            return [layout.tree.ids[i] for i in ends]
        if hit.kind == "frame":
            frame = self.scene.arrangement.frames[layout.own_frames[hit.place].number]
            return [n for n in frame.nodes if n in layout.tree.index]
        shown = layout.folds[hit.place].members if hit.kind == "fold" else (int(layout.groups[hit.place]),)
        if hit.bar >= 0:
            shown = shown[hit.bar : hit.bar + 1]
        return [layout.tree.ids[i] for i in sorted(i for group in shown for i in layout.tree.members(group))]

    def reveal(self, node: str) -> None:
        """Bring a node into view, expanding the groups that hide it."""
        if self.scene is None or node not in self.scene.layout.tree.index:
            return
        tree = self.scene.layout.tree
        number = tree.index[node]
        if number in tree.through:
            self._after.append(lambda: self.reveal(node))
            self.set_show_shapes(True)
            return
        needed = frozenset(tree.groups[g].path for g in tree.ancestors(max(tree.home[number], 0)))
        if needed <= (self.open_groups or frozenset()):
            self.bring(number)
        else:
            self._after.append(lambda: self.bring(number))
            self._set_open((self.open_groups or frozenset()) | needed)

    def toggle(self, place: int) -> None:
        """Expand or collapse the group at an index of the layout."""
        if self.scene:
            number = int(self.scene.layout.groups[place])
            path = self.scene.layout.tree.groups[number].path
            self._open(path, not self.scene.layout.group_open[place])

    def set_open(self, path: str, opened: bool) -> None:
        """Expand or collapse the group of exactly this path, if it is drawn as a group."""
        if self.scene is not None:
            tree = self.scene.layout.tree
            if tree.groups[tree.paths.get(path, 0)].path == path:
                self._open(path, opened)

    def set_all_open(self, opened: bool) -> None:
        """Expand or collapse all groups."""
        self.open_all() if opened else self.close_all()

    def open_all(self) -> None:
        """Expand all groups."""
        if self.scene:
            self._set_open(frozenset(g.path for g in self.scene.layout.tree.groups[1:]))

    def close_all(self) -> None:
        """Collapse all groups."""
        self._set_open(frozenset())

    def set_open_groups(self, paths: frozenset[str]) -> None:
        """Expand the groups of these paths and collapse all others."""
        if self.scene is not None:
            self._set_open(paths)

    def _open(self, path: str, opened: bool) -> None:
        if self.scene is None:
            return
        tree, expanded = self.scene.layout.tree, self.open_groups or frozenset()
        number = tree.group_of(path)
        path = tree.groups[number].path
        if number and (path in expanded) != opened:
            around = {tree.groups[g].path for g in tree.ancestors(number)}
            self._anchor = path if self._in_view(number) else None
            self._set_open(expanded | around if opened else expanded - {path})
            self.group_toggled.emit(path, opened)

    def _in_view(self, number: int) -> bool:
        """Whether part of a group is in view, so that its header stays in place."""
        assert self.scene is not None
        rect = self.scene.rect_of_group(number)
        return rect is not None and self.seen().intersects(QRectF(*rect))

    def _set_open(self, groups: frozenset[str]) -> None:
        if groups != self.open_groups:
            self.open_groups = groups
            self._lay_out()

    # ---- folds

    def unfold(self, hit: Hit) -> None:
        """Expand the group of a bar of a fold, or all its groups, or collapse those of its chain."""
        if self.scene is None:
            return
        fold = self.scene.layout.folds[hit.place]
        if hit.bar >= 0:
            self.open_member(fold.chain, fold.first + hit.bar)
        elif hit.link == OPEN_ALL:
            self.open_chain(fold.chain, True)
        elif hit.link:
            self.open_chain(fold.chain, False)

    def open_member(self, chain: Chain, place: int) -> None:
        """Expand one group of a chain, and the groups inside it as far as it stays readable."""
        if self.scene is None:
            return
        tree, number = self.scene.layout.tree, chain.members[place]
        if tree.chains.get(number) is chain:
            inside = default_open(tree, folding=self.folding, root=number)
            around = frozenset(tree.groups[g].path for g in tree.ancestors(number))
            self._anchor = tree.groups[number].path if self._in_view(number) else None
            self._set_open((self.open_groups or frozenset()) | around | inside)
            self.group_toggled.emit(tree.groups[number].path, True)

    def fold_around(self, node: str) -> bool:
        """Fold the innermost chain around a node that is expanded; False if there is none."""
        if self.scene is None or not self.folding:
            return False
        tree, expanded = self.scene.layout.tree, self.open_groups or frozenset()
        for group in reversed(tree.ancestors(max(tree.home[tree.index[node]], 0))):
            chain = tree.chains.get(group)
            if chain is not None and any(tree.groups[m].path in expanded for m in chain.members):
                self.open_chain(chain, False)
                return True
        return False

    def is_hidden(self, node: str) -> bool:
        """Whether a collapsed group or a fold hides a node."""
        return self.scene is not None and self.scene.cover[self.scene.layout.tree.index[node]] >= 0

    def open_chain(self, chain: Chain, opened: bool) -> None:
        """Expand all groups of a chain, or collapse them, so that they are folded."""
        if self.scene is None or self.scene.layout.tree.chains.get(chain.members[0]) is not chain:
            return
        tree, expanded = self.scene.layout.tree, self.open_groups or frozenset()
        paths = frozenset(tree.groups[member].path for member in chain.members)
        around = frozenset(tree.groups[g].path for g in tree.ancestors(tree.groups[chain.members[0]].parent))
        self._anchor = next((tree.groups[m].path for m in chain.members if self._in_view(m)), None)
        self._set_open(expanded | paths | around if opened else expanded - paths)

    def chain_of(self, path: str) -> Chain | None:
        """The chain of the group of exactly this path."""
        if self.scene is None:
            return None
        tree = self.scene.layout.tree
        return tree.chains.get(tree.paths.get(path, -1))
