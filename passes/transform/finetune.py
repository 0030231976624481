"""Train the graph as it is: masks hold, formats pass their straight-through gradient (QAT), learned scales move."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from model.errors import OptionsError, PassError
from model.graph import Graph
from passes.analysis.evaluate import EvaluateOptions, load_split
from passes.base import Context, Report, transform
from passes.select import Select, matches

if TYPE_CHECKING:
    from torch import Tensor

    from model.data.base import Split
    from passes.training.watch import Watch


@dataclass(frozen=True, slots=True)
class FinetuneOptions:
    """On what, how long, how fast; the seed of the step decides the order of samples and the dropout."""

    data: str = field(default="", metadata={"help": "demo:NAME, hub:NAME, a file or a folder", "edit": "data"})
    train_split: str = field(
        default="", metadata={"help": "samples to train on; default: train", "edit": "split", "empty": "train"}
    )
    train_limit: int = field(default=0, metadata={"min": 0, "help": "at most so many of them; 0 = all"})
    validate: bool = field(default=True, metadata={"help": "measure on other samples at the start and on the way"})
    validation_split: str = field(
        default="", metadata={"help": "those samples; default: validation", "edit": "split", "empty": "validation"}
    )
    validation_limit: int = field(default=0, metadata={"min": 0, "help": "at most so many of them; 0 = all"})
    epochs: float = field(default=1.0, metadata={"min": 0.01, "max": 1000.0, "help": "passes over the samples"})
    max_steps: int = field(default=0, metadata={"min": 0, "help": "optimiser steps instead of epochs; 0 = by epochs"})
    batch_size: int = field(default=32, metadata={"min": 1, "max": 4096, "help": "samples a forward pass"})
    accumulation: int = field(default=1, metadata={"min": 1, "max": 1024, "help": "batches an optimiser step"})
    learning_rate: float = field(default=1e-4, metadata={"min": 1e-8, "max": 10.0, "help": "its highest value"})
    schedule: Literal["linear", "cosine", "constant"] = field(
        default="linear", metadata={"help": "how the learning rate falls to 0, or stays"}
    )
    warm_up: float = field(
        default=0.0, metadata={"min": 0.0, "max": 0.9, "help": "share of the steps in which it rises"}
    )
    optimiser: Literal["adamw", "sgd", "adafactor"] = field(
        default="adamw", metadata={"help": "AdamW, stochastic gradient descent, or Adafactor, which takes less memory"}
    )
    momentum: float = field(default=0.9, metadata={"min": 0.0, "max": 0.999, "help": "of SGD"})
    weight_decay: float = field(default=0.0, metadata={"min": 0.0, "max": 1.0, "help": "not on biases, norms, scales"})
    clip: float = field(default=1.0, metadata={"min": 0.0, "help": "highest norm of the gradient; 0 = any"})
    precision: Literal["float32", "bfloat16"] = field(
        default="float32", metadata={"help": "arithmetic of the training; weights stay as they are stored"}
    )
    freeze: tuple[Select, ...] = field(default=(), metadata={"help": "nodes whose weights stay"})
    evaluate_every: int = field(default=0, metadata={"min": 0, "help": "optimiser steps; 0 = once an epoch"})
    keep: Literal["accuracy", "loss", "last"] = field(
        default="accuracy", metadata={"help": "the weights of the best validation, the start's among them, or the last"}
    )
    patience: int = field(default=0, metadata={"min": 0, "help": "stop after so many evaluations no better; 0 = never"})
    text: str = field(default="", metadata={"help": "name of the text column", "edit": "text"})
    label: str = field(default="", metadata={"help": "name of the label column", "edit": "label"})
    tokenizer: str = field(default="", metadata={"help": "folder of the tokenizer, where the source has none"})
    max_length: int = field(default=128, metadata={"min": 2, "help": "longest text in tokens"})

    def __post_init__(self) -> None:
        for name in ("epochs", "learning_rate"):
            if not getattr(self, name) > 0:
                raise OptionsError(f"{name} is {getattr(self, name)}.", f"{name} must be above 0.")
        if self.batch_size < 1 or self.accumulation < 1:
            raise OptionsError("batch_size and accumulation must be whole numbers from 1.", "Write 1 or more.")
        if not 0 <= self.warm_up < 1:
            raise OptionsError(f"warm_up is {self.warm_up}.", "It is a share of the steps: at least 0, below 1.")


@transform("finetune", "Fine-tune", FinetuneOptions, lasting=True)
def finetune(graph: Graph, options: FinetuneOptions, context: Context) -> tuple[Graph, Report]:
    """Train the weights on data; pruned weights stay 0, and formats are trained through (QAT).

    The loss is the model's own where it takes labels, else the cross-entropy of its class scores. A training that is
    stopped by hand keeps what it has learned.
    """
    from model.build import build, parameters_of, read_back
    from passes.training.objective import Objective
    from passes.training.run import train
    from passes.training.samples import Samples

    start = time.perf_counter()
    split = _split(options, options.train_split or "train", options.train_limit, context)
    other = options.validation_split or "validation"
    checks = _split(options, other, options.validation_limit, context) if options.validate else None
    module = build(graph, context.store, context.callables)
    trainable = _freeze(parameters_of(module), _frozen(graph, options.freeze))
    watch = train(
        Objective(module, graph), Samples(split, graph), Samples(checks, graph) if checks else None, options, context
    )
    after = read_back(module, graph, context.store)
    summary = _summary(watch, trainable, len(split), time.perf_counter() - start)
    return after, Report("finetune", tuple(watch.rows), summary)


def _split(options: FinetuneOptions, name: str, limit: int, context: Context) -> Split:
    shared = ("data", "text", "label", "tokenizer", "max_length")
    wish = EvaluateOptions(split=name, limit=limit, **{n: getattr(options, n) for n in shared})
    return load_split(wish, context)


def _frozen(graph: Graph, selects: Iterable[Select]) -> set[str]:
    """Names of the weights of the selected nodes, the scales of their formats too; raises PassError."""
    names: set[str] = set()
    for select in selects:
        nodes = [n for n in graph if matches(n, select)]
        if not nodes:
            raise PassError(f"The selection to freeze ({select.describe()}) matches no node.", "Change it.")
        for node in nodes:
            names.update(node.weights.values(), (p.scale for p in node.precision.values() if p.scale))
    return names


def _freeze(tensors: dict[str, Tensor], frozen: set[str]) -> int:
    """Freeze the named tensors; returns how many elements still train."""
    for name in frozen & tensors.keys():
        tensors[name].requires_grad_(False)
    left = sum(t.numel() for t in tensors.values() if t.requires_grad)
    if not left:
        raise PassError("No weight is left to train.", "Freeze fewer nodes.")
    return left


def _summary(watch: Watch, trainable: int, samples: int, seconds: float) -> dict[str, Any]:
    """Figures of the run, and those of the validation that the kept weights had."""
    kept = next((r for r in watch.rows if r["step"] == watch.kept_step), {})
    figures = {k: kept[k] for k in ("validation_accuracy", "validation_loss") if kept.get(k) is not None}
    return {"ended": watch.ended, "steps": watch.steps, "kept_step": watch.kept_step, **figures, "samples": samples,
            "trainable_parameters": trainable, "seconds": round(seconds, 3)}  # fmt: skip
