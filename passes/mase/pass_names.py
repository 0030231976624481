"""MASE's names of passes: which of ours does the same, or that there is nothing to do here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MASE_PASSES = {
    "quantize_transform_pass": "quantize",
    "quantize_module_transform_pass": "quantize",
    "prune_transform_pass": "prune",
    "insert_lora_adapter_transform_pass": "lora",
    "fuse_lora_weights_transform_pass": "fuse_lora",
    "conv_bn_fusion_transform_pass": "fold_batch_norm",
    "report_trainable_parameters_analysis_pass": "trainable",
    "report_graph_analysis_pass": "graph",
    "report_node_type_analysis_pass": "types",
    "report_node_shape_analysis_pass": "shapes",
    "report_node_meta_param_analysis_pass": "types",
    "profile_statistics_analysis_pass": "statistics",
    "summarize_quantization_analysis_pass": "quantization",
    "calculate_avg_bits_mg_analysis_pass": "cost",
    "calculate_avg_bits_module_analysis_pass": "cost",
    "add_natural_sparsity_metadata_analysis_pass": "sparsity",
    "emit_verilog_top_transform_pass": "hardware",
}

# Metadata are on every node always, masks are no hooks, and `hardware` writes all files of a design at once.
NOTHING = frozenset({
    "init_metadata_analysis_pass",
    "add_common_metadata_analysis_pass",
    "add_software_metadata_analysis_pass",
    "add_hardware_metadata_analysis_pass",
    "add_pruning_metadata_analysis_pass",
    "add_movement_metadata_analysis_pass",
    "verify_metadata_analysis_pass",
    "verify_common_metadata_analysis_pass",
    "verify_software_metadata_analysis_pass",
    "verify_hardware_metadata_analysis_pass",
    "metadata_value_type_cast_transform_pass",
    "prune_detach_hook_transform_pass",
    "emit_internal_rtl_transform_pass",
    "emit_bram_transform_pass",
})  # fmt: skip

# Options of theirs that say what holds here anyway, or hand over objects that our passes do not need.
_MEANS_NOTHING = frozenset({"dummy_in", "add_value", "force_device_meta", "input_generator", "save_path", "file_name"})
_OURS = {"project_dir": "folder", "top_name": "name"}


def translated(name: str, data: Any) -> Any:
    """Options of MASE's pass `name` as ours takes them."""
    if not isinstance(data, Mapping):
        return data
    used = {_OURS.get(str(k), str(k)): v for k, v in data.items() if not _says_nothing(str(k), v)}
    return {k: str(v) if k == "folder" else v for k, v in used.items()}


def _says_nothing(key: str, value: Any) -> bool:
    """`save_path` and `file_name` name a file; None is no file."""
    return key in _MEANS_NOTHING and (key not in ("save_path", "file_name") or value is None)
