"""Runs a built model node by node on DTensors, redistributed where the plan of a node and its producer differ."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, fx, nn
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.fx.node import map_aggregate, map_arg
from torch.utils import _pytree as pytree
from torch.utils.weak import WeakIdKeyDictionary

from espalier.model.graph.graph import Graph
from espalier.model.graph.node import Node, in_port, out_port
from espalier.model.torch.build import NODE, OPERANDS
from espalier.model.torch.layers import Switch
from espalier.passes.distributed.job import RESULTS_NODE
from espalier.passes.distributed.placements import (
    Placements,
    applied,
    as_replicated,
    full,
    of_gradient,
    placed,
    planned,
    replicated,
    settled,
    whole_call,
    without_masked_sums,
)
from espalier.passes.distributed.split_dropout import OTHERS, SCALING, WholeDropout, draws, dropout
from espalier.passes.distributed.split_formats import SplitEffective
from espalier.passes.distributed.split_layers import attention, drops, embedding, takes_all, whole
from espalier.passes.training.blocks import Tap

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

    from espalier.passes.distributed.volumes import Volumes

# After these whole tensors would not help: the ranks have lost one another, or memory is short already.
FATAL = (dist.DistError, torch.OutOfMemoryError, MemoryError)
NO_GRADIENT = "its gradient has no right rule for parts"  # of DTensor in torch 2.13


class ShardedModel(fx.Interpreter):
    """A built module whose tensors are distributed. `gathered`: node id → why it ran on whole tensors."""

    def __init__(self, module: fx.GraphModule, graph: Graph, mesh: DeviceMesh) -> None:
        super().__init__(module)
        self.model, self.mesh = graph, mesh
        self.inputs = {n.target: n for n in graph.placeholders}
        self.order = [str(n.target) for n in module.graph.nodes if n.op == "placeholder"]
        self.gathered: dict[str, str] = {}
        self.taps: dict[fx.Node, Tap] = {}
        self.volumes: Volumes | None = None
        self._node_id = ""
        self._followed = WeakIdKeyDictionary()  # results whose gradients have a hook

    def __call__(self, **inputs: Tensor) -> Any:
        """The results, in the structure of the original, as plain tensors that are equal on all ranks."""
        values = [inputs.get(name) for name in self.order]
        with WholeDropout():
            result = self.run(*values)
        if self.volumes is not None:
            self.volumes.node = RESULTS_NODE
        return map_aggregate(result, self._whole_result)

    def _whole_result(self, value: Any) -> Any:
        value = full(value)
        if isinstance(value, Tensor) and value.requires_grad and self.volumes is not None:
            value.register_hook(partial(self._gradient, [self.model.output.id], ()))
        return value

    def tap(self, nodes: Mapping[str, Node]) -> list[Tap]:
        """Record the results of these nodes, as `tapped` does in one process."""
        module: Any = self.module
        built: dict[str, fx.Node] = {n.meta[NODE]: n for n in module.graph.nodes if NODE in n.meta}
        self.taps = {built[node.id]: Tap() for node in nodes.values()}
        return list(self.taps.values())

    def run_node(self, n: fx.Node) -> Any:
        """Run one node; its collectives count as its own."""
        value = self._run(n)
        if n in self.taps:
            self.taps[n].seen = value
        return value

    def _run(self, n: fx.Node) -> Any:
        self._node_id = n.meta.get(NODE) or str(n.target if n.op == "placeholder" else n.name)
        if self.volumes is not None:
            self.volumes.node, self.volumes.backward = self._node_id, False
        if n.op == "placeholder":
            return self._input(n)
        if n.op == "get_attr":
            return self._distributed(self.fetch_attr(str(n.target)))
        node = self.model.nodes.get(n.meta.get(NODE, ""))
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        if n.op == "output":
            return self._outputs(args[0])
        if n.op == "call_module":
            return self._result(self._module(n, node, args, kwargs), node)
        ports = {name: port for port, name in reversed(n.meta.get(OPERANDS, ())) if port}
        args = map_arg(n.args, lambda a: self._operand(a, node, ports))
        kwargs = map_arg(n.kwargs, lambda a: self._operand(a, node, ports))
        return self._result(self._function(n.target, node, tuple(args), dict(kwargs)), node)

    def _input(self, n: fx.Node) -> Any:
        value = next(self.args_iter)
        if not isinstance(value, Tensor):
            return value
        node = self.inputs[str(n.target)]
        texts = node.sharding.ports.get("data_out") if node.sharding else None
        wanted = applied(texts, value.shape, self.mesh) if texts else replicated(self.mesh)
        return distribute_tensor(value, self.mesh, wanted, src_data_rank=None)

    def _outputs(self, values: Any) -> Any:
        """The results in the placements of the output node."""
        output, count = self.model.output, itertools.count()

        def place(value: Any) -> Any:
            return placed(value, planned(output, in_port(next(count)), value)) if isinstance(value, DTensor) else value

        return map_aggregate(values, place)

    def _distributed(self, value: Any) -> Any:
        plain = isinstance(value, Tensor) and not isinstance(value, DTensor)
        return as_replicated(value, self.mesh) if plain else value

    def _operand(self, n: fx.Node, node: Node | None, ports: dict[str, str]) -> Any:
        value = self.env[n]
        if not isinstance(value, DTensor) or n.name not in ports:
            return value
        return placed(value, planned(node, ports[n.name], value))

    def _module(self, n: fx.Node, node: Node | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        module = self.module.get_submodule(str(n.target))
        if isinstance(module, Switch):
            return module()
        if isinstance(module, SplitEffective):
            value = module(*args)
            if module.gathered:
                why = "its mask is found on whole tensors" if module.hooked else ""
                self.gathered.setdefault(n.name, why or f"a split would cut blocks or scales of {module.inner.format}")
            return value
        first, *others = args
        if isinstance(first, DTensor):
            first = placed(first, planned(node, "data_in", first))
        return self._module_on(module, node, (first, *others), kwargs)

    def _module_on(self, module: nn.Module, node: Node | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if node is None:  # such as the emulation of hardware
            return self._whole(lambda: whole(module, args, kwargs), "it has no rule for parts")
        if isinstance(module, nn.GroupNorm):
            return self._whole(lambda: whole(module, args, kwargs), NO_GRADIENT)
        try:
            gathers = self._gathers(module, node)
            if gathers:
                return torch.func.functional_call(module, gathers, args, kwargs, tie_weights=False)
            return module(*args, **kwargs)
        except FATAL:
            raise
        except Exception as error:  # noqa: BLE001  # DTensor has no one error for an operation or placement without a rule
            return self._whole(lambda: whole(module, args, kwargs), error)

    def _gathers(self, module: nn.Module, node: Node) -> dict[str, Any]:
        """Parameters in the placements of their use, where these are not those that they are stored in."""
        changed: dict[str, Any] = {}
        for name, value in module.named_parameters():
            port = name.rpartition(".")[2]
            if isinstance(value, DTensor) and port in node.weights:
                wanted = planned(node, port, value)
                if wanted is not None and wanted != tuple(value.placements):
                    changed[name] = placed(value, wanted)
        return changed

    def _function(self, target: Any, node: Node | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        values = [v for v in pytree.tree_leaves((args, kwargs)) if isinstance(v, Tensor)]
        if not values:  # sizes, or new tensors that are equal on all ranks
            return target(*args, **kwargs)
        if why := _whole_reason(target, node):
            return self._whole(lambda: whole_call(target, args, kwargs), why)
        # DTensor's gradient of it would gather what is split along this dimension.
        if not kwargs and takes_all(target, args):
            return args[0]
        if target in SCALING + OTHERS and args and isinstance(args[0], DTensor):
            return dropout(target, args, kwargs)
        try:
            if node is not None and node.op == "scaled_dot_product_attention":
                if drops(args, kwargs):
                    return self._whole(lambda: whole_call(target, args, kwargs), "its dropout draws for all scores")
                return attention(target, args, kwargs)
            if str(target) == "aten.embedding.default" and all(isinstance(a, DTensor) for a in args[:2]):
                return embedding(args[0], args[1], args[2] if len(args) > 2 else None)
            return target(*args, **kwargs)
        except FATAL:
            raise
        except Exception as error:  # noqa: BLE001  # DTensor has no one error for an operation or placement without a rule
            return self._whole(lambda: whole_call(target, args, kwargs), error)

    def _whole(self, compute: Any, reason: Exception | str) -> Any:
        text = str(reason).strip().partition("\n")[0] or type(reason).__name__
        self.gathered.setdefault(self._node_id, text[:200])
        return compute()

    def _result(self, value: Any, node: Node | None) -> Any:
        """A node's result as DTensors in its planned placements."""
        if isinstance(value, list | tuple):
            return type(value)(self._placed_result(v, node, out_port(i)) for i, v in enumerate(value))
        return self._placed_result(value, node, "data_out")

    def _placed_result(self, value: Any, node: Node | None, port: str) -> Any:
        value = self._distributed(value)
        if not isinstance(value, DTensor):
            return value
        value = without_masked_sums(value)
        wanted = planned(node, port, value)
        value = placed(value, wanted) if wanted is not None else _sums_settled(value, node)
        if wanted is not None and value.requires_grad and value.grad_fn is not None:
            if value not in self._followed:
                self._followed[value] = names = list[str]()
                value.register_hook(partial(self._gradient, names, tuple(value.placements)))
            self._followed[value].append(self._node_id)  # a node may pass on what it is given
        return value

    def _gradient(self, names: list[str], placements: Placements, gradient: Any) -> Any:
        """The gradient of a node's result, summed over its readers, as the result is placed: partial sums are reduced
        once here, not in each operation behind. `names`: the node, and those that pass its result on."""
        if self.volumes is not None:
            self.volumes.node, self.volumes.backward = names[-1], True
        if isinstance(gradient, DTensor):
            gradient = placed(gradient, of_gradient(gradient, placements))
        if self.volumes is not None:
            self.volumes.node = names[0]
        return gradient


def _whole_reason(target: Any, node: Node | None) -> str:
    """Why a function must run on whole tensors; empty where it need not."""
    if node is not None and node.call == "opaque":
        return "it is foreign code"
    if any(name in str(target) for name in ("weight_norm", "group_norm")):
        return NO_GRADIENT
    return "it draws numbers for the whole tensor" if draws(target) else ""


def _sums_settled(value: DTensor, node: Node | None) -> DTensor:
    """Without a plan a partial sum is added up at once, so that formats and activations see whole values."""
    return settled(value) if node is not None else value
