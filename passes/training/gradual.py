"""Gradual pruning during training; masks are recomputed from the current weights.

The sparsity follows the cubic schedule of Zhu and Gupta 2017 (https://arxiv.org/abs/1710.01878).
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
from espalier.passes.choices.pruning import Choice
from espalier.passes.pruning.live_masks import live_masks, with_masks
from espalier.passes.pruning.module_calls import all_calls
from espalier.passes.pruning.patterns import Found
from espalier.passes.select import chosen
from espalier.passes.training.options import FinetuneOptions
from espalier.passes.training.watch import Watch
from espalier.passes.unpruned import prunable

DECAY = 0.99  # of the moving average of |w·g|, per batch
PATTERNS = ("element", "n:m", "block")
Kind = tuple[str, tuple[int, int]]  # a pattern and its size


class GradualPruning(TrainerCallback):
    """Raises the sparsity of weights from their present one to `options.prune_to`, and reports it to `watch`.

    `kinds`: weight name → its pattern, which is constant; an n:m pattern has its final sparsity from the start, but is
    recomputed too.
    """

    def __init__(self, graph: Graph, module: nn.Module, kinds: Mapping[str, Kind], options: FinetuneOptions) -> None:
        self.graph, self.options, self.kinds = graph, options, kinds
        self.weights = {n: t for n, t in parameters_of(module).items() if n in kinds}
        self.masks = _mask_modules(module, graph, self.weights)
        self.begun = {name: _sparsity(self._mask(name)) for name in kinds}
        self.first, self.last = 0, 1
        self.watch: Watch | None = None
        self.scores: dict[str, Tensor] = {}
        if options.prune_method != "l1":
            self._add_hooks()

    # -- schedule

    def plan(self, steps: int) -> None:
        """Set the first and last optimiser step of the pruning."""
        self.first = round(self.options.prune_start * steps)
        self.last = max(round(self.options.prune_end * steps), self.first + 1)

    def share(self, name: str, step: int) -> float:
        """Scheduled sparsity of a weight after `step`."""
        done = min(max((step - self.first) / (self.last - self.first), 0.0), 1.0)
        final = self.options.prune_to
        return final + (self._from(name) - final) * (1 - done) ** 3

    def _from(self, name: str) -> float:
        if self.options.prune_scope == "local":
            return self.begun[name]
        sizes = {n: self.weights[n].numel() for n, kind in self.kinds.items() if kind == self.kinds[name]}
        return sum(self.begun[n] * size for n, size in sizes.items()) / max(sum(sizes.values()), 1)

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Select the best weights only after the pruning; move the scores to the weights' device."""
        self.plan(state.max_steps)
        self.scores = {n: s.to(self.weights[n].device) for n, s in self.scores.items()}
        if self.watch is not None:
            self.watch.judged_from = self.last
            self.watch.more["sparsity"] = self.sparsity

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Recompute the masks every `prune_every` steps and at the last."""
        step = state.global_step
        due = (step - self.first) % self.options.prune_every == 0 or step == self.last
        if self.first < step <= self.last and due:
            self.prune(step)
            if self.watch is not None:
                self.watch.more["sparsity"] = self.sparsity
                self.watch.figure("sparsity", step, self.sparsity)

    # -- masks

    def prune(self, step: int) -> None:
        """Set the masks of a step's sparsity, from magnitudes or the collected scores."""
        scores = self.ranked()
        for kind, names in self._groups().items():
            masks = live_masks(
                {n: scores[n] for n in names}, self.graph, self._choice(kind, self.share(names[0], step))
            )
            for name, mask in masks.items():
                self._set(name, mask)

    def ranked(self) -> dict[str, Tensor]:
        """Weight name → what its elements are ranked by."""
        return self.scores or self.weights

    def _groups(self) -> dict[tuple[Kind, str], list[str]]:
        """Weights that are ranked together."""
        groups: dict[tuple[Kind, str], list[str]] = {}
        for name, kind in self.kinds.items():
            alone = self.options.prune_scope == "local" or kind[0] == "n:m"
            groups.setdefault((kind, name if alone else ""), []).append(name)
        return groups

    def _choice(self, kind: tuple[Kind, str], share: float) -> Choice:
        (pattern, size), _ = kind
        scope = self.options.prune_scope
        return Choice(share, self.options.prune_method, scope, pattern, size)  # type: ignore[arg-type]

    def _mask(self, name: str) -> Tensor:
        mask = self.masks[name][0].mask
        assert mask is not None
        return mask

    def _set(self, name: str, mask: Tensor) -> None:
        for module in self.masks[name]:
            module.remask(mask)

    @property
    def sparsity(self) -> float:
        """Share of zeros in all pruned weights."""
        zeros = sum(int((~self._mask(n)).sum()) for n in self.kinds)
        return round(zeros / max(sum(t.numel() for t in self.weights.values()), 1), 6)

    def pruned(self, graph: Graph, store: WeightStore) -> Graph:
        """The graph with the present masks."""
        for (kind, _), names in self._groups().items():
            arrays = {n: self._mask(n).cpu().numpy() for n in names}
            masks = {n: Found(np.packbits(a), int(a.size - np.count_nonzero(a))) for n, a in arrays.items()}
            total = sum(m.zeros for m in masks.values()) / max(sum(a.size for a in arrays.values()), 1)
            share = self.options.prune_to if self._ended else total
            graph = with_masks(graph, masks, self._choice((kind, ""), share), store)
        return graph

    @property
    def _ended(self) -> bool:
        return self.watch is not None and self.watch.kept_step >= self.last

    # -- scores from gradients

    def _add_hooks(self) -> None:
        frozen = next((n for n, t in self.weights.items() if not t.requires_grad), None)
        if frozen:
            raise PassError(f"{self.options.prune_method} scores by gradients, and {frozen} is frozen.",
                            "Choose l1, or unfreeze it.")  # fmt: skip
        self.scores = {n: torch.zeros_like(t, dtype=torch.float32) for n, t in self.weights.items()}
        for name, modules in self.masks.items():
            for module in modules:
                module.register_forward_hook(self._hook(name))

    def _hook(self, name: str) -> Any:
        """A hook that scores by the gradient of the masked weight, so that masked elements can be restored."""
        movement = self.options.prune_method == "movement"

        def update(gradient: Tensor, weight: Tensor) -> None:
            score, product = self.scores[name], (weight.detach() * gradient).float()
            if movement:
                score.sub_(product.to(score.device))
            else:
                score.mul_(DECAY).add_(product.abs().to(score.device))

        def hook(_: nn.Module, given: tuple[Tensor, ...], result: Tensor) -> None:
            if result.requires_grad:
                result.register_hook(lambda gradient: update(gradient, given[0]))

        return hook

    # -- checkpoints

    def state(self) -> dict[str, Any]:
        """Masks and scores."""
        return {"masks": {n: self._mask(n) for n in self.kinds}, "scores": self.scores, "begun": self.begun}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the result of `state`."""
        self.begun = state["begun"]
        for name, mask in state["masks"].items():
            self._set(name, mask.to(self.weights[name].device))
        for name, score in state["scores"].items():
            self.scores[name].copy_(score)


def with_full_masks(graph: Graph, options: FinetuneOptions, store: WeightStore) -> tuple[Graph, dict[str, Kind]]:
    """(graph with a mask on each weight to be pruned, pattern of each weight); raises PassError."""
    nodes = all_calls(chosen(graph, options.prune_select, lambda n: prunable(n, graph), "pruned"), graph)
    fit = [n for n in nodes if _pattern(n)[0] in PATTERNS]
    if not fit:
        raise PassError("The selected nodes have structured masks, which are fixed.", "Select others.")
    _refuse_fewer(fit, graph, options)
    names = {n.id: weight_at(n, "weight", graph) or "" for n in fit}
    masked = [_masked(n, graph.weights[names[n.id]].elements, options, store) for n in fit]
    return graph.replace(*masked), {names[n.id]: _pattern(n) for n in fit}


def _refuse_fewer(nodes: list[Node], graph: Graph, options: FinetuneOptions) -> None:
    """Raise PassError if the present sparsity exceeds the final one, which would restore weights."""
    groups: dict[tuple[Kind, str], dict[str, Node]] = {}
    for node in nodes:
        name, kind = weight_at(node, "weight", graph) or "", _pattern(node)
        if kind[0] != "n:m":  # its sparsity follows from its pattern
            groups.setdefault((kind, name if options.prune_scope == "local" else ""), {})[name] = node
    for (kind, alone), members in groups.items():
        pruned = sum(s.zeros for n in members.values() if (s := n.sparsity.get("weight")))
        elements = max(sum(graph.weights[name].elements for name in members), 1)
        rounding = len(members) * kind[1][0] * kind[1][1]
        if pruned > options.prune_to * elements + rounding:
            first = next(iter(members.values()))
            who, share = first.id if alone else "The selection", f"{pruned / elements:.3g}"
            text = f"{who} is already pruned to {share}, and prune_to is {options.prune_to:g}."
            hint = f"Use a prune_to above {share}, select other nodes, or remove their pruning first."
            raise PassError(text, hint, first.id if alone else None)


def _pattern(node: Node) -> Kind:
    sparsity = node.sparsity.get("weight")
    return (sparsity.pattern, sparsity.size) if sparsity is not None else ("element", (1, 1))


def _masked(node: Node, elements: int, options: FinetuneOptions, store: WeightStore) -> Node:
    present = node.sparsity.get("weight")
    if present is not None and present.mask is not None:
        return node
    ones = store.hold(Stored(np.packbits(np.ones(elements, bool)), "uint8"))
    sparsity = Sparsity(options.prune_method, 0.0, options.prune_scope, ones, 0)
    return replace(node, sparsity={**node.sparsity, "weight": sparsity})


def _sparsity(mask: Tensor) -> float:
    return 1 - int(mask.sum()) / max(mask.numel(), 1)


def _mask_modules(module: nn.Module, graph: Graph, weights: Mapping[str, Tensor]) -> dict[str, list[Effective]]:
    """Weight name → modules that mask it: in its layers, and before the functions that take it."""
    names = {id(t): n for n, t in weights.items()}
    modules: dict[str, list[Effective]] = {n: [] for n in weights}
    for part in module.modules():
        if isinstance(part, Compressed) and id(part.weight) in names and "weight" in part.effective:
            modules[names[id(part.weight)]].append(part.effective["weight"])  # type: ignore[arg-type]
    for node in graph:
        name = weight_at(node, "weight", graph)
        if node.call == "call_function" and name in modules and "weight" in node.sparsity:
            before: Any = module.get_submodule(f"effective.{node.id}_weight")
            modules[name].append(before)
    return modules
