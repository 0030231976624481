"""The sections of the Model menu and their passes."""

from __future__ import annotations

from espalier.model.registry import PASSES
from espalier.passes.base import PassSpec

# The Model menu: section → passes in the order in which they are usually run. What is not named here comes last.
SECTIONS: dict[str, tuple[str, ...]] = {
    "Quantise": ("quantize",),
    "Calibrate": ("calibrate", "learn_scales"),
    "Recover": ("mse_clip", "smoothquant", "gptq", "bias_correction"),
    "Train": ("finetune",),
    "Adapt": ("lora", "load_adapter", "take_weights", "fuse_lora", "freeze", "unfreeze"),
    "Prune": ("prune", "prune_structured", "prune_activations", "remove_pruned"),
    "Simplify": ("remove_layers", "replace_linear", "remove_dropout", "fold_batch_norm", "decompose_attention"),
    "Deploy": ("pack_mx",),
    "Hardware": ("hardware_functions", "parallelize", "balance_parallelism"),
}
OTHER = "Other"
# Sections whose passes' reports are shown as a table.
TOLD = ("Calibrate", "Recover", "Train", "Deploy", "Hardware", OTHER)


def sections() -> dict[str, list[PassSpec]]:
    """The transforms of the program itself by section of the Model menu."""
    found = {n: s for n, s in PASSES.items() if s.kind == "transform"}
    named = {n: title for title, names in SECTIONS.items() for n in names}
    listed = {title: [found[n] for n in names if n in found] for title, names in SECTIONS.items()}
    return listed | {OTHER: [s for n, s in found.items() if n not in named]}


def section_of(name: str) -> str:
    """The section of the Model menu that a pass belongs to."""
    return next((title for title, names in SECTIONS.items() if name in names), OTHER)
