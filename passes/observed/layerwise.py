"""Layer-wise run of a built model: each node runs on all samples before the next node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, fx

from espalier.model.graph.graph import Graph
from espalier.passes.running.batches import fit_error

Inputs = Mapping[str, Tensor]


class LayerwiseRun(fx.Interpreter):
    """`envs`: for each sample, the tensors that later nodes read. `graph`: what `module` was built of."""

    def __init__(self, module: fx.GraphModule, samples: Sequence[Inputs], graph: Graph) -> None:
        super().__init__(module)
        self.graph_of = graph
        self.samples = samples
        self.envs: list[dict[fx.Node, Any]] = [{} for _ in samples]

    def run_all(self, n: fx.Node) -> None:
        """Run `n` on all samples; raises EspalierError if a sample does not fit."""
        for env, inputs in zip(self.envs, self.samples, strict=True):
            self.env = env
            if n.op == "placeholder":
                env[n] = inputs.get(str(n.target))
            else:
                with fit_error(dict(inputs), self.graph_of):
                    env[n] = self.run_node(n)
            for past in self.user_to_last_uses.get(n, ()):
                del env[past]
