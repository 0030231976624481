"""A subgraph of a built model as a separate call, with its inputs recorded from a run of the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from espalier.model.errors import OptionsError
from espalier.model.graph.graph import Graph
from espalier.passes.select import Select, matches

if TYPE_CHECKING:
    from torch import fx, nn

Call = Callable[[], Any]
PASSIVE = ("placeholder", "get_attr", "output")  # nodes without computation


def subgraph_call(module: nn.Module, graph: Graph, part: str, inputs: dict[str, Any]) -> Call:
    """A call of the nodes whose module path starts with a name of `part`, or with that id; of all nodes if empty.

    `part`: names separated by commas. Raises OptionsError for an unknown name.
    """
    from torch import fx

    names = [name.strip() for name in part.split(",") if name.strip()]
    if not names:
        return lambda: module(**inputs)
    nodes = set[str]()
    for name in names:
        nodes |= _called(graph, name)
    if isinstance(module, fx.GraphModule):
        return _cut(module, nodes, inputs)
    if len(names) > 1:
        raise OptionsError("A recorded model runs its own code: only a single module can be run.", "Name one.")
    return _recorded(module, names[0], inputs)


def _called(graph: Graph, name: str) -> set[str]:
    """The computing nodes of a name; raises OptionsError if there are none."""
    named = [n for n in graph if matches(n, Select("module", (name,))) or matches(n, Select("name", (name,)))]
    if not named:
        raise OptionsError(
            f"No part of the model is called {name!r}.", "Name a module's path, such as encoder.layer.0."
        )
    runs = {n.id for n in named if n.call not in PASSIVE}
    if not runs:
        raise OptionsError(f"{name} computes nothing.", "Name a layer or a function.")
    return runs


def _recorded(module: nn.Module, part: str, inputs: dict[str, Any]) -> Call:
    """A call of a module with its own code, with arguments recorded from a run."""
    try:
        inner: Any = module.get_submodule(part)
    except AttributeError as error:
        raise OptionsError(f"No module of the model is called {part!r}.", "Name a module's path.") from error
    calls: list[tuple[Any, Any]] = []
    hook = inner.register_forward_pre_hook(lambda _, args, named: calls.append((args, named)), with_kwargs=True)
    try:
        module(**inputs)
    finally:
        hook.remove()
    if not calls:
        raise OptionsError(f"{part} is not called in a run.", "Choose another part.")
    args, named = calls[0]
    return lambda: inner(*args, **named)


def _cut(module: fx.GraphModule, wanted: set[str], inputs: dict[str, Any]) -> Call:
    from torch import fx

    from espalier.model.torch.build import PORT

    inside = _inside(module, wanted)
    order = list(module.graph.nodes)
    needed = {a for n in inside for a in n.all_input_nodes}
    plain = {n for n in needed if not n.all_input_nodes and n.op != "placeholder"}  # weights and switches
    before = [n for n in order if n in needed and n not in inside and n not in plain]
    graph, copies = fx.Graph(), dict[fx.Node, fx.Node]()
    for node in before:
        copies[node] = graph.placeholder(node.name)
    for node in (n for n in order if n in inside or n in plain):
        copies[node] = graph.node_copy(node, lambda n: copies[n])
    ends = [n for n in order if n in inside and PORT not in n.meta and any(u not in inside for u in n.users)]
    graph.output(tuple(copies[n] for n in ends))
    values = _values(module, before, inputs)
    inner = fx.GraphModule(module, graph).eval()
    return lambda: inner(*values)


def _inside(module: fx.GraphModule, wanted: set[str]) -> set[fx.Node]:
    """The fx nodes of the wanted nodes, with the roundings of their operands and the items of their results."""
    from espalier.model.torch.build import NODE, PORT

    inside = set[Any]()
    for node in module.graph.nodes:
        readers = {name for name, _ in node.meta.get(PORT, ())}
        apart = not (readers or NODE in node.meta) and node.op == "call_function"
        if node.meta.get(NODE) in wanted or readers & wanted or (apart and set(node.all_input_nodes) <= inside):
            inside.add(node)
    return inside


def _values(module: fx.GraphModule, wanted: list[fx.Node], inputs: dict[str, Any]) -> list[Any]:
    """The values of these nodes in a run."""
    from torch import fx

    values: dict[fx.Node, Any] = {}

    class Recorder(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            value = super().run_node(n)
            if n in wanted:
                values[n] = value
            return value

    names = [str(n.target) for n in module.graph.nodes if n.op == "placeholder"]
    Recorder(module).run(*(inputs.get(n) for n in names))
    return [values[n] for n in wanted]
