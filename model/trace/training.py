"""Dropout arguments of a model's functions in training: an export in evaluation mode has them as 0, or off.

The model runs once more in training mode, on fake tensors if possible, and its calls are matched with the graph's.
"""

from __future__ import annotations

import copy
import inspect
import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
import torch.utils._pytree as pytree
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from typing_extensions import override

from espalier.model.graph.check import Problem
from espalier.model.graph.graph import Graph, Node, Ref, map_refs
from espalier.model.graph.node import Arg
from espalier.model.trace.capture import quiet

ATTENTION, RECURRENT, RANDOM = (
    "scaled_dot_product_attention",
    ("lstm", "gru", "rnn_tanh", "rnn_relu"),
    ("rand", "bernoulli"),
)
WEIGHTS = "weights of an attention"  # their dropout after the softmax is called in training only
_KINDS = ("dropout", ATTENTION, *RECURRENT, *RANDOM)
_DROPOUTS = (F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, F.feature_alpha_dropout)
_NATIVE = ("dropout", "dropout_", "feature_dropout", "feature_dropout_", "alpha_dropout", "alpha_dropout_")
_OFF: dict[str, Arg] = {}


@dataclass(frozen=True, slots=True)
class Call:
    """One call that can drop values: path of its module, op, and arguments in training."""

    path: str
    op: str
    arguments: dict[str, Arg]


def with_training_dropout(graph: Graph, model: nn.Module, example: dict[str, Any]) -> tuple[Graph, list[Problem]]:
    """(`graph` with the training arguments of its functions as `attrs`, problems of calls that match no node)."""
    own = {n.target for n in graph if n.call == "call_module"}
    why = ""
    for values in (False, True):
        try:
            calls = training_calls(model, example, values)
        # Boundary to foreign code: a model may refuse training, or ask for values, in any way.
        except Exception as error:  # noqa: BLE001
            lines = str(error).strip().splitlines() or [type(error).__name__]
            why = f"The model does not run in training mode ({lines[0][:120]})"
        else:
            after, problems = _matched(*_with_weights(graph, [c for c in calls if c.path not in own]))
            return after, [*problems, *_always(after)]
    return graph, _unknown(graph, why)


def unknown_dropout(graph: Graph) -> list[Problem]:
    """Problems of a program without its model: dropout in training is unknown."""
    return [*_unknown(graph, "The file was exported for evaluation"), *_always(graph)]


def _unknown(graph: Graph, why: str) -> list[Problem]:
    return [Problem(n.id, f"{why}: the dropout of {n.id} in training is unknown, so none is applied.", "warning")
            for n in graph if _can_drop(n) and not _is_on(n)]  # fmt: skip


def _always(graph: Graph) -> list[Problem]:
    return [Problem(n.id, f"{n.id} drops values in evaluation too: its code ignores the mode.", "warning")
            for n in graph if _can_drop(n) and _is_on(n)]  # fmt: skip


def _can_drop(node: Node) -> bool:
    return node.call == "call_function" and node.op in ("dropout", ATTENTION)


def _is_on(node: Node) -> bool:
    """Whether the call as exported drops values: dropout(x, p, train), attention(q, k, v, mask, p)."""
    position = 2 if node.op == "dropout" else 4
    return len(node.args) > position and bool(node.args[position])


def _with_weights(graph: Graph, calls: list[Call]) -> tuple[Graph, list[Call]]:
    """(the graph with a dropout after each softmax whose weights training drops, the calls with these as dropouts)."""
    asked = [c for c in calls if c.op == WEIGHTS]
    for path in {c.path for c in asked}:
        here = [n for n in graph if n.op == "softmax" and n.call == "call_function" and _path(n) == path]
        wanted = [c for c in asked if c.path == path]
        if len(here) != len(wanted):
            continue
        for node, call in zip(here, wanted, strict=True):
            graph = _dropping(graph, node, call.arguments.get("p", 0.0)) if call.arguments else graph
        calls = [replace(c, op="dropout") if c in wanted and c.arguments else c for c in calls]
    return graph, [c for c in calls if c.op != WEIGHTS or c.arguments]


def _dropping(graph: Graph, node: Node, rate: Arg) -> Graph:
    """Insert a dropout, off in evaluation, between `node` and its users."""
    names = (f"{node.id}_dropout{f'_{i}' if i else ''}" for i in itertools.count())
    name, out = next(n for n in names if n not in graph.nodes), node.ports["data_out"]
    made = Node(name, "dropout", "call_function", "aten.dropout.default", (Ref(node.id), rate, False),
                ports={"data_in": out, "data_out": out}, module_path=node.module_path, source=node.source)  # fmt: skip
    users = [n for n in graph if Ref(node.id) in n.inputs]
    later = list(graph.nodes)[list(graph.nodes).index(node.id) + 1]
    graph = graph.insert(made, later)
    return graph.replace(*(map_refs(n, lambda r: Ref(name) if r == Ref(node.id) else r) for n in users))


def _path(node: Node) -> str:
    """Path of its module, without the number of a repeated call."""
    return re.sub(r"@\d+$", "", node.module_path)


