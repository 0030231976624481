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
    "autosharding_analysis_pass": "shard_plan",
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
# Settings of their solver and of their files with pickled solutions; our plans need none of them.
_OF_THEIR_SOLVER = frozenset({
    "communications_backend", "skip_fully_replicated", "time_limit", "mip_rel_gap", "run_checks", "preload_solution",
    "ilp_solution_file", "skip_forward", "num_params", "benchmarking_device",
})  # fmt: skip
_OURS = {"project_dir": "folder", "top_name": "name"}


def translated(name: str, data: Any) -> Any:
    """Options of MASE's pass `name` as ours takes them."""
    if not isinstance(data, Mapping):
        return data
    if name == "autosharding_analysis_pass":
        return _sharded(data)
    used = {_OURS.get(str(k), str(k)): v for k, v in data.items() if not _says_nothing(str(k), v)}
    return {k: str(v) if k == "folder" else v for k, v in used.items()}


def _sharded(data: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a plan: the first axis of the mesh lies between machines, the last within one."""
    used = {k: v for k, v in data.items() if k not in _OF_THEIR_SOLVER}
    for name in ("algo", "sharding_algo"):
        if used.get(name) == "alpa":  # another one is refused: `shard` has strategies
            del used[name]
    shape = used.pop("mesh_shape", None)
    if isinstance(shape, list | tuple):
        used["mesh"] = "x".join(map(str, shape))
    elif shape is not None:
        used["mesh"] = str(shape)
    between, within = used.pop("inter_node_bandwidth", None), used.pop("intra_node_bandwidth", None)
    if between is not None and within is not None:
        used["rates"] = ",".join(
            f"{float(v):g}" for v in ([between, within] if "x" in used.get("mesh", "x") else [within])
        )
    return used


def _says_nothing(key: str, value: Any) -> bool:
    """`save_path` and `file_name` name a file; None is no file."""
    return key in _MEANS_NOTHING and (key not in ("save_path", "file_name") or value is None)
