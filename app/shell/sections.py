"""The sections of the Model menu and their passes."""

from __future__ import annotations

from espalier.model.registry import PASSES
from espalier.passes.base import PassSpec

# Section → passes, in the order in which they are usually run. Other passes come last.
SECTIONS: dict[str, tuple[str, ...]] = {
    "Quantise": ("quantize", "quantize_preset", "kv_cache"),
    "Calibrate": ("calibrate", "learn_scales"),
    "Recover": ("mse_clip", "rotate", "smoothquant", "awq", "hqq", "gptq", "autoround", "bias_correction"),
    "Train": ("finetune",),
    "Adapt": ("lora", "load_adapter", "take_weights", "fuse_lora", "freeze", "unfreeze"),
    "Prune": ("prune", "prune_structured", "prune_activations", "remove_pruned"),
    "Simplify": ("remove_layers", "replace_linear", "remove_dropout", "fold_batch_norm", "decompose_attention"),
    "Deploy": ("pack_mx",),
    "Hardware": ("hardware_functions", "parallelize", "balance_parallelism"),
}
OTHER = "Other"
# Sections whose passes show their report as a table.
TABULATED = ("Calibrate", "Recover", "Train", "Deploy", "Hardware", OTHER)


def sections() -> dict[str, list[PassSpec]]:
    """The built-in transforms by section of the Model menu."""
    transforms = {n: s for n, s in PASSES.items() if s.kind == "transform"}
    sectioned = {n: title for title, names in SECTIONS.items() for n in names}
    listed = {title: [transforms[n] for n in names if n in transforms] for title, names in SECTIONS.items()}
    return listed | {OTHER: [s for n, s in transforms.items() if n not in sectioned]}


def section_of(name: str) -> str:
    """The section of the Model menu that a pass belongs to."""
    return next((title for title, names in SECTIONS.items() if name in names), OTHER)
