"""Labels of the stubs of shared tensors, and the stubs that a collapsed group shows on its box as tags.

Without tags the group of a mask would look unused while the blocks that read it are collapsed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from espalier.app.canvas.hierarchy import Hierarchy, Stub, Tensor
from espalier.app.number_text import plural
from espalier.app.translation import tr

MAX_TAGS = 3  # of one group; the last one counts the rest
MAX_CHAIN = 8  # nodes searched for a name that distinguishes two shared tensors
Sources = Sequence[tuple[Tensor, ...]]  # per node, its input tensors


def tag_groups(tree: Hierarchy) -> None:
    """Set the `tags` of every group: the stubs on its box while it is collapsed."""
    ins: dict[int, dict[int, str]] = {}
    outs: dict[int, dict[int, int]] = {}
    for stub in [s for s in tree.stubs if not s.uses]:
        above, here = tree.ancestors(tree.home[stub.source]), tree.ancestors(stub.group)
        for group in here:
            if group not in above:
                ins.setdefault(group, {})[stub.source] = stub.label
        for group in above:
            if group not in here:
                uses = outs.setdefault(group, {})
                uses[stub.source] = uses.get(stub.source, 0) + 1
    for number in sorted(ins.keys() | outs.keys()):
        tags = [Stub(source, number, blocks(n), n, closed=True) for source, n in outs.get(number, {}).items()]
        tags += [Stub(source, number, label, closed=True) for source, label in ins.get(number, {}).items()]
        tree.groups[number].tags = tuple(range(len(tree.stubs), len(tree.stubs) + len(tags[:MAX_TAGS])))
        tree.stubs += tags if len(tags) <= MAX_TAGS else [*tags[: MAX_TAGS - 1], _more(tags[MAX_TAGS - 1 :])]


def blocks(count: int) -> str:
    """The number of groups that use a tensor, as text."""
    return plural(count, "block")


def _more(tags: list[Stub]) -> Stub:
    """One tag that counts the rest."""
    first = tags[0]
    others = tuple(t.source for t in tags[1:])
    return Stub(first.source, first.group, tr("{} more shared tensors", len(tags)), 0, True, others)


def stub_labels(tree: Hierarchy, shared: Iterable[int], sources: Sources) -> dict[int, str]:
    """Labels of shared tensors: their module, and their op where the module is not unique."""
    modules = {u: _module(tree, u) for u in shared}
    counts = Counter(modules.values())
    labels: dict[int, str] = {}
    for u, module in modules.items():
        text = tree.captions[u]
        alike = [v for v in modules if modules[v] == module] if counts[module] > 1 else []
        name = _distinct_name(tree, u, alike, sources)
        plain = text is not None and text.category == "shape" and counts[module] == 1
        labels[u] = name if not module else module if plain else f"{module} › {name}"
    return labels


def _module(tree: Hierarchy, u: int) -> str:
    text, group = tree.captions[u], tree.groups[tree.home[u]]
    return "" if group.parent < 0 or (text and text.category == "io") else group.label.rpartition(".")[2]


def _distinct_name(tree: Hierarchy, u: int, alike: list[int], sources: Sources) -> str:
    """The name of a node; if `alike` have it too, that of the nearest node before it that distinguishes them."""
    chains = [_chain(tree, v, sources) for v in (u, *(v for v in alike if v != u))]
    for names in zip(*chains, strict=False):
        if names[0] not in names[1:]:
            return names[0]
    return tree.ids[u]


def _chain(tree: Hierarchy, u: int, sources: Sources) -> list[str]:
    """The names of a node and of the nodes before it in its group, nearest first."""
    names: list[str] = []
    home = tree.home[u]
    while tree.home[u] == home and len(names) < MAX_CHAIN:
        text = tree.captions[u]
        names.append(text.name if text else tree.ids[u])
        if not sources[u]:
            break
        u = sources[u][0][0]
    return names
