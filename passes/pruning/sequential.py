"""Sequential choice of activation thresholds: each is chosen from the results of the already pruned layers before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

from torch import fx, no_grad

from espalier.model.graph.graph import Graph
from espalier.model.torch.activation_masks import ActivationMask
from espalier.model.torch.build import PORT
from espalier.model.torch.layers import Effective
from espalier.passes.observed.layerwise import Inputs, LayerwiseRun
from espalier.passes.pruning.magnitudes import Magnitudes

Port = tuple[str, str]  # node, port


class Sequential(LayerwiseRun):
    """Layer-wise run that chooses a threshold for each tensor to be pruned."""

    def __init__(self, module: fx.GraphModule, samples: Sequence[Inputs], graph: Graph, share: float) -> None:
        super().__init__(module, samples, graph)
        self.share = share
        self.chosen: dict[Port, tuple[float, float]] = {}

    def thresholds(self, ports: frozenset[Port], progress: Callable[[int], None]) -> dict[Port, tuple[float, float]]:
        """(threshold, share) of each reached port; `progress` is called with the number of chosen thresholds."""
        with no_grad():
            for n in cast("fx.GraphModule", self.module).graph.nodes:
                own = [p for p in n.meta.get(PORT, ()) if p in ports]
                if own:
                    self._choose(n, own)
                    progress(len(self.chosen))
                if len(self.chosen) == len(ports):
                    break
                self.run_all(n)
        return self.chosen

    def _choose(self, n: fx.Node, ports: Sequence[Port]) -> None:
        """Choose the threshold of a tensor and set it in the module that prunes it."""
        magnitudes = Magnitudes()
        for env in self.envs:
            magnitudes.add(env[cast("fx.Node", n.args[0])].float().numpy())
        limit = magnitudes.threshold(self.share)
        self.chosen |= dict.fromkeys(ports, (limit, magnitudes.share(limit)))
        rule = cast("Effective", self.fetch_attr(str(n.target)))
        assert rule.rule is not None
        rule.rule = ActivationMask(replace(rule.rule.chosen, threshold=limit))