def _matched(graph: Graph, calls: list[Call]) -> tuple[Graph, list[Problem]]:
    nodes, seen = defaultdict[str, list[Node]](list), defaultdict[str, list[Call]](list)
    for node in graph:
        if node.call == "call_function" and node.op in _KINDS:
            nodes[_path(node)].append(node)
    for call in calls:
        seen[call.path].append(call)
    changed: list[Node] = []
    problems: list[Problem] = []
    for path, found in seen.items():
        there = nodes[path]
        if [n.op for n in there] == [c.op for c in found]:
            changed += [replace(n, attrs=c.arguments) for n, c in zip(there, found, strict=True) if c.arguments]
        elif any(c.arguments or c.op in RANDOM for c in found):
            nearest = there[0].id if there else _nearest(graph, path)
            text = f"{path or 'The model'} drops values in training by a function that evaluation does not call."
            problems.append(Problem(nearest, f"{text} The graph does not drop them.", "warning"))
    return graph.replace(*changed), problems


def _nearest(graph: Graph, path: str) -> str | None:
    """A node of the module, or of the innermost enclosing module that has one."""
    while path:
        found = next((n.id for n in graph if f"{n.module_path}.".startswith(f"{path}.")), None)
        if found:
            return found
        path = path.rpartition(".")[0]
    return None


# -- the run


def training_calls(model: nn.Module, example: dict[str, Any], values: bool = False) -> list[Call]:
    """The calls of one run in training mode, in order, on a copy of the model.

    Without `values` tensors are fake. With them the copy shares the model's parameters, and buffers are copied.
    """
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    memo: dict[int, Any] = {id(t): t if values else fake.from_tensor(t) for t in model.parameters()}
    memo |= {} if values else {id(t): fake.from_tensor(t) for t in model.buffers()}
    twin = copy.deepcopy(model, memo).train()
    watch = _Watch(values)
    for path, module in twin.named_modules():
        module.register_forward_pre_hook(lambda *_, path=path: watch.stack.append(path))
        module.register_forward_hook(lambda *_: watch.stack.pop() and None)
    inputs = pytree.tree_map_only(Tensor, torch.clone if values else fake.from_tensor, example)
    with quiet(), torch.random.fork_rng(devices=[]), torch.no_grad(), nullcontext() if values else fake, watch:
        twin(**inputs)
    return watch.calls


class _Watch(TorchFunctionMode):
    def __init__(self, values: bool) -> None:
        super().__init__()
        self._values = values
        self.stack: list[str] = []
        self.calls: list[Call] = []

    @override
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        path = self.stack[-1] if self.stack else ""
        self.calls += [Call(path, op, arguments) for op, arguments in _drops(func, args, kwargs or {})]
        shape = None if self._values else _shape(func, args)
        return args[0].new_empty(shape) if shape is not None else func(*args, **(kwargs or {}))


def _shape(func: Any, args: Any) -> tuple[int, ...] | None:
    """Shape of a matrix product's or an attention's result; for fake tensors it replaces the call, 3 times faster."""
    tensors = [a for a in args[:3] if isinstance(a, Tensor)]
    if len(tensors) < 2 or len({t.dtype for t in tensors}) > 1:
        return None
    if func is F.linear and tensors[1].dim() == 2 and tensors[0].shape[-1:] == tensors[1].shape[1:]:
        return (*tensors[0].shape[:-1], tensors[1].shape[0])
    if func is F.scaled_dot_product_attention and len(tensors) == 3:
        query, key, value = tensors
        same = query.shape[-1] == key.shape[-1] and query.shape[:-3] == key.shape[:-3] == value.shape[:-3]
        return (*query.shape[:-1], value.shape[-1]) if same and query.dim() == 4 else None
    return None


def _drops(func: Any, args: Any, kwargs: dict[str, Any]) -> Iterator[tuple[str, dict[str, Arg]]]:
    """(op, arguments that differ in training) of a call that can drop values; no arguments if it drops none."""
    name = str(getattr(func, "__name__", "")).removesuffix("_")
    if func in _DROPOUTS:
        given = _bound(func, args, kwargs)
        yield "dropout", {"p": given["p"], "train": True} if given["p"] and given["training"] else _OFF
    elif name in _NATIVE:
        yield "dropout", {"p": args[1], "train": True} if len(args) > 2 and args[1] and args[2] else _OFF
    elif name == ATTENTION:
        rate = args[4] if len(args) > 4 else kwargs.get("dropout_p", 0.0)
        yield ATTENTION, {"dropout_p": rate} if rate else _OFF
    elif func is F.multi_head_attention_forward:
        given = _bound(func, args, kwargs)
        rate = given["dropout_p"] if given["training"] else 0.0
        if not given["need_weights"]:
            yield ATTENTION, {"dropout_p": rate} if rate else _OFF
        else:
            yield WEIGHTS, {"p": rate, "train": True} if rate else _OFF
    elif name in RECURRENT and len(args) == 9:  # input, hx, weights, biases, layers, dropout, train, …
        yield name, {"train": True} if args[5] and args[6] and args[4] > 1 else _OFF
    elif name in RANDOM:
        yield name, _OFF


def _bound(func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    bound = inspect.signature(func).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments
