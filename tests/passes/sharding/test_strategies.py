"""Every strategy of every operation, run on its parts: together they give the whole result."""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn
from torch.func import functional_call

from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import TensorMeta
from espalier.model.graph.node import Ref, out_port
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import NODE, build
from espalier.model.trace.trace import trace
from espalier.passes.sharding.factors import REPLICATED, Call, call_of
from espalier.passes.sharding.options import batch_symbols
from espalier.passes.sharding.shape_factors import factors_of
from espalier.passes.sharding.strategies import AxisRule, axis_rules, strategies
from tests.model.zoo import MODELS, slow
from tests.passes.sharding.cases import EXAMPLES, Convolutions, Residual, Tied

RANKS = 2
RESHAPES = ("view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "view_as", "expand", "expand_as")


class Shapes(nn.Module):
    """Operations that the models leave out."""

    def forward(self, x: Tensor) -> Tensor:
        a, b = x.chunk(2, dim=-1)
        y = torch.stack((a, b), 1).permute(0, 2, 1, 3).flatten(2)
        z = torch.einsum("bsk,btk->bst", y, x) - x.sum(-1, keepdim=True)
        w = torch.cat((z, z * 2), 1).softmax(-1).sum(1) + x.amax((1, 2))[:, None]
        return w.unsqueeze(1).expand(-1, 4, -1) / 3 + x.select(1, 0)[:, :, None].sum(1, keepdim=True)


def part(x: Tensor, at: str, rank: int) -> Tensor:
    """What a rank has of a tensor; of a partial sum one of two different summands."""
    if at == "P":
        return x * (0.25 if rank == 0 else 0.75)
    return x if at == "R" else x.chunk(RANKS, int(at[1:]))[rank].contiguous()


def whole(parts: list[Tensor], at: str) -> Tensor:
    """The tensor of all parts."""
    return sum(parts[1:], parts[0]) if at == "P" else parts[0] if at == "R" else torch.cat(parts, int(at[1:]))


class Checking(fx.Interpreter):
    """Runs a built model, and each node once more for each of its strategies."""

    def __init__(self, module: fx.GraphModule, graph: Graph, sizes: dict[str, int]) -> None:
        super().__init__(module)
        self.espalier, self.sizes, self.checked = graph, sizes, set[tuple[str, str]]()

    def run_node(self, n: fx.Node) -> Any:
        """Run it, and check it."""
        result = super().run_node(n)
        node = self.espalier.nodes.get(n.meta.get(NODE, n.name))
        if node is not None and n.op in ("call_function", "call_module") and n.name == n.meta.get(NODE, n.name):
            call = call_of(node, self.espalier, self.sizes, batch_symbols(self.espalier))
            factors = factors_of(call) if call else None
            if call and factors and node.call in ("call_function", "call_module"):
                for rule in axis_rules(call, factors):
                    if rule.name != REPLICATED and (not rule.index or factors.sizes[rule.index] % RANKS == 0):
                        self._check(n, call, rule, result)
        return result

    def _check(self, n: fx.Node, call: Call, rule: AxisRule, expected: Any) -> None:
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        parts = [self._run(n, call, rule, args, kwargs, rank) for rank in range(RANKS)]
        outs = [parts] if isinstance(expected, Tensor) else list(zip(*parts, strict=True))
        results = [expected] if isinstance(expected, Tensor) else list(expected)
        for i, (own, full) in enumerate(zip(outs, results, strict=True)):
            port = out_port(i)
            if port in rule.ports and full.is_floating_point():
                got = whole(list(own), rule.ports[port])
                torch.testing.assert_close(got, full, rtol=1e-4, atol=1e-5, msg=lambda m: f"{n.name} {rule}: {m}")
                self.checked.add((call.node.op, rule.name))

    def _run(self, n: fx.Node, call: Call, rule: AxisRule, args: Any, kwargs: Any, rank: int) -> Any:
        order = iter([p for p, _ in call.inputs])
        tensors = [self.env[x] for x in n.all_input_nodes]
        local = {id(t): t for t in tensors}

        def cut(value: Any) -> Any:
            if isinstance(value, Tensor) and id(value) in local:
                return part(value, rule.ports.get(next(order), "R"), rank)
            if isinstance(value, list | tuple):
                return type(value)(cut(v) for v in value)
            return value

        args, kwargs = cut(tuple(args)), {k: cut(v) for k, v in kwargs.items()}
        if call.node.op in RESHAPES:
            return _reshaped(call, rule, args[0])
        if n.op == "call_module":
            return _module(self.fetch_attr(str(n.target)), rule, args, kwargs, rank)
        return n.target(*args, **kwargs)  # type: ignore[operator]


def _reshaped(call: Call, rule: AxisRule, x: Tensor) -> Tensor:
    """To the shape of a part."""
    shape = list(call.shapes["data_out"])
    if rule.ports["data_out"][0] == "S":
        shape[int(rule.ports["data_out"][1:])] //= RANKS
    return x.expand(shape) if "expand" in call.node.op else x.reshape(shape)


def _module(module: Any, rule: AxisRule, args: Any, kwargs: Any, rank: int) -> Tensor:
    """A module with parts of its weights."""
    ports = rule.ports | dict.fromkeys(("running_mean", "running_var"), rule.ports.get("weight", "R"))
    weights = {k: part(v.detach(), ports.get(k, "R"), rank) for k, v in module.state_dict().items()}
    if "bias" in weights and "P" in rule.ports["data_out"] and rule.ports["bias"] == "R":
        weights["bias"] = weights["bias"] / RANKS  # added once
    if rule.name == "vocabulary":
        return _rows(args[0], weights["weight"], rank)
    if rule.name == "groups":
        module = _with(module, groups=module.groups // RANKS)
    if hasattr(module, "nf"):  # transformers' Conv1D holds its number of outputs
        module = _with(module, nf=weights["weight"].shape[1])
    return functional_call(module, weights, args, kwargs)


def _rows(index: Tensor, weight: Tensor, rank: int) -> Tensor:
    """An embedding by the rows of one rank: 0 for those of others."""
    local = index - rank * len(weight)
    mine = (local >= 0) & (local < len(weight))
    return weight[local.clamp(0, len(weight) - 1)] * mine[..., None]


def _with(module: Any, **values: int) -> nn.Module:
    """A copy with other attributes, and the same weights."""
    found = copy.copy(module)
    for name, value in values.items():
        setattr(found, name, value)
    return found


def traced(name: str) -> tuple[fx.GraphModule, Graph, dict[str, Tensor]]:
    """A model built from its graph, and inputs."""
    store = WeightStore(Path(tempfile.mkdtemp()))
    torch.manual_seed(0)
    if name in MODELS:
        model, example = MODELS[name]()
    elif name == "shapes":
        model, example = Shapes(), {"x": torch.randn(4, 6, 6)}
    else:
        kind = {"residual": Residual, "tied small": Tied, "convolutions": Convolutions}[name]
        model, example = kind().eval(), {k: torch.randn(v.shape) if v.is_floating_point() else v
                                         for k, v in EXAMPLES[kind].items()}  # fmt: skip
    graph = trace(model, example, store).graph
    return build(graph, store), graph, example


EXPECTED = {
    "mlp": {("linear", "row"), ("linear", "column"), ("relu", "width")},
    "attention": {("linear", "column"), ("linear", "row"), ("layer_norm", "data")},
    "bert": {("scaled_dot_product_attention", "heads"), ("scaled_dot_product_attention", "sequence"),
             ("embedding", "column"), ("view", "partial"), ("layer_norm", "sequence")},
    "gpt2": {("linear", "row"), ("linear", "column"), ("scaled_dot_product_attention", "heads")},
    "convolutions": {("conv2d", "data"), ("conv2d", "groups"), ("conv2d", "column"), ("batch_norm", "channels")},
    "tied small": {("embedding", "vocabulary"), ("linear", "column")},
    "shapes": {("einsum", "row"), ("sum", "partial"), ("stack", "data"), ("softmax", "data"), ("expand", "data")},
    "llama": {("mul", "partial"), ("cat", "sequence"), ("embedding", "column")},
    "residual": {("add", "partial"), ("layer_norm", "data")},
}  # fmt: skip


@pytest.mark.parametrize("name", [slow(n) if n == "llama" else n for n in EXPECTED])
def test_parts_make_the_whole(name: str) -> None:
    """In float32, up to 1e-4 relative."""
    module, graph, example = traced(name)
    sizes = dict(graph.symbols)
    checking = Checking(module, graph, sizes)
    with torch.no_grad():
        checking.run(*(example[p.target] for p in graph.placeholders))
    missing = EXPECTED[name] - checking.checked
    assert not missing, sorted(checking.checked)


def test_splits_are_even() -> None:
    """Six rows and four columns over 2 × 3 ranks: rows by both axes, columns only by the axis of two."""
    metas = {p: TensorMeta((6, 4), "float32") for p in ("data_in", "data_out")}
    node = Node("n", "relu", "call_function", "aten.relu.default", (Ref("x"),), ports=metas)
    call = Call(node, (("data_in", Ref("x")),), {"data_in": (6, 4), "data_out": (6, 4)})
    found = {s.ports["data_out"]: s.share for s in strategies(call, (2, 3))}
    assert found == {("R", "R"): 1, ("R", "S0"): 1 / 3, ("S0", "R"): 1 / 2, ("S0", "S0"): 1 / 6, ("S1", "R"): 1 / 2,
                     ("S1", "S0"): 1 / 6}  # fmt: skip
