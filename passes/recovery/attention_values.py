"""The Linear whose result an attention weighs and sums: channels of the attention's result are channels of its own."""

from __future__ import annotations

from collections.abc import Mapping

from espalier.model.graph.graph import Graph, Node, Ref

ATTENTION = "scaled_dot_product_attention"
MOVES = ("view", "reshape", "unflatten", "flatten", "transpose", "permute", "contiguous", "clone", "dropout",
         "identity", "kv_cache")  # fmt: skip
JOINED = ["positions", "heads", "elements"]
_VALUE = 2  # operand of the attention
Users = Mapping[str, tuple[str, ...]]


def values_of(node: Node, graph: Graph, users: Users) -> Node | str:
    """The Linear of the values behind `node`, a result of attention with heads joined; or why there is none.

    Each channel of `node` must be a weighted sum over positions of one channel of that Linear, in the same order:
    heads are split off, moved before the positions, and joined again.
    """
    after = _chain(node, graph, users, ATTENTION)
    if isinstance(after, str):
        return after
    attention = graph.nodes[after[-1].args[0].node] if isinstance(after[-1].args[0], Ref) else after[-1]
    value = attention.args[_VALUE] if len(attention.args) > _VALUE else None
    if not isinstance(value, Ref) or len(users[attention.id]) != 1:
        return f"{attention.id} has no values of its own"
    before = _chain(graph.nodes[value.node], graph, users, "linear")
    if isinstance(before, str):
        return before
    linear = before[-1].args[0]
    assert isinstance(linear, Ref)
    found = graph.nodes[linear.node]
    if len(users[found.id]) != 1 or attention.inputs.count(value) != 1:
        return f"{found.id} also feeds other nodes"
    if not _keeps_channels([*reversed(before), attention, *reversed(after)]):
        return f"heads of {attention.id} are shared or in another order than the channels of {found.id}"
    return found


def _chain(node: Node, graph: Graph, users: Users, op: str) -> list[Node] | str:
    """The moves from `node` back to the first one behind an `op`."""
    moves: list[Node] = []
    while node.op in MOVES and isinstance(node.args[0], Ref) and len(users[node.id]) == 1:
        moves.append(node)
        node = graph.nodes[node.args[0].node]
        if node.op == op:
            return moves
    if len(users[node.id]) > 1 and node.op in MOVES:
        return f"{node.id} also feeds other nodes"
    return f"{node.id} ({node.op}) has no weights into which the division can be folded"


def _keeps_channels(nodes: list[Node]) -> bool:
    """Whether channels split into (heads, elements) come to the attention as heads, positions, elements, and leave it
    joined in that order."""
    axes: list[str] = []
    for node in nodes:
        if node.op == ATTENTION:
            if axes[-3:] != ["heads", "positions", "elements"]:
                return False
        elif node.op in ("transpose", "permute"):
            axes = _moved(axes, node)
        else:
            axes = _reshaped(axes, node)
    return axes == ["channels"]


def _reshaped(axes: list[str], node: Node) -> list[str]:
    """The axes after a reshape that splits channels into heads, joins them, or leaves the shape; else none."""
    shape, source = node.out.shape if node.out else (), node.ports["data_in"].shape
    if shape == source:
        return axes
    if not axes and len(shape) == len(source) + 1 and shape[:-2] == source[:-1]:
        return [*(f"batch{i}" for i in range(len(shape) - 3)), *JOINED]
    joins = axes[-3:] == JOINED and len(shape) == len(axes) - 1 and shape[:-1] == source[:-2]
    return ["channels"] if joins else ["unknown"]


def _moved(axes: list[str], node: Node) -> list[str]:
    if not axes:
        return ["unknown"]
    numbers = node.args[1:] if node.op == "transpose" else node.args[1]
    order = [int(n) % len(axes) for n in numbers if isinstance(n, int)] if isinstance(numbers, tuple | list) else []
    if node.op == "permute" and len(order) == len(axes):
        return [axes[i] for i in order]
    if node.op == "transpose" and len(order) == 2:
        first, second = order
        moved = list(axes)
        moved[first], moved[second] = axes[second], axes[first]
        return moved
    return ["unknown"]
