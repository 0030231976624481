"""Pruning that grows while training goes on, its masks always made anew from what is live.

The share follows the cube of Zhu and Gupta 2017 (https://arxiv.org/abs/1710.01878): fast at first, slow at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import TrainerCallback

from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Sparsity
from espalier.model.graph.ports import weight_at
from espalier.model.store.weights import Tensor as Stored
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import parameters_of
from espalier.model.torch.layers import Compressed, Effective
from espalier.passes.choices.prune import prunable
from espalier.passes.choices.pruning import Choice
from espalier.passes.pruning.calls import all_calls
from espalier.passes.pruning.live_masks import live_masks, with_masks
from espalier.passes.pruning.patterns import Found
from espalier.passes.select import chosen
from espalier.passes.training.options import FinetuneOptions
from espalier.passes.training.watch import Watch

FADING = 0.99  # of a running |w·g|, at each batch
PATTERNS = ("element", "n:m", "block")
Kind = tuple[str, tuple[int, int]]  # a pattern and its size


class GradualPruning(TrainerCallback):
    """Raises the sparsity of weights from what they have to `options.prune_to`, and tells `watch` how far it is.

    `kinds`: weight name → its pattern, which stays; an n:m pattern is full from the start, but made anew too.
    """

    def __init__(self, graph: Graph, module: nn.Module, kinds: Mapping[str, Kind], options: FinetuneOptions) -> None:
        self.graph, self.options, self.kinds = graph, options, kinds
        self.weights = {n: t for n, t in parameters_of(module).items() if n in kinds}
        self.places = _places(module, graph, self.weights)
        self.begun = {name: _share(self._mask(name)) for name in kinds}
        self.first, self.last = 0, 1
        self.watch: Watch | None = None
        self.scores: dict[str, Tensor] = {}
        if options.prune_method != "l1":
            self._listen()

    # -- when

    def plan(self, steps: int) -> None:
        """Between which optimiser steps it works."""
        self.first = round(self.options.prune_start * steps)
        self.last = max(round(self.options.prune_end * steps), self.first + 1)

    def share(self, name: str, step: int) -> float:
        """The share that is to be pruned of a weight after so many steps."""
        done = min(max((step - self.first) / (self.last - self.first), 0.0), 1.0)
        final = self.options.prune_to
        return final + (self._from(name) - final) * (1 - done) ** 3

    def _from(self, name: str) -> float:
        if self.options.prune_scope == "local":
            return self.begun[name]
        sizes = {n: self.weights[n].numel() for n, kind in self.kinds.items() if kind == self.kinds[name]}
        return sum(self.begun[n] * size for n, size in sizes.items()) / max(sum(sizes.values()), 1)

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The best weights are looked for only once all is pruned; what listens goes where the weights are."""
        self.plan(state.max_steps)
        self.scores = {n: s.to(self.weights[n].device) for n, s in self.scores.items()}
        if self.watch is not None:
            self.watch.judged_from = self.last
            self.watch.more["sparsity"] = self.sparsity

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """New masks, every so many steps and at the last of them."""
        step = state.global_step
        due = (step - self.first) % self.options.prune_every == 0 or step == self.last
        if self.first < step <= self.last and due:
            self.prune(step)
            if self.watch is not None:
                self.watch.more["sparsity"] = self.sparsity
                self.watch.figure("sparsity", step, self.sparsity)

    # -- what

    def prune(self, step: int) -> None:
        """The masks of the share that belongs to a step, from the live weights or what was heard of them."""
        scores = self.scores or self.weights
        for kind, names in self._together().items():
            found = live_masks(
                {n: scores[n] for n in names}, self.graph, self._choice(kind, self.share(names[0], step))
            )
            for name, mask in found.items():
                self._set(name, mask)

    def _together(self) -> dict[tuple[Kind, str], list[str]]:
        """Weights that are ranked with one another."""
        found: dict[tuple[Kind, str], list[str]] = {}
        for name, kind in self.kinds.items():
            alone = self.options.prune_scope == "local" or kind[0] == "n:m"
            found.setdefault((kind, name if alone else ""), []).append(name)
        return found

    def _choice(self, kind: tuple[Kind, str], share: float) -> Choice:
        (pattern, size), _ = kind
        scope = self.options.prune_scope
        return Choice(share, self.options.prune_method, scope, pattern, size)  # type: ignore[arg-type]

    def _mask(self, name: str) -> Tensor:
        mask = self.places[name][0].mask
        assert mask is not None
        return mask

    def _set(self, name: str, mask: Tensor) -> None:
        for place in self.places[name]:
            place.remask(mask)

    @property
    def sparsity(self) -> float:
        """Zeros over elements, of all that is pruned."""
        zeros = sum(int((~self._mask(n)).sum()) for n in self.kinds)
        return round(zeros / max(sum(t.numel() for t in self.weights.values()), 1), 6)

    def pruned(self, graph: Graph, store: WeightStore) -> Graph:
        """The graph with the masks that there are now."""
        for (kind, _), names in self._together().items():
            masks = {n: self._mask(n).cpu().numpy() for n in names}
            found = {n: Found(np.packbits(m), int(m.size - np.count_nonzero(m))) for n, m in masks.items()}
            total = sum(f.zeros for f in found.values()) / max(sum(m.size for m in masks.values()), 1)
            share = self.options.prune_to if self._ended else total
            graph = with_masks(graph, found, self._choice((kind, ""), share), store)
        return graph

    @property
    def _ended(self) -> bool:
        return self.watch is not None and self.watch.kept_step >= self.last

    # -- what is heard of weights

    def _listen(self) -> None:
        frozen = next((n for n, t in self.weights.items() if not t.requires_grad), None)
        if frozen:
            raise PassError(f"{self.options.prune_method} scores by gradients, and {frozen} is frozen.",
                            "Choose l1, or let it train.")  # fmt: skip
        self.scores = {n: torch.zeros_like(t, dtype=torch.float32) for n, t in self.weights.items()}
        for name, places in self.places.items():
            for place in places:
                place.register_forward_hook(self._hook(name))

    def _hook(self, name: str) -> Any:
        """Hears the gradient of the weight as the layer uses it, so that masked elements can come back."""
        moves = self.options.prune_method == "movement"

        def heard(gradient: Tensor, weight: Tensor) -> None:
            score, product = self.scores[name], (weight.detach() * gradient).float()
            if moves:
                score.sub_(product.to(score.device))
            else:
                score.mul_(FADING).add_(product.abs().to(score.device))

        def hook(_: nn.Module, given: tuple[Tensor, ...], result: Tensor) -> None:
            if result.requires_grad:
                result.register_hook(lambda gradient: heard(gradient, given[0]))

        return hook

    # -- what a checkpoint holds

    def state(self) -> dict[str, Any]:
        """Masks, and what was heard."""
        return {"masks": {n: self._mask(n) for n in self.kinds}, "scores": self.scores, "begun": self.begun}

    def restore(self, held: dict[str, Any]) -> None:
        """As `state` gave it."""
        self.begun = held["begun"]
        for name, mask in held["masks"].items():
            self._set(name, mask.to(self.weights[name].device))
        for name, score in held["scores"].items():
            self.scores[name].copy_(score)


