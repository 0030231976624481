"""A part of a built model as a call of its own, on the values that reach it in a run of the whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from espalier.model.errors import OptionsError
from espalier.model.graph.graph import Graph
from espalier.passes.select import Select, matches

if TYPE_CHECKING:
    from torch import fx, nn

Call = Callable[[], Any]
STILL = ("placeholder", "get_attr", "output")  # calls that compute nothing


def part_of(module: nn.Module, graph: Graph, part: str, inputs: dict[str, Any]) -> Call:
    """Runs the nodes whose module path begins with a name of `part`, or which are called so; without one, all.

    Names stand between commas. Raises OptionsError where nothing is called so.
    """
    from torch import fx

    names = [name.strip() for name in part.split(",") if name.strip()]
    if not names:
        return lambda: module(**inputs)
    found = set[str]()
    for name in names:
        found |= _called(graph, name)
    if isinstance(module, fx.GraphModule):
        return _cut(module, found, inputs)
    if len(names) > 1:
        raise OptionsError("A recorded model runs its own code, of which one module can be run alone.", "Name one.")
    return _recorded(module, names[0], inputs)


def _called(graph: Graph, name: str) -> set[str]:
    """The nodes that run and that a name means; raises OptionsError where there are none."""
    found = [n for n in graph if matches(n, Select("module", (name,))) or matches(n, Select("name", (name,)))]
    if not found:
        raise OptionsError(
            f"No part of the model is called {name!r}.", "Name a module's path, such as encoder.layer.0."
        )
    runs = {n.id for n in found if n.call not in STILL}
    if not runs:
        raise OptionsError(f"{name} computes nothing.", "Name a layer or a function.")
    return runs


def _recorded(module: nn.Module, part: str, inputs: dict[str, Any]) -> Call:
    """A module that is its own code: what it is called with is kept from a run."""
    try:
        inner: Any = module.get_submodule(part)
    except AttributeError as error:
        raise OptionsError(f"No module of the model is called {part!r}.", "Name a module's path.") from error
    kept: list[tuple[Any, Any]] = []
    hook = inner.register_forward_pre_hook(lambda _, args, named: kept.append((args, named)), with_kwargs=True)
    try:
        module(**inputs)
    finally:
        hook.remove()
    if not kept:
        raise OptionsError(f"{part} is not called in a run.", "Choose another part.")
    args, named = kept[0]
    return lambda: inner(*args, **named)


def _cut(module: fx.GraphModule, wanted: set[str], inputs: dict[str, Any]) -> Call:
    from torch import fx

    from espalier.model.torch.build import PORT

    held = _held(module, wanted)
    order = list(module.graph.nodes)
    needed = {a for n in held for a in n.all_input_nodes}
    plain = {n for n in needed if not n.all_input_nodes and n.op != "placeholder"}  # weights and switches
    before = [n for n in order if n in needed and n not in held and n not in plain]
    graph, made = fx.Graph(), dict[fx.Node, fx.Node]()
    for node in before:
        made[node] = graph.placeholder(node.name)
    for node in (n for n in order if n in held or n in plain):
        made[node] = graph.node_copy(node, lambda n: made[n])
    ends = [n for n in order if n in held and PORT not in n.meta and any(u not in held for u in n.users)]
    graph.output(tuple(made[n] for n in ends))
    values = _values(module, before, inputs)
    inner = fx.GraphModule(module, graph).eval()
    return lambda: inner(*values)


def _held(module: fx.GraphModule, wanted: set[str]) -> set[fx.Node]:
    """The fx nodes of the wanted ones, with what rounds their operands and takes their results apart."""
    from espalier.model.torch.build import NODE, PORT

    held = set[Any]()
    for node in module.graph.nodes:
        readers = {name for name, _ in node.meta.get(PORT, ())}
        apart = not (readers or NODE in node.meta) and node.op == "call_function"
        if node.meta.get(NODE) in wanted or readers & wanted or (apart and set(node.all_input_nodes) <= held):
            held.add(node)
    return held


def _values(module: fx.GraphModule, wanted: list[fx.Node], inputs: dict[str, Any]) -> list[Any]:
    """What those nodes are in a run."""
    from torch import fx

    found: dict[fx.Node, Any] = {}

    class Kept(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            value = super().run_node(n)
            if n in wanted:
                found[n] = value
            return value

    names = [str(n.target) for n in module.graph.nodes if n.op == "placeholder"]
    Kept(module).run(*(inputs.get(n) for n in names))
    return [found[n] for n in wanted]
