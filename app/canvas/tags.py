"""What the stubs of shared tensors are called, and those that a closed group shows on its box as tags.

Without these tags a mask's group would look unused as long as the blocks that read it are closed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from espalier.app.canvas.hierarchy import Hierarchy, Stub, Tensor

MOST = 3  # tags of one group; more are told as a number
CHAIN_MOST = 8  # nodes looked at to tell two shared tensors apart
Sources = Sequence[tuple[Tensor, ...]]  # per node, the tensors that it takes


def tag_groups(tree: Hierarchy) -> None:
    """Give every group its `tags`: stubs to be shown on its box while it is closed."""
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
        tree.groups[number].tags = tuple(range(len(tree.stubs), len(tree.stubs) + len(tags[:MOST])))
        tree.stubs += tags if len(tags) <= MOST else [*tags[: MOST - 1], _more(tags[MOST - 1 :])]


def blocks(count: int) -> str:
    """How many groups use a tensor."""
    return f"{count} block{'s' * (count != 1)}"


def _more(tags: list[Stub]) -> Stub:
    """One tag for the rest."""
    first = tags[0]
    others = tuple(t.source for t in tags[1:])
    return Stub(first.source, first.group, f"{len(tags)} more shared tensors", 0, True, others)


def stub_labels(tree: Hierarchy, shared: Iterable[int], sources: Sources) -> dict[int, str]:
    """What to call shared tensors: after their module, and where that does not tell them apart, their op."""
    modules = {u: _module(tree, u) for u in shared}
    known = Counter(modules.values())
    labels: dict[int, str] = {}
    for u, module in modules.items():
        text = tree.captions[u]
        alike = [v for v in modules if modules[v] == module] if known[module] > 1 else []
        name = _telling(tree, u, alike, sources)
        plain = text is not None and text.category == "shape" and known[module] == 1
        labels[u] = name if not module else module if plain else f"{module} › {name}"
    return labels


def _module(tree: Hierarchy, u: int) -> str:
    text, group = tree.captions[u], tree.groups[tree.home[u]]
    return "" if group.parent < 0 or (text and text.category == "io") else group.label.rpartition(".")[2]


def _telling(tree: Hierarchy, u: int, alike: list[int], sources: Sources) -> str:
    """The name of a node; where nodes are called alike, of the nearest one before it that tells it from them."""
    chains = [_chain(tree, v, sources) for v in (u, *(v for v in alike if v != u))]
    for names in zip(*chains, strict=False):
        if names[0] not in names[1:]:
            return names[0]
    return tree.ids[u]


def _chain(tree: Hierarchy, u: int, sources: Sources) -> list[str]:
    """The names of a node and of those that lead to it in its group, the nearest first."""
    names: list[str] = []
    home = tree.home[u]
    while tree.home[u] == home and len(names) < CHAIN_MOST:
        text = tree.captions[u]
        names.append(text.name if text else tree.ids[u])
        if not sources[u]:
            break
        u = sources[u][0][0]
    return names