def opened(graph: Graph, options: FinetuneOptions, store: WeightStore) -> tuple[Graph, dict[str, Kind]]:
    """The graph with a mask on each weight that is to be pruned, and their patterns; raises PassError."""
    nodes = all_calls(chosen(graph, options.prune_select, lambda n: prunable(n, graph), "pruned"), graph)
    fit = [n for n in nodes if _pattern(n)[0] in PATTERNS]
    if not fit:
        raise PassError("The selected nodes are pruned in structures, whose masks stay.", "Select others.")
    _refuse_fewer(fit, graph, options)
    names = {n.id: weight_at(n, "weight", graph) or "" for n in fit}
    masked = [_masked(n, graph.weights[names[n.id]].elements, options, store) for n in fit]
    return graph.replace(*masked), {names[n.id]: _pattern(n) for n in fit}


def _refuse_fewer(nodes: list[Node], graph: Graph, options: FinetuneOptions) -> None:
    """Raise PassError where more is pruned already than is to be: it would come back unasked."""
    groups: dict[tuple[Kind, str], dict[str, Node]] = {}
    for node in nodes:
        name, kind = weight_at(node, "weight", graph) or "", _pattern(node)
        if kind[0] != "n:m":  # its share is its pattern's
            groups.setdefault((kind, name if options.prune_scope == "local" else ""), {})[name] = node
    for (kind, alone), held in groups.items():
        pruned = sum(s.zeros for n in held.values() if (s := n.sparsity.get("weight")))
        elements = max(sum(graph.weights[name].elements for name in held), 1)
        rounding = len(held) * kind[1][0] * kind[1][1]
        if pruned > options.prune_to * elements + rounding:
            first = next(iter(held.values()))
            who, share = first.id if alone else "What is selected", f"{pruned / elements:.3g}"
            text = f"{who} is pruned to {share} already, and prune_to is {options.prune_to:g}."
            hint = f"Give a prune_to above {share}, select other nodes, or take their pruning away first."
            raise PassError(text, hint, first.id if alone else None)


def _pattern(node: Node) -> Kind:
    held = node.sparsity.get("weight")
    return (held.pattern, held.size) if held is not None else ("element", (1, 1))


def _masked(node: Node, elements: int, options: FinetuneOptions, store: WeightStore) -> Node:
    held = node.sparsity.get("weight")
    if held is not None and held.mask is not None:
        return node
    whole = store.hold(Stored(np.packbits(np.ones(elements, bool)), "uint8"))
    made = Sparsity(options.prune_method, 0.0, options.prune_scope, whole, 0)
    return replace(node, sparsity={**node.sparsity, "weight": made})


def _share(mask: Tensor) -> float:
    return 1 - int(mask.sum()) / max(mask.numel(), 1)


def _places(module: nn.Module, graph: Graph, weights: Mapping[str, Tensor]) -> dict[str, list[Effective]]:
    """Weight name → where it goes through a mask: in its layers, and before the functions that take it."""
    names = {id(t): n for n, t in weights.items()}
    found: dict[str, list[Effective]] = {n: [] for n in weights}
    for part in module.modules():
        if isinstance(part, Compressed) and id(part.weight) in names and "weight" in part.effective:
            found[names[id(part.weight)]].append(part.effective["weight"])  # type: ignore[arg-type]
    for node in graph:
        name = weight_at(node, "weight", graph)
        if node.call == "call_function" and name in found and "weight" in node.sparsity:
            place: Any = module.get_submodule(f"effective.{node.id}_weight")
            found[name].append(place)
    return found
