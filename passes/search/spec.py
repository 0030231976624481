"""The specification of a search, as a panel or a TOML file gives it: space, goals, constraints, sampler."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from espalier.model.document.recipe import Recipe
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.select import Select

Kind = Literal["format", "sparsity", "option", "config", "identity", "parallel"]
Sampler = Literal["tpe", "random", "grid", "nsga2", "nsga3", "gp", "cmaes", "qmc"]
Pruner = Literal["none", "rungs", "median", "percentile", "halving", "hyperband", "patient", "threshold", "wilcoxon"]
Training = Literal["none", "before", "after", "both"]
ExportTarget = Literal["", "compressed-tensors", "gguf", "onnx", "openvino", "torchao", "executorch"]
LINEAR = Select("type", ("linear",))


@dataclass(frozen=True, slots=True)
class When:
    """A condition: the entry exists only where the choice called `name` takes one of `values`."""

    name: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Vary:
    """One entry of a space.

    format: number formats at `ports` of the selected nodes; sparsity: pruned share of their weights, by `method`;
    option: an option of a step of the recipe by its path (`lora.rank`, `finetune=on,off`); config: a key of a Hugging
    Face configuration (`num_hidden_layers`); identity: Linear or Identity, for square layers; parallel: products per
    cycle of a node in hardware, split among inputs, outputs and rows automatically.
    `values`: as in sweeps; for formats `integer(width=4|8, frac_width=2|4)` means all four, and `all` every format at
    its usual widths. `low`…`high` instead: a number in that range. `per`: one choice per layer, type of layer, module
    path of `depth` parts, or one for all; layers that share a choice are tied.
    """

    kind: Kind = "format"
    select: Select = field(default=LINEAR, metadata={"help": "selected layers"})
    ports: tuple[str, ...] = field(default=("weight",), metadata={"help": "weight, data_in, bias, data_out"})
    values: str = field(default="", metadata={"help": "candidate values"})
    low: float | None = None
    high: float | None = None
    log: bool = False
    key: str = field(default="", metadata={"help": "the option's path or the configuration's key"})
    method: str = field(default="l1", metadata={"help": "pruning method"})
    per: Literal["layer", "type", "module", "all"] = "layer"
    depth: int = field(default=4, metadata={"min": 1, "max": 20, "help": "number of parts of a module path"})
    fit: bool = field(default=True, metadata={"help": "fit fraction widths and exponent biases to each weight"})
    name: str = field(default="", metadata={"help": "name of the choice; default: what it varies"})
    when: When | None = None


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure of the score, or a cost, to maximise or minimise; `weight`: its factor if goals are summed."""

    figure: str = "accuracy"
    better: Literal["", "high", "low"] = field(default="", metadata={"help": "empty: the metric's default direction"})
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class SearchSpec:
    """A search. Several `goals` give a Pareto front, or one objective if they are `summed`.

    `within`: constraints such as `weight_bits<=4.5`. `train`: whether trials train: not (PTQ), before or after
    compression, or both, with the options of `finetune` (those of the pass, as JSON). `warm`: number of trials from
    the Pareto front that sensitivities predict. `rungs`: sample counts at which weak trials are pruned; `lower`,
    `upper`: bounds of the goal for the pruner threshold. `study`: the name under which a search is resumed. `target`:
    formats that this target of export does not hold are left out.
    """

    study: str = ""
    space: tuple[Vary, ...] = ()
    goals: tuple[Goal, ...] = (Goal(),)
    within: tuple[str, ...] = ()
    summed: bool = False
    sampler: Sampler = "tpe"
    pruner: Pruner = "none"
    rungs: tuple[int, ...] = ()
    lower: float | None = field(default=None, metadata={"help": "threshold: end a trial whose goal is below this"})
    upper: float | None = field(default=None, metadata={"help": "threshold: end a trial whose goal is above this"})
    judge_from: int = field(default=0, metadata={"min": 0, "help": "samples or steps before a pruner may act"})
    trials: int = field(default=50, metadata={"min": 1, "max": 100_000})
    timeout: float = field(default=0.0, metadata={"min": 0, "help": "seconds; 0 = no limit"})
    patience: int = field(
        default=0, metadata={"min": 0, "help": "stop after this many trials without improvement; 0 = never"}
    )
    terminator: bool = field(
        default=False, metadata={"help": "stop when little gain is expected (Optuna's Terminator)"}
    )
    seed: int = field(default=0, metadata={"min": 0})
    warm: int = field(default=0, metadata={"min": 0, "help": "number of trials taken from the predicted Pareto front"})
    target: ExportTarget = field(
        default="", metadata={"help": "only formats that this export target holds; empty: all"}
    )
    train: Training = "none"
    finetune: dict[str, Any] = field(default_factory=dict[str, Any])
    begin_at: Literal["source", "best"] = field(
        default="source", metadata={"help": "initial weights: the source's, or those of the best trial"}
    )
    inherit: bool = field(default=True, metadata={"help": "inherit trained weights where shapes allow"})
    score: EvaluateOptions = field(default=EvaluateOptions())


def trains(spec: SearchSpec, recipe: Recipe) -> bool:
    """Whether trials train; their intermediate results are then counted in optimiser steps, else in samples."""
    return spec.train != "none" or any(s.pass_name == "finetune" for s in recipe.steps)
