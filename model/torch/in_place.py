"""In-place quantisation: formats overwrite activations and gradients that nothing else reads, which saves a tensor.

Hooks and interpreters that keep values must not see them change, so the caller has to request it.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx, nn

from espalier.model.formats.straight_through import NOT_EXCLUSIVE, Exclusive
from espalier.model.graph.graph import Node
from espalier.model.graph.ops import category, spec
from espalier.model.torch.layers import Compressed, Effective

EXCLUSIVE = "espalier_own"  # key in a built module's meta: its code when built, and `exclusive_values`
_ALLOCATES = ("add", "sub", "rsub", "mul", "div", "scaled_dot_product_attention", "cat", "stack")
_ALLOCATING = ("linear", "activation", "norm", "embedding")  # categories
# Operations whose backward pass does not need their result.
_RESULT_UNUSED = ("add", "sub", "rsub", "mul", "div", "cat", "stack", "linear", "conv1d", "conv2d", "conv3d", "gelu",
                  "silu", "layer_norm", "group_norm", "matmul", "bmm", "mm", "embedding")  # fmt: skip
# Readers whose backward pass allocates a separate gradient for each operand.
_READERS = ("linear", "conv1d", "conv2d", "conv3d"), ("matmul", "bmm", "mm")  # modules, functions
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


def exclusive_values(graph: fx.Graph, nodes: Mapping[str, Node], key: str) -> dict[str, Exclusive]:
    """Path of each activation's Effective → which of its tensors nothing else reads.

    `key`: key of an fx node's meta with the id of its node; Effectives have none.
    """
    node_of = {n: nodes.get(n.meta.get(key, "")) for n in graph.nodes}
    effectives = [n for n in graph.nodes if n.op == "call_module" and n.args and node_of[n] is None]
    return {str(n.target): _exclusive(n, node_of) for n in effectives}


def _exclusive(effective: fx.Node, node_of: Mapping[fx.Node, Node | None]) -> Exclusive:
    value = effective.args[0]
    is_only, producer = _is_only_reader(value, node_of), node_of.get(value) if isinstance(value, fx.Node) else None
    readers = [(u, node_of[u]) for u in effective.users]
    separate = all(n is not None and n.op in _READERS[u.op == "call_function"] for u, n in readers)
    return Exclusive(is_only, is_only and producer is not None and producer.op in _RESULT_UNUSED, separate)


def _is_only_reader(value: Any, node_of: Mapping[fx.Node, Node | None]) -> bool:
    """Whether a value's memory is newly allocated in the run and has a single reader, through views."""
    while isinstance(value, fx.Node) and len(value.users) == 1:
        node = node_of[value]
        if node is None:
            if value.op != "call_module":
                return False
        elif node.outputs is not None or _writes(value, node):
            return False
        elif _allocates(node):
            return True
        elif not spec(node.op).moves:
            return False
        value = value.args[0] if value.args else None  # it may be a view of this value
    return False


def _allocates(node: Node) -> bool:
    """Whether a result is always newly allocated: no view of an operand, no stored tensor."""
    products = category(node) == "matmul" and node.op != "einsum"
    return products or node.op in _ALLOCATES or category(node) in _ALLOCATING


def _writes(value: fx.Node, node: Node) -> bool:
    """Whether a call writes into an operand."""
    name = getattr(value.target, "__name__", "").partition(".")[0]
    return name.endswith("_") or "out" in value.kwargs or bool(node.attrs.get("inplace"))


@contextmanager
def in_place(module: nn.Module) -> Generator[None]:
    """Let a built module's formats overwrite their exclusive tensors inside the block, unless the module has hooks or
    changed code."""
    effectives = _effectives(module)
    for effective, exclusive in effectives:
        vars(effective)["exclusive"] = exclusive  # nn.Module.__setattr__ takes ten times as long, at each step
    try:
        yield
    finally:
        for effective, _ in effectives:
            vars(effective)["exclusive"] = NOT_EXCLUSIVE


def _effectives(module: nn.Module) -> list[tuple[Effective, Exclusive]]:
    untyped: Any = module
    code, values = getattr(module, "meta", {}).get(EXCLUSIVE, ("", None))
    if values is None or untyped.code != code:
        return []
    parts = _parts(module)
    if _has_hooks(torch.nn.modules.module, "_global") or any(_has_hooks(part, "") for part in parts):
        return []
    activations = [(module.get_submodule(path), exclusive) for path, exclusive in values.items()]
    layers = [p for p in parts if isinstance(p, Compressed) and isinstance(p.inner, _LAYERS)]
    weights = [(p.effective["weight"], Exclusive(gradient=True)) for p in layers if "weight" in p.effective]
    return [(part, exclusive) for part, exclusive in (*activations, *weights) if isinstance(part, Effective)]


def _parts(module: nn.Module) -> list[nn.Module]:
    """`module.modules()`, ten times as fast."""
    parts: list[Any] = [module]
    for part in parts:
        parts.extend(p for p in part._modules.values() if p is not None)
    return parts


def _has_hooks(part: Any, prefix: str) -> bool:
    attributes = part.__dict__
    return any(attributes[f"{prefix}{kind}"] for kind in _HOOKS)
