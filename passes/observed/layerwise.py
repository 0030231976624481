"""A built model run node by node on several samples: all of them come to a node before any goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, fx

from espalier.passes.running.batches import fit_error

Inputs = Mapping[str, Tensor]


class Abreast(fx.Interpreter):
    """`envs` holds, sample by sample, the tensors that later nodes still need."""

    def __init__(self, module: fx.GraphModule, samples: Sequence[Inputs]) -> None:
        super().__init__(module)
        self.samples = samples
        self.envs: list[dict[fx.Node, Any]] = [{} for _ in samples]

    def run_all(self, n: fx.Node) -> None:
        """Run `n` on all samples; raises EspalierError where a sample does not fit."""
        for env, inputs in zip(self.envs, self.samples, strict=True):
            self.env = env
            if n.op == "placeholder":
                env[n] = inputs.get(str(n.target))
            else:
                with fit_error(dict(inputs)):
                    env[n] = self.run_node(n)
            for past in self.user_to_last_uses.get(n, ()):
                del env[past]
