"""Thresholds of activations in the order in which they flow: all samples come to a tensor before any goes on, so that
its threshold is of what the pruned layers before it give.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

from torch import fx, no_grad

from espalier.model.torch.activation_masks import Flowing
from espalier.model.torch.build import PORT
from espalier.model.torch.layers import Effective
from espalier.passes.observed.layerwise import Inputs, LayerwiseRun
from espalier.passes.pruning.magnitudes import Magnitudes

Place = tuple[str, str]


class Sequential(LayerwiseRun):
    """Runs a built module node by node on all samples; in memory are the tensors that later nodes still need."""

    def __init__(self, module: fx.GraphModule, samples: Sequence[Inputs], share: float) -> None:
        super().__init__(module, samples)
        self.share = share
        self.found: dict[Place, tuple[float, float]] = {}

    def thresholds(self, places: frozenset[Place], told: Callable[[int], None]) -> dict[Place, tuple[float, float]]:
        """(threshold, share) of each place that is reached; `told` hears how many are done."""
        with no_grad():
            for n in cast("fx.GraphModule", self.module).graph.nodes:
                mine = [p for p in n.meta.get(PORT, ()) if p in places]
                if mine:
                    self._choose(n, mine)
                    told(len(self.found))
                if len(self.found) == len(places):
                    break
                self.run_all(n)
        return self.found

    def _choose(self, n: fx.Node, places: Sequence[Place]) -> None:
        """The threshold of a tensor that is about to be pruned, into the module that prunes it."""
        seen = Magnitudes()
        for env in self.envs:
            seen.add(env[cast("fx.Node", n.args[0])].float().numpy())
        limit = seen.threshold(self.share)
        self.found |= dict.fromkeys(places, (limit, seen.share(limit)))
        rule = cast("Effective", self.fetch_attr(str(n.target)))
        assert rule.flowing is not None
        rule.flowing = Flowing(replace(rule.flowing.chosen, threshold=limit))
