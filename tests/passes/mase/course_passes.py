# ruff: noqa
# What MASE's tutorials do, in one pass each; nothing here knows of Espalier.
from chop import MaseGraph, passes
from chop.tools import get_tokenized_dataset, get_trainer
from chop.passes.module import report_trainable_parameters_analysis_pass

quantization_config = {
    "by": "type",
    "default": {"config": {"name": None}},
    "linear": {
        "config": {
            "name": "integer",
            "data_in_width": 8,
            "data_in_frac_width": 4,
            "weight_width": 8,
            "weight_frac_width": 4,
            "bias_width": 8,
            "bias_frac_width": 4,
        }
    },
}
pruning_config = {"weight": {"sparsity": 0.5, "method": "l1-norm", "scope": "local"}}


def compress_transform_pass(mg, pass_args={}):
    mg, _ = passes.init_metadata_analysis_pass(mg)
    mg, _ = passes.add_common_metadata_analysis_pass(mg, pass_args={"dummy_in": object(), "add_value": False})
    mg, _ = passes.quantize_transform_pass(mg, pass_args=quantization_config)
    mg, pruned = passes.prune_transform_pass(mg, pass_args=pruning_config)
    return mg, {"pruned": len(pruned["rows"])}


def adapt_transform_pass(mg, pass_args={}):
    model = mg.model
    mg, _ = passes.insert_lora_adapter_transform_pass(mg, pass_args={"rank": 6, "alpha": 1.0, "dropout": 0.5})
    _, report = report_trainable_parameters_analysis_pass(mg.model)
    counted = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return mg, {"reported": report["trainable"], "counted": counted, "same": model is mg.model}


def fuse_transform_pass(mg, pass_args={}):
    mg, _ = passes.insert_lora_adapter_transform_pass(mg, pass_args={"rank": 2})
    mg, _ = passes.fuse_lora_weights_transform_pass(mg)
    return mg, {}


def keep_transform_pass(mg, pass_args={}):
    """Remove dropouts by hand, draw and export that, quantise, then go back to what was exported."""
    for node in list(mg.fx_graph.nodes):
        if node.op == "call_module" and "dropout" in node.target:
            node.replace_all_uses_with(node.args[0])
            mg.fx_graph.erase_node(node)
    mg.draw(pass_args["folder"] + "/graph.svg")
    mg.export(pass_args["folder"] + "/kept.pt")
    mg, _ = passes.quantize_transform_pass(mg, pass_args=quantization_config)
    return MaseGraph.from_checkpoint(pass_args["folder"] + "/kept"), {}


def foreign_transform_pass(mg, pass_args={}):
    return MaseGraph.from_checkpoint(pass_args["folder"] + "/theirs"), {}


def train_transform_pass(mg, pass_args={}):
    from datasets import load_dataset

    files = {k: pass_args["folder"] + f"/{k}.csv" for k in ("train", "test")}
    dataset = load_dataset("csv", data_files=files)
    trainer = get_trainer(model=mg.model, tokenized_dataset=dataset, evaluate_metric="accuracy", num_train_epochs=2)
    mg, _ = passes.quantize_transform_pass(mg, pass_args=quantization_config)
    before = trainer.evaluate()
    trainer.train()
    return mg, {"before": before["eval_accuracy"], "after": trainer.evaluate()["eval_accuracy"]}
