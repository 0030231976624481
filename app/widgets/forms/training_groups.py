"""The groups of the training options, shared by the panel Training, the form of a step and a search."""

from __future__ import annotations

from espalier.app.translation import tr
from espalier.app.widgets.forms.grouped_form import Group

GROUPS = (
    Group(tr("Data"), ("data",), folded=False),
    Group(tr("Main"), ("epochs", "max_steps", "learning_rate", "batch_size", "keep"), folded=False),
    Group(
        tr("Columns and splits"),
        (
            "train_split",
            "validation_split",
            "text",
            "label",
            "tokenizer",
            "max_length",
            "task",
            "train_limit",
            "validation_limit",
        ),
    ),
    Group(
        tr("Schedule and optimiser"),
        ("schedule", "warm_up", "optimiser", "momentum", "weight_decay", "clip", "accumulation"),
    ),
    Group(tr("Validation and early stopping"), ("validate", "evaluate_every", "patience")),
    Group(tr("Distillation"), ("distil", "temperature", "hidden", "distil*", "hidden*")),
    Group(tr("Gradual pruning"), ("prune*", "sparsity*", "gradual*")),
    Group(tr("Precision"), ("precision",)),
    Group(tr("Several devices"), ("distributed",)),
    Group(tr("Checkpoints"), ("checkpoint_every", "resume")),
)
