"""The groups of the training options, shared by the panel Training, the form of a step and a search."""

from __future__ import annotations

from espalier.app.widgets.forms.grouped_form import Group

GROUPS = (
    Group("Data", ("data",), folded=False),
    Group("Main", ("epochs", "max_steps", "learning_rate", "batch_size", "keep"), folded=False),
    Group("Columns and splits", ("train_split", "validation_split", "text", "label", "tokenizer", "max_length", "task",
                                 "train_limit", "validation_limit")),
    Group("Schedule and optimiser", ("schedule", "warm_up", "optimiser", "momentum", "weight_decay", "clip",
                                     "accumulation")),
    Group("Validation and early stopping", ("validate", "evaluate_every", "patience")),
    Group("Distillation", ("distil", "temperature", "hidden", "distil*", "hidden*")),
    Group("Gradual pruning", ("prune*", "sparsity*", "gradual*")),
    Group("Precision", ("precision",)),
    Group("Several devices", ("distributed",)),
    Group("Checkpoints", ("checkpoint_every", "resume")),
)  # fmt: skip
