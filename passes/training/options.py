"""Options of fine-tuning. No torch, for forms, recipes and the window."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from espalier.model.errors import OptionsError
from espalier.passes.select import Select
from espalier.passes.tasks.base import TASK_OPTION


@dataclass(frozen=True, slots=True)
class FinetuneOptions:
    """Data, duration and hyperparameters; the seed of the step decides the order of samples and the dropout."""

    data: str = field(default="", metadata={"help": "demo:NAME, hub:NAME, a file or a folder", "edit": "data"})
    train_split: str = field(
        default="", metadata={"help": "split to train on; default: train", "edit": "split", "empty": "train"}
    )
    train_limit: int = field(default=0, metadata={"min": 0, "help": "maximum number of them; 0 = all"})
    validate: bool = field(default=True, metadata={"help": "validate at the start and during training"})
    validation_split: str = field(
        default="",
        metadata={
            "help": "validation split; default: validation, else a tenth of the training samples",
            "edit": "split",
            "empty": "validation",
        },
    )
    validation_limit: int = field(default=0, metadata={"min": 0, "help": "maximum number of them; 0 = all"})
    epochs: float = field(
        default=1.0, metadata={"min": 0.01, "max": 1000.0, "help": "number of passes over the samples"}
    )
    max_steps: int = field(default=0, metadata={"min": 0, "help": "optimiser steps instead of epochs; 0 = by epochs"})
    batch_size: int = field(default=32, metadata={"min": 1, "max": 4096, "help": "samples per forward pass"})
    accumulation: int = field(default=1, metadata={"min": 1, "max": 1024, "help": "batches per optimiser step"})
    learning_rate: float = field(default=1e-4, metadata={"min": 1e-8, "max": 10.0, "help": "peak learning rate"})
    schedule: Literal["linear", "cosine", "constant"] = field(
        default="linear", metadata={"help": "schedule of the learning rate"}
    )
    warm_up: float = field(
        default=0.0, metadata={"min": 0.0, "max": 0.9, "help": "fraction of the steps with a rising learning rate"}
    )
    optimiser: Literal["adamw", "sgd", "adafactor"] = field(
        default="adamw", metadata={"help": "AdamW, stochastic gradient descent, or Adafactor, which takes less memory"}
    )
    momentum: float = field(default=0.9, metadata={"min": 0.0, "max": 0.999, "help": "momentum of SGD"})
    weight_decay: float = field(
        default=0.0, metadata={"min": 0.0, "max": 1.0, "help": "not applied to biases, norms, scales"}
    )
    clip: float = field(default=1.0, metadata={"min": 0.0, "help": "maximum norm of the gradient; 0 = no clipping"})
    precision: Literal["float32", "bfloat16", "float16"] = field(
        default="float32", metadata={"help": "arithmetic of the training; weights stay as stored; float16 needs a GPU"}
    )
    freeze: tuple[Select, ...] = field(default=(), metadata={"help": "nodes that are not trained"})
    evaluate_every: int = field(
        default=0, metadata={"min": 0, "help": "optimiser steps between validations; 0 = once per epoch"}
    )
    keep: Literal["auto", "accuracy", "loss", "last"] = field(
        default="auto",
        metadata={"help": "the weights of the best validation, the start's among them (ties: least loss), or the last; "
                  "auto: by accuracy for classes, by loss for other tasks"},
    )  # fmt: skip
    patience: int = field(
        default=0, metadata={"min": 0, "help": "stop after this many evaluations without improvement; 0 = never"}
    )
    distil: float = field(
        default=0.0, metadata={"min": 0.0, "max": 1.0, "help": "share of the loss against the baseline's logits"}
    )
    temperature: float = field(
        default=2.0,
        metadata={"min": 0.1, "max": 100.0, "help": "temperature of both logits; higher weighs other classes more"},
    )
    hidden: float = field(
        default=0.0, metadata={"min": 0.0, "help": "weight of the difference from the baseline's hidden states"}
    )
    prune_to: float = field(
        default=0.0, metadata={"min": 0.0, "max": 1.0, "help": "final sparsity of gradual pruning; 0 = none"}
    )
    prune_method: Literal["l1", "movement", "snip"] = field(
        default="l1",
        metadata={"help": "pruned first: smallest magnitude; movement towards 0; smallest |weight × gradient|"},
    )
    prune_scope: Literal["local", "global"] = field(
        default="local", metadata={"help": "sparsity per weight, or over all weights"}
    )
    prune_select: Select = field(default=Select("all"), metadata={"help": "which nodes"})
    prune_start: float = field(
        default=0.0, metadata={"min": 0.0, "max": 1.0, "help": "fraction of the steps before pruning begins"}
    )
    prune_end: float = field(
        default=0.7, metadata={"min": 0.0, "max": 1.0, "help": "fraction of the steps at which pruning ends"}
    )
    prune_every: int = field(default=10, metadata={"min": 1, "help": "optimiser steps between masks"})
    checkpoint_every: int = field(
        default=0, metadata={"min": 0, "help": "optimiser steps between checkpoints; 0 = about once a minute"}
    )
    resume: bool = field(default=True, metadata={"help": "continue an interrupted run of the same training"})
    distributed: bool = field(
        default=False, metadata={"help": "train by one process per device of the mesh for which the model is sharded"}
    )
    text: str = field(default="", metadata={"help": "name of the text column", "edit": "text"})
    label: str = field(default="", metadata={"help": "name of the label column", "edit": "label"})
    tokenizer: str = field(default="", metadata={"help": "folder of the tokenizer; default: the source's"})
    max_length: int = field(
        default=0, metadata={"min": 0, "help": "maximum length of a text in tokens; 0 = limit of model and tokenizer"}
    )
    task: str = field(default="", metadata=TASK_OPTION)

    def __post_init__(self) -> None:
        for name in ("epochs", "learning_rate"):
            if not getattr(self, name) > 0:
                raise OptionsError(f"{name} is {getattr(self, name)}.", f"{name} must be above 0.")
        if not 0 <= self.distil <= 1 or not self.temperature > 0 or not self.hidden >= 0:
            raise OptionsError("distil must be from 0 to 1, temperature above 0, hidden at least 0.", "Correct it.")
        if not 0 <= self.prune_to <= 1 or self.prune_every < 1:
            raise OptionsError("prune_to must be from 0 to 1, prune_every a whole number from 1.", "Correct it.")
        if not 0 <= self.prune_start < self.prune_end <= 1:
            raise OptionsError(f"prune_start is {self.prune_start:g} and prune_end {self.prune_end:g}.",
                               "They are fractions of the steps: 0 ≤ start < end ≤ 1.")  # fmt: skip
        if self.batch_size < 1 or self.accumulation < 1:
            raise OptionsError("batch_size and accumulation must be whole numbers from 1.", "Write 1 or more.")
        if not 0 <= self.warm_up < 1:
            raise OptionsError(f"warm_up is {self.warm_up}.", "It is a fraction of the steps: at least 0, below 1.")

    @property
    def teaches(self) -> bool:
        """Whether the training distils from the baseline."""
        return self.distil > 0 or self.hidden > 0
