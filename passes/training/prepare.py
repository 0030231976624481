"""Prepares a training or its time estimate: built module, data, frozen parameters."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
import xxhash
from torch import Tensor, nn

from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph
from espalier.model.torch.build import build, parameters_of
from espalier.model.torch.size_check import refuse_other_sizes
from espalier.passes.base import Context
from espalier.passes.choices.freeze import trained_by
from espalier.passes.running.objective import Objective
from espalier.passes.running.task_check import check_task
from espalier.passes.select import Select, chosen
from espalier.passes.training.blocks import tapped
from espalier.passes.training.gradual import GradualPruning, with_full_masks
from espalier.passes.training.options import FinetuneOptions
from espalier.passes.training.samples import Samples
from espalier.passes.training.splits import splits
from espalier.passes.training.teacher import DistillationLoss, Teacher, common_blocks


@dataclass(frozen=True, slots=True)
class Prepared:
    """A built graph and its data, ready to train; `gradual` if it is pruned gradually.

    `classes`: names by index. `texts`: statistics of truncated texts.
    """

    graph: Graph
    objective: Objective
    train_on: Samples
    check_on: Samples | None
    gradual: GradualPruning | None = None
    warnings: tuple[str, ...] = ()  # of the data
    classes: tuple[str, ...] = ()
    texts: dict[str, Any] = field(default_factory=dict[str, Any])

    def counts(self) -> dict[str, int]:
        """Numbers of trainable and of all parameters, shared ones counted once."""
        tensors = {id(t): t for t in parameters_of(self.objective.inner).values() if isinstance(t, nn.Parameter)}
        trained = sum(t.numel() for t in tensors.values() if t.requires_grad)
        return {"trainable_parameters": trained, "parameters": sum(t.numel() for t in tensors.values())}

    def trained(self) -> dict[str, Tensor]:
        """The tensors that training changes, by weight name: trainable parameters and running statistics."""
        tensors = parameters_of(self.objective.inner)
        return {n: t for n, t in tensors.items() if t.requires_grad or self.graph.weights[n].role == "buffer"}

    def digest(self) -> str:
        """A hash of the training and validation samples."""
        digest = xxhash.xxh3_128()
        for samples in (self.train_on, self.check_on):
            digest.update(repr(samples.table).encode() if samples and samples.table else b"")
            for name, values in samples.tensors.items() if samples else ():
                digest.update(f"{name}{tuple(values.shape)}".encode())
                digest.update(values.view(torch.uint8).numpy().data)  # numpy has no bfloat16
        return digest.hexdigest()


def prepare(graph: Graph, options: FinetuneOptions, context: Context) -> Prepared:
    """Load the data, build the graph, freeze parameters; raises DataError, GraphError and PassError."""
    data = splits(options, context)
    check_task(graph, data.train, context)
    if options.precision == "float16" and not torch.cuda.is_available():
        raise PassError("float16 training needs a GPU, and torch finds none.", "Choose bfloat16 or float32.")
    masked, kinds = with_full_masks(graph, options, context.store) if options.prune_to else (graph, {})
    module = build(masked, context.store, context.callables)
    refuse_other_sizes(module, masked)
    _freeze(parameters_of(module), _frozen(graph, options.freeze))
    samples = Samples(data.train, graph)
    distillation = _distillation(graph, module, samples, options, context) if options.teaches else None
    gradual = GradualPruning(masked, module, kinds, options) if kinds else None
    others = Samples(data.check, graph, "validate on") if data.check else None
    objective = Objective(module, graph, distillation, samples.task)
    return Prepared(graph, objective, samples, others, gradual, data.warnings, data.classes, data.texts)


def _distillation(
    graph: Graph, module: nn.Module, samples: Samples, options: FinetuneOptions, context: Context
) -> DistillationLoss:
    """Set the baseline as the teacher of these samples; returns the distillation loss."""
    if context.base is None:
        raise PassError("There is no baseline to distil from.", "Fine-tune as a step of a recipe, or set distil to 0.")
    blocks = common_blocks(graph, context.base) if options.hidden else {}
    samples.teacher = Teacher(context.base, blocks, len(samples), context, samples.task)
    return DistillationLoss(options, tapped(module, blocks))


def epoch_steps(samples: int, options: FinetuneOptions) -> int:
    """Optimiser steps of one pass over so many samples."""
    batch = options.batch_size * max(1, torch.cuda.device_count())
    return math.ceil(math.ceil(samples / batch) / options.accumulation)


def all_steps(samples: int, options: FinetuneOptions) -> int:
    """Optimiser steps of the whole training."""
    return options.max_steps or math.ceil(options.epochs * epoch_steps(samples, options))


def _frozen(graph: Graph, selects: Iterable[Select]) -> set[str]:
    """Names of the selected nodes' parameters, including scales of their formats; raises PassError."""
    names: set[str] = set()
    for select in selects:
        nodes = chosen(graph, select, lambda n: any(trained_by(n, graph)), "frozen")
        names.update(name for n in nodes for name in trained_by(n, graph))
    return names


def _freeze(tensors: dict[str, Tensor], frozen: set[str]) -> None:
    """Freeze the named tensors; raises PassError if no parameter is trainable."""
    for name in frozen & tensors.keys():
        tensors[name].requires_grad_(False)
    if not any(t.requires_grad for t in tensors.values()):
        raise PassError("All weights are frozen.", "Freeze fewer nodes.")
