"""Runs that nobody listens to: there formats may write over activations and gradients that were made for them alone.

That saves a second tensor. Whoever keeps values (hooks, interpreters) must never see one change, so a run is unheard
only where the caller says so.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx, nn

from espalier.model.formats.straight_through import NOTHING, Own
from espalier.model.graph.graph import Node
from espalier.model.graph.ops import category, spec
from espalier.model.torch.layers import Compressed, Effective

OWN = "espalier_own"  # key in a built module's meta: its code as it was built, and `own_values`
_MAKES = ("add", "sub", "rsub", "mul", "div", "scaled_dot_product_attention", "cat", "stack")
_MAKING = ("linear", "activation", "norm", "embedding")  # categories
# Makers whose backward pass does not need what they made.
_FORGET = ("add", "sub", "rsub", "mul", "div", "cat", "stack", "linear", "conv1d", "conv2d", "conv3d", "gelu", "silu",
           "layer_norm", "group_norm", "matmul", "bmm", "mm", "embedding")  # fmt: skip
# Readers that give each operand a gradient of its own.
_READERS = ("linear", "conv1d", "conv2d", "conv3d"), ("matmul", "bmm", "mm")  # modules, functions
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


def own_values(made: fx.Graph, nodes: Mapping[str, Node], key: str) -> dict[str, Own]:
    """Of the Effectives of activations, by path: what nothing else reads, in memory that was made for it in the run.

    `key`: under it an fx node's meta names its node; Effectives have none.
    """
    node_of = {n: nodes.get(n.meta.get(key, "")) for n in made.nodes}
    through = [n for n in made.nodes if n.op == "call_module" and n.args and node_of[n] is None]
    return {str(n.target): _what_is_own(n, node_of) for n in through}


def _what_is_own(through: fx.Node, node_of: Mapping[fx.Node, Node | None]) -> Own:
    value = through.args[0]
    own, maker = _own(value, node_of), node_of.get(value) if isinstance(value, fx.Node) else None
    readers = [(u, node_of[u]) for u in through.users]
    apart = all(n is not None and n.op in _READERS[u.op == "call_function"] for u, n in readers)
    return Own(own, own and maker is not None and maker.op in _FORGET, apart)


def _own(value: Any, node_of: Mapping[fx.Node, Node | None]) -> bool:
    while isinstance(value, fx.Node) and len(value.users) == 1:
        node = node_of[value]
        if node is None:
            if value.op != "call_module":
                return False
        elif node.outputs is not None or _writes(value, node):
            return False
        elif _makes(node):
            return True
        elif not spec(node.op).moves:
            return False
        value = value.args[0] if value.args else None  # whose memory it may be: a view of it, or it
    return False


def _makes(node: Node) -> bool:
    """Whether a result is always memory of its own, no view of an operand and nothing that is kept."""
    products = category(node) == "matmul" and node.op != "einsum"
    return products or node.op in _MAKES or category(node) in _MAKING


def _writes(value: fx.Node, node: Node) -> bool:
    """Whether a call writes into an operand."""
    name = getattr(value.target, "__name__", "").partition(".")[0]
    return name.endswith("_") or "out" in value.kwargs or bool(node.attrs.get("inplace"))


@contextmanager
def unheard(module: nn.Module) -> Generator[None]:
    """Meanwhile a built module's formats may write over what is theirs alone; not where something has hooks, or where
    its code was changed."""
    through = _through(module)
    for each, own in through:
        vars(each)["own"] = own  # a module's own way takes ten times as long, at each step
    try:
        yield
    finally:
        for each, _ in through:
            vars(each)["own"] = NOTHING


def _through(module: nn.Module) -> list[tuple[Effective, Own]]:
    held: Any = module
    code, owned = getattr(module, "meta", {}).get(OWN, ("", None))
    if owned is None or held.code != code:
        return []
    parts = _parts(module)
    if _listens(torch.nn.modules.module, "_global") or any(_listens(part, "") for part in parts):
        return []
    found = [(module.get_submodule(path), own) for path, own in owned.items()]
    layers = [p for p in parts if isinstance(p, Compressed) and isinstance(p.inner, _LAYERS)]
    weights = [(p.effective["weight"], Own(gradient=True)) for p in layers if "weight" in p.effective]
    return [(each, own) for each, own in (*found, *weights) if isinstance(each, Effective)]


def _parts(module: nn.Module) -> list[nn.Module]:
    """As `modules`, ten times as fast."""
    found: list[Any] = [module]
    for part in found:
        found.extend(p for p in part._modules.values() if p is not None)
    return found


def _listens(part: Any, prefix: str) -> bool:
    held = part.__dict__
    return any(held[f"{prefix}{kind}"] for kind in _HOOKS)
