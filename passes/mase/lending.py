"""A graph lent to a MASE pass: its model as torch.fx, on copies of the weights, every node marked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor, fx, nn

from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph
from espalier.model.torch.build import NODE as MARK
from espalier.model.torch.build import build, fix_devices, parameters_of
from espalier.model.torch.layers import Effective, Switch
from espalier.model.torch.low_rank import innermost
from espalier.passes.base import Context
from espalier.passes.mase.metadata import annotate


@dataclass(frozen=True, slots=True)
class Lent:
    """What was lent, to tell afterwards what the pass has changed."""

    graph: Graph
    model: fx.GraphModule
    targets: dict[str, object]
    modules: dict[str, nn.Module]
    tensors: dict[str, Tensor]

    def untouched(self, node: fx.Node, model: fx.GraphModule) -> str | None:
        """The id of the graph's node that `node` still is, whatever its inputs; None for any other."""
        name = str(node.meta.get(MARK, ""))
        if name not in self.graph.nodes or node.target != self.targets[name]:
            return None
        if node.op == "call_module":
            module = model.get_submodule(str(node.target))
            return name if module is self.modules[str(node.target)] and self._same(name, module) else None
        if node.op == "get_attr":
            held = self.tensors[self.graph.nodes[name].weights["value"]]
            return name if attribute(model, str(node.target)) is held else None
        return name

    def _same(self, name: str, module: nn.Module) -> bool:
        own = tensors_of(module)
        weights = self.graph.nodes[name].weights
        return set(own) == set(weights) and all(
            own[p] is self.tensors[w] or not isinstance(self.tensors[w], nn.Parameter) for p, w in weights.items()
        )


def lend(graph: Graph, context: Context) -> Lent:
    """Build `graph` for a pass, which may change its weights in place: a build has its own. Raises PassError."""
    if graph.runs == "module":
        text = "This model was recorded from a run, so there is no torch.fx graph that the pass could work on."
        raise PassError(text, "Give a model that torch.export can capture.")
    model = build(graph, context.store, context.callables)
    fix_devices(model)  # the pass and the graph read from it know constants only
    tensors = parameters_of(model)
    _at_rest(model, graph)
    _open_up(model)
    _show_adapters(model, tensors.values())
    known = _mark(model, graph)
    annotate(model, graph, known)
    targets: dict[str, object] = {name: node.target for node, name in known.items()}
    return Lent(graph, model, targets, dict(model.named_modules()), dict(tensors))


def _at_rest(model: fx.GraphModule, graph: Graph) -> None:
    """Arguments that training changes as they are in evaluation: the graph's nodes keep what they are in training."""
    for node in [n for n in model.graph.nodes if n.op == "call_module"]:
        switch = model.get_submodule(str(node.target))
        if isinstance(switch, Switch):
            for user in list(node.users):
                given = graph.nodes[str(user.meta[MARK])].kwargs
                value = switch.evaluation
                user.args = tuple(value if a is node else a for a in user.args)
                named = {k: value if v is node else v for k, v in user.kwargs.items() if v is not node or k in given}
                user.kwargs = named
            model.graph.erase_node(node)


def _mark(model: fx.GraphModule, graph: Graph) -> dict[fx.Node, str]:
    own = {(str(n.call), n.target): n.id for n in graph if n.call in ("placeholder", "get_attr")}
    for node in model.graph.nodes:
        name = own.get((node.op, node.target)) or (graph.output.id if node.op == "output" else None)
        if name:
            node.meta[MARK] = name
    return {n: n.meta[MARK] for n in model.graph.nodes if MARK in n.meta}


class _Through:
    """Stands in for a leaf module's `forward`: its masks and formats apply, and it still looks like a plain module."""

    def __init__(self, plain: nn.Module, *parts: nn.Module) -> None:
        self.plain, self.parts = plain, parts

    def __call__(self, x: Tensor) -> Tensor:
        restore(self.plain)
        try:
            return nn.Sequential(*self.parts)(x)
        finally:
            self.plain.forward = self  # type: ignore[method-assign,assignment]


def _open_up(model: fx.GraphModule) -> None:
    """MASE code asks for isinstance(module, nn.Linear), sets module.weight, and searches targets by name."""
    calls = Counter(str(n.target) for n in model.graph.nodes if n.op == "call_module")
    for node in [n for n in model.graph.nodes if n.op == "call_module" and MARK in n.meta]:
        path = str(node.target)
        module = model.get_submodule(path)
        plain = innermost(module)
        ends = _take_ends(node, model) if calls[path] == 1 else (None, None)
        parts = [m for m in (ends[0], module, ends[1]) if m is not None]
        if "forward" not in plain.__dict__ and (len(parts) > 1 or module is not plain):
            model.set_submodule(path, plain)
            plain.forward = _Through(plain, *parts)  # type: ignore[method-assign,assignment]
    model.recompile()


def _show_adapters(model: fx.GraphModule, tensors: Iterable[Tensor]) -> None:
    """What trains beside opened modules is counted and trained with the model's other parameters."""
    own = {id(p) for p in model.parameters()}
    hidden = [t for t in tensors if isinstance(t, nn.Parameter) and id(t) not in own]
    if hidden:
        model.add_module("adapters_beside", nn.ParameterList(hidden))


def _take_ends(node: fx.Node, model: fx.GraphModule) -> tuple[nn.Module | None, nn.Module | None]:
    """The formats of what goes in and comes out, taken out of the graph."""
    before, after = node.args[0], next(iter(node.users), None)
    found: list[nn.Module | None] = [None, None]
    if isinstance(before, fx.Node) and is_effective(before, model):
        found[0] = model.get_submodule(str(before.target))
        node.replace_input_with(before, before.args[0])  # type: ignore[arg-type]
        if not before.users:  # siblings that take the same input in the same format share it
            model.graph.erase_node(before)
    if after is not None and len(node.users) == 1 and str(after.target) == f"effective.{node.meta[MARK]}_data_out":
        found[1] = model.get_submodule(str(after.target))
        after.replace_all_uses_with(node)
        model.graph.erase_node(after)
    return found[0], found[1]


def restore(module: nn.Module) -> None:
    """A module's own `forward` again."""
    module.__dict__.pop("forward", None)


def tensors_of(module: nn.Module) -> dict[str, Tensor]:
    """A module's own parameters and buffers by port."""
    return {**dict(module.named_parameters(recurse=False)), **dict(module.named_buffers(recurse=False))}


def attribute(home: object, path: str) -> object:
    """`home.a.b.c`"""
    for part in path.split("."):
        home = getattr(home, part)
    return home


def is_effective(node: fx.Node, model: fx.GraphModule) -> bool:
    """Whether a node only applies a format or mask that the next or the previous node's choices hold."""
    return node.op == "call_module" and isinstance(model.get_submodule(str(node.target)), Effective)
