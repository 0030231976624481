"""Recovers leaf modules from ATen nodes: each call of a leaf module becomes one node with the module's weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import Tensor, fx, nn
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind

from espalier.model.graph.graph import Graph, Node, Ref, named_weights
from espalier.model.graph.meta import TensorMeta
from espalier.model.graph.node import Arg
from espalier.model.graph.operands import input_ports
from espalier.model.graph.ops import op_of
from espalier.model.store.weights import WeightStore
from espalier.model.torch.leaves import attributes, op_of_module
from espalier.model.torch.targets import name_of
from espalier.model.torch.tensors import Tensors
from espalier.model.trace.args import arg_of
from espalier.model.trace.flatten import Flat, aliases, functional, mutates, pure_twin
from espalier.model.trace.outputs import RESULT, output_names
from espalier.model.trace.provenance import Provenance
from espalier.model.trace.shapes import Names


class ModuleRecovery:
    """Recovers the modules of one exported program; `graph()` returns the result.

    `plain`: calls of leaf modules, by their keys in `calls`, that stay as exported functions.
    """

    def __init__(
        self, program: ExportedProgram, model: nn.Module, store: WeightStore, plain: frozenset[str] = frozenset()
    ) -> None:
        self.program = functional(program)
        self.calls: dict[str, str] = {}  # the last node of each call of a leaf module → its key
        self.results: list[TensorMeta | None] = []  # of the exported program, for each result of the graph
        self._exported = _ops(program) if self.program is not program else {}
        self._moved: set[fx.Node] = set()
        self._plain_calls = plain
        self.names = Names(self.program)
        self.problems: list[tuple[str | None, str]] = []
        self.callables: dict[str, Any] = {}
        self._tensors = Tensors(model, store)
        self._originals = {**dict(model.named_parameters(remove_duplicate=False)),
                      **dict(model.named_buffers(remove_duplicate=False))}  # fmt: skip
        self._flat = Flat(self.program)
        self._provenance = Provenance(self._flat)
        self._modules = dict(model.named_modules())
        self._args: dict[fx.Node, Arg] = {}
        self._nodes: dict[str, Node] = {}
        self._taken: Counter[str] = Counter()
        sig = self.program.graph_signature
        self._lifted = {
            **sig.inputs_to_parameters,
            **sig.inputs_to_buffers,
            **sig.inputs_to_lifted_tensor_constants,
        }

    def graph(self) -> Graph:
        """The graph with leaf modules, without unused nodes."""
        groups = {nodes[-1]: (path, nodes) for path, nodes in self._leaf_groups()}
        inside = {n for _, nodes in groups.values() for n in nodes}
        for node in self._flat.nodes:
            if node in groups:
                self._leaf(*groups[node])
            elif node not in inside:
                self._plain(node)
        nodes = _alive(self._nodes)
        names, structure = output_names(self.program)
        return Graph(nodes, named_weights(nodes.values(), self._tensors.found), names, structure, self.names.symbols)

    # -- which nodes form one leaf module

    def _leaf_groups(self) -> list[tuple[str, list[fx.Node]]]:
        calls: dict[str, list[fx.Node]] = {}
        for node in self._flat.nodes:
            if node.op == "call_function" and isinstance(node.meta.get("val"), Tensor | list | tuple):
                key, path = self._provenance.innermost_call(node)
                module = self._modules.get(path)
                if module is not None and path and op_of_module(module) and not list(module.children()):
                    calls.setdefault(key, []).append(node)
        found: list[tuple[str, list[fx.Node]]] = []
        for key, nodes in calls.items():
            own = self._own(key, nodes)
            if own and key not in self._plain_calls and self._is_whole(own):
                path = self._provenance.innermost_call(own[0])[1]
                if len(own) == 1 or not _is_altered(self._modules[path]):
                    found.append((path, own))
        return found

    def end_of(self, call: str) -> str | None:
        """The last node of a call that stays as functions."""
        here = [n for n in self._flat.nodes if self._provenance.innermost_call(n)[0] == call and n not in self._moved]
        made = (self._args.get(n) for n in reversed(here))
        return next((m.node for m in made if isinstance(m, Ref)), None)

    def _own(self, key: str, nodes: list[fx.Node]) -> list[fx.Node]:
        """The nodes of a call, without views that were created outside it.

        `functional` recreates each view after the write, in the module that uses it first.
        """
        ops = self._exported.get(key)
        count = 0
        while ops is not None and count < len(nodes) and aliases(nodes[count]) and nodes[count].target not in ops:
            count += 1
        self._moved.update(nodes[:count])
        return nodes[count:]

    def _is_whole(self, nodes: list[fx.Node]) -> bool:
        """Whether the nodes have one data input, and only the last one's value is used outside."""
        own = set(nodes)
        if not isinstance(nodes[-1].meta.get("val"), Tensor):
            return False
        inputs = {self._flat.resolve(i) for n in nodes for i in n.all_input_nodes} - own
        data = [i for i in inputs if self._is_data(i)]
        leaks = any(u not in own for n in nodes[:-1] for u in n.users)
        return len(data) == 1 and not leaks

    def _is_data(self, node: fx.Node) -> bool:
        return node.name not in self._lifted and isinstance(node.meta.get("val"), Tensor)

    # -- making nodes

    def _unique(self, stem: str) -> str:
        name = stem
        while name in self._nodes or name == RESULT:  # a layer may have the name of the output node
            self._taken[stem] += 1
            name = f"{stem}_{self._taken[stem]}"
        return name

    def _put(self, node: Node) -> Ref:
        self._nodes[node.id] = node
        return Ref(node.id)

    def _leaf(self, path: str, nodes: list[fx.Node]) -> None:
        module, own = self._modules[path], set(nodes)
        inputs = [self._flat.resolve(i) for n in nodes for i in n.all_input_nodes]
        data = next(i for i in inputs if i not in own and self._is_data(i))
        source = self._arg(data)
        weights = {n: self._tensors.name(v, f"{path}.{n}") for n, v in _own_tensors(module)}
        ports = {"data_in": self.names.meta(data.meta["val"])}
        ports |= {p: _weight_meta(self._tensors, w) for p, w in weights.items() if p in ("weight", "bias")}
        ports |= self.names.outputs(nodes[-1].meta["val"])
        node = Node(self._unique(path.replace(".", "_")), op_of_module(module) or "opaque", "call_module", path,
                    (source,), {}, ports, weights, attributes(module), None,
                    self._provenance.path(nodes[-1]), self._provenance.source(nodes[-1]))  # fmt: skip
        self._args[nodes[-1]] = self._put(node)
        self.calls[node.id] = self._provenance.innermost_call(nodes[-1])[0]

    def _plain(self, node: fx.Node) -> None:
        if node.op == "placeholder":
            if node.name not in self._lifted:
                meta = self.names.outputs(node.meta.get("val"))
                self._args[node] = self._put(Node(self._unique(node.name), "placeholder", "placeholder", node.name,
                                                  ports=meta))  # fmt: skip
        elif node.op == "output":
            self._put(Node(RESULT, "output", "output", "output", tuple(self._arg(a) for a in self._results(node))))
        elif node.op == "get_attr":
            value = _value_of(node)
            if isinstance(value, Tensor):
                self._args[node] = self._tensor(value, str(node.target), "constant")
        elif "getitem" in str(node.target) and isinstance(self._arg(node.args[0]), Ref):
            self._getitem(node)
        else:
            self._function(node)

    def _results(self, node: fx.Node) -> list[Any]:
        """The results of the user's forward, without the updated buffers and inputs."""
        values: Any = node.args[0]
        specs = self.program.graph_signature.output_specs
        written = [s.target for s in specs if s.kind != OutputKind.USER_OUTPUT]
        self.problems += [(None, f"The model writes into {name}; the graph does not.") for name in written]
        results = [v for v, s in zip(values, specs, strict=True) if s.kind == OutputKind.USER_OUTPUT]
        exported = (r.meta.get("val") if isinstance(r, fx.Node) else None for r in results)
        self.results = [self.names.meta(v) if isinstance(v, Tensor) else None for v in exported]
        return results

    def _getitem(self, node: fx.Node) -> None:
        source = self._arg(node.args[0])
        assert isinstance(source, Ref)
        self._args[node] = replace(source, output=int(node.args[1]))  # type: ignore[arg-type]

    def _function(self, node: fx.Node) -> None:
        name = name_of(pure_twin(node) if mutates(node) else node.target)
        if name == "aten.copy.default":
            self._args[node] = self._copy(node)
        else:
            if name is None:
                name = f"opaque.{node.name}"
                self.callables[name] = _closed(node)
            args = tuple(self._arg(a) for a in node.args if not _is_body(a))
            kwargs = {k: self._arg(a) for k, a in node.kwargs.items()}
            self._args[node] = self._call(node, name, args, kwargs, node.meta.get("val"))
        if mutates(node) and isinstance(node.args[0], fx.Node):
            self._args[self._flat.resolve(node.args[0])] = self._args[node]

    def _copy(self, node: fx.Node) -> Ref:
        """dst.copy_(src) as functions: src in dst's dtype and shape. torch's functional copy has no gradient."""
        target, source = (self._flat.resolve(a) for a in node.args[:2])
        like, result, value = self._arg(target), self._arg(source), source.meta["val"]
        if value.dtype != target.meta["val"].dtype:
            value = value.to(target.meta["val"].dtype)
            result = self._call(node, "aten.to.other", (result, like), {}, value)
        value = node.meta["val"]
        result = self._call(node, "aten.expand_as.default", (result, like), {}, value)
        return self._call(node, "aten.clone.default", (result,), {}, value)

    def _call(self, node: fx.Node, name: str, args: tuple[Arg, ...], kwargs: dict[str, Arg], value: Any) -> Ref:
        opaque = name.startswith("opaque.")
        op = "opaque" if opaque else op_of(name)
        ports = input_ports(op, args, kwargs, self._nodes) | self.names.outputs(value)
        outputs = len(value) if isinstance(value, list | tuple) else None
        call = "opaque" if opaque else "call_function"
        path, source = self._provenance.path(node, node in self._moved), self._provenance.source(node)
        id_ = self._unique(node.name.rstrip("_"))
        return self._put(Node(id_, op, call, name, args, kwargs, ports, {}, {}, outputs, path, source))

    def _tensor(self, value: Tensor, path: str, role: str) -> Ref:
        name = self._tensors.name(value, path, role)
        id_ = self._unique(name.replace(".", "_"))
        ports = {"data_out": self.names.meta(value)}
        return self._put(Node(id_, "get_attr", "get_attr", name, ports=ports, weights={"value": name},
                              module_path=name.rpartition(".")[0]))  # fmt: skip

    def _lift(self, node: fx.Node) -> Ref:
        path = self._lifted[node.name]
        value: Any = self._originals.get(path)
        if value is None:
            value = self.program.constants[path] if path in self.program.constants else self.program.state_dict[path]
        return self._tensor(value, path, "constant")

    def _arg(self, value: Any) -> Arg:
        return arg_of(value, self._ref)

    def _ref(self, node: fx.Node) -> Arg:
        value = self._flat.resolve(node)
        if not isinstance(value, fx.Node):
            return self._arg(value)
        if value not in self._args:
            self._args[value] = self._lift(value)
        return self._args[value]


def _ops(program: ExportedProgram) -> dict[str, set[Any]]:
    """The functions called directly by each module call, by the call's key."""
    flat = Flat(program)
    places, found = Provenance(flat), dict[str, set[Any]]()
    for node in flat.nodes:
        found.setdefault(places.innermost_call(node)[0], set()).add(node.target)
    return found


def _alive(nodes: dict[str, Node]) -> dict[str, Node]:
    used: set[str] = set()
    for node in reversed(nodes.values()):
        if node.id in used or node.call in ("placeholder", "output"):
            used.update(r.node for r in node.inputs)
            used.add(node.id)
    return {k: n for k, n in nodes.items() if k in used}


def _is_altered(module: nn.Module) -> bool:
    """Whether hooks or an overridden forward may make a module compute more than its class does."""
    own = vars(module)
    return bool(own["_forward_hooks"] or own["_forward_pre_hooks"] or "forward" in own)


def _own_tensors(module: nn.Module) -> list[tuple[str, Tensor]]:
    return [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]


def _weight_meta(tensors: Tensors, name: str) -> TensorMeta:
    weight = tensors.found[name]
    return TensorMeta(weight.shape, weight.dtype)


def _value_of(node: fx.Node) -> Any:
    """The value of a get_attr node, in its own (sub)graph."""
    home: Any = node.graph.owning_module
    for part in str(node.target).split("."):
        home = getattr(home, part)
    return home


def _is_body(arg: Any) -> bool:
    """Whether an argument is a subgraph: a branch of torch.cond, the body of a loop."""
    return isinstance(arg, fx.Node) and arg.op == "get_attr" and isinstance(_value_of(arg), fx.GraphModule)


def _closed(node: fx.Node) -> Callable[..., Any]:
    """The function that `node` calls, with its subgraphs bound; it takes the other arguments."""
    bodies = {i: _value_of(a) for i, a in enumerate(node.args) if _is_body(a) and isinstance(a, fx.Node)}
    function: Any = node.target

    def run(*args: Any, **kwargs: Any) -> Any:
        rest = iter(args)
        return function(*(bodies[i] if i in bodies else next(rest) for i in range(len(args) + len(bodies))), **kwargs)

    return run
