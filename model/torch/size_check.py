"""A hook of a module that refuses inputs beyond the sizes for which its graph is valid."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from espalier.model.graph.graph import Graph
from espalier.model.graph.limits import check_sizes


def refuse_other_sizes(module: nn.Module, graph: Graph) -> None:
    """Let `module`, built of `graph`, raise DataError for sizes that break a limit of the graph."""
    if graph.limits:
        module.register_forward_pre_hook(_SizeCheck(graph), with_kwargs=True)


class _SizeCheck:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if torch.compiler.is_compiling() or torch.compiler.is_exporting():  # sizes are symbols there
            return
        names = (n.target for n in self._graph.placeholders)
        values = {**dict(zip(names, args, strict=False)), **kwargs}
        check_sizes(self._graph, {k: v.shape for k, v in values.items() if isinstance(v, Tensor)})

    def __deepcopy__(self, memo: dict[int, Any]) -> _SizeCheck:
        return self  # the graph is a frozen value
