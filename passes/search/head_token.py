"""Narrows the last layers of a model to the one token that its head reads.

A classifier reads the first token of its last block; two thirds of that block compute unused tokens. A product with
fewer rows may sum in another order: then the results differ, and the block is computed for all tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from espalier.model.formats.scaled import ScaledFormat
from espalier.model.graph.meta import Dim
from espalier.model.symbols import evaluate
from espalier.model.torch.build import NODE
from espalier.model.torch.layers import Compressed, Effective
from espalier.passes.search.reused_modules import Wired

ROWWISE = (nn.Linear, nn.LayerNorm, nn.Dropout, nn.Identity, nn.GELU, nn.ReLU, nn.Tanh, nn.SiLU)
FUNCTIONS = ("aten.gelu.default", "aten.relu.default", "aten.tanh.default", "aten.silu.default", "aten.add.Tensor")
SELECT, SLICE, EVERYTHING = "aten.select.int", "aten.slice.Tensor", 1 << 62
CURVES: dict[str, Callable[[Tensor], Tensor]] = {"gelu": F.gelu, "relu": F.relu, "tanh": torch.tanh, "silu": F.silu}
DRAWS = 3
PARAMETERS = ("weight", "bias")  # ports of a layer's own tensors


@dataclass(frozen=True, slots=True)
class Claim:
    """The claim that a layer computes one token alone exactly as among all. `shape`: of its input, with symbols."""

    kind: str
    shape: tuple[Dim, ...]
    token: int
    features: int = 0
    bias: bool = False

    def holds(self, symbols: dict[str, int]) -> bool:
        """Whether it is true at these sizes on this machine, bit for bit."""
        sizes = tuple(d if isinstance(d, int) else evaluate(d, symbols) for d in self.shape)
        return holds_at(self.kind, sizes, self.token, self.features, self.bias, torch.get_num_threads())


@lru_cache(4096)
def holds_at(kind: str, sizes: tuple[int, ...], token: int, features: int, bias: bool, threads: int) -> bool:
    """Test the claim on random float values, which round in every sum; values of short formats would prove nothing."""
    chance = torch.Generator().manual_seed(0)
    for _ in range(DRAWS):
        x, w = torch.randn(sizes, generator=chance), torch.randn(features, sizes[-1], generator=chance)
        b = torch.randn(features, generator=chance) if bias else None
        full, single = (_result(kind, v, w, b) for v in (x, x.select(1, token).contiguous()))
        if not torch.equal(full.select(1, token), single):
            return False
    return True


def _result(kind: str, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
    match kind:
        case "linear":
            return F.linear(x, w, b)
        case "layer_norm":
            return F.layer_norm(x, (x.shape[-1],))
        case _:
            return CURVES[kind](x)


def narrow(wired: Wired) -> tuple[Claim, ...]:
    """Remove unread tokens from a wired graph; returns the claims that this relies on, empty if nothing was removed."""
    claims: list[Claim] = []
    for chosen in [n for n in wired.nodes if str(n.target) == SELECT and len(n.args) == 3 and n.args[1] == 1]:
        group = _group(wired, chosen)
        if any(isinstance(_part(wired, n), nn.Linear) for n in group):
            _rewrite(wired, chosen, group)
            claims += (c for n in group if (c := _claim(wired, n, chosen.args[2])) is not None)
    wired.nodes = list(wired.fx.nodes)
    return tuple(dict.fromkeys(claims))


def _claim(wired: Wired, node: fx.Node, token: Any) -> Claim | None:
    """The claim of a layer; None for formats, additions and layers that leave values unchanged."""
    layer = _part(wired, node)
    source = wired.graph.nodes.get(node.meta.get(NODE, ""))
    if source is None or isinstance(layer, Effective | nn.Dropout | nn.Identity):
        return None
    shape = source.ports["data_in"].shape
    if isinstance(layer, nn.Linear):
        return Claim("linear", shape, token, layer.out_features, getattr(layer, "bias", None) is not None)
    kind = "layer_norm" if isinstance(layer, nn.LayerNorm) else _curve(layer, node)
    return Claim(kind, shape, token) if kind else None


def _curve(layer: Any, node: fx.Node) -> str:
    return type(layer).__name__.lower() if layer is not None else str(node.target).split(".")[1].replace("add", "")


def _group(wired: Wired, chosen: fx.Node) -> list[fx.Node]:
    """The nodes before a selected token that only it uses, in order."""
    group = {chosen}
    for node in reversed(wired.nodes[: wired.nodes.index(chosen)]):
        if node.users and all(u in group for u in node.users) and (_is_full_slice(node) or _by_token(wired, node)):
            group.add(node)
    return [n for n in wired.nodes if n in group and n is not chosen and not _is_full_slice(n)]


def _is_full_slice(node: fx.Node) -> bool:
    args = node.args
    return str(node.target) == SLICE and args[1:3] == (0, 0) and len(args) == 4 and _large(args[3])


def _large(value: Any) -> bool:
    return isinstance(value, int) and value >= EVERYTHING


def _by_token(wired: Wired, node: fx.Node) -> bool:
    """Whether each token of the result depends on the same token of every operand, (batch, token, …), and no other."""
    part = wired.parts.get(str(node.target)) if node.op == "call_module" else None
    if isinstance(part, Effective):
        fmt = part.format
        plain = fmt is not None and not fmt.rowwise and not fmt.stochastic and not isinstance(fmt, ScaledFormat)
        return plain and part.mask is None and part.rule is None
    if node.op == "call_module" and not isinstance(_part(wired, node), ROWWISE):
        return False
    if node.op not in ("call_module", "call_function") or (node.op == "call_function" and not _is_elementwise(node)):
        return False
    source = wired.graph.nodes.get(node.meta.get(NODE, ""))
    if source is None or (isinstance(layer := _part(wired, node), nn.LayerNorm) and len(layer.normalized_shape) != 1):
        return False
    shapes = [meta.shape for port, meta in source.ports.items() if port not in PARAMETERS]
    return bool(shapes) and all(len(s) == 3 and s[:2] == shapes[0][:2] for s in shapes)


def _is_elementwise(node: fx.Node) -> bool:
    tensors = all(isinstance(a, fx.Node) for a in node.args)
    return str(node.target) in FUNCTIONS and tensors and not node.kwargs


def _part(wired: Wired, node: fx.Node) -> Any:
    """The layer that a node calls, without its compression wrapper."""
    part = wired.parts.get(str(node.target)) if node.op == "call_module" else None
    return part.inner if isinstance(part, Compressed) else part


def _rewrite(wired: Wired, chosen: fx.Node, group: list[fx.Node]) -> None:
    """Copy the group for the one token, which is selected from the group's inputs."""
    copies: dict[fx.Node, fx.Node] = {}

    def operand(node: fx.Node) -> fx.Node:
        while _is_full_slice(node):
            node = node.all_input_nodes[0]
        if node not in copies:
            token = wired.fx.call_function(torch.ops.aten.select.int, (node, *chosen.args[1:]))
            copies[node] = wired.fx.call_function(torch.ops.aten.contiguous.default, (token,))
        return copies[node]

    with wired.fx.inserting_before(chosen):
        for node in group:
            copies[node] = wired.fx.node_copy(node, operand)
        chosen.replace_all_uses_with(operand(chosen.args[0]))  # type: ignore[arg-type]
