# ruff: noqa
# As students write them for MASE; nothing here knows of Espalier.
import torch
import torch.nn.functional as F
from chop.tools import get_logger
import chop.passes as passes
from chop.ir.graph import MaseGraph
from chop.passes.graph.utils import deepsetattr, get_mase_op

logger = get_logger("mase")


def count_dropout_analysis_pass(mg, pass_args={}):
    dropout_modules = 0
    dropout_functions = 0
    for node in mg.fx_graph.nodes:
        if node.op == "call_module" and "dropout" in node.target:
            logger.info(f"Found dropout module: {node.target}")
            dropout_modules += 1
        else:
            logger.debug(f"Skipping node: {node.target}")
    return mg, {"dropout_count": dropout_modules + dropout_functions}


def remove_dropout_transform_pass(mg, pass_args={}):
    for node in mg.fx_graph.nodes:
        if node.op == "call_module" and "dropout" in node.target:
            parent_node = node.args[0]
            node.replace_all_uses_with(parent_node)
            mg.fx_graph.erase_node(node)
    return mg, {}


def careless_transform_pass(mg, pass_args={}):
    for node in mg.fx_graph.nodes:
        if node.op == "call_module" and "dropout" in node.target:
            mg.fx_graph.erase_node(node)
    return mg, {}


def false_analysis_pass(mg, pass_args={}):
    return remove_dropout_transform_pass(mg, pass_args)


class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.by = torch.nn.Parameter(torch.full((32,), 2.0))

    def forward(self, x):
        return x * self.by


def insert_transform_pass(mg, pass_args={}):
    """Puts a function, a method, a module of the file's own and one of torch behind the first dropout."""
    mg.model.add_submodule("scale", Scale())
    mg.model.add_submodule("more", torch.nn.Linear(32, 32))
    node = next(n for n in mg.fx_graph.nodes if n.op == "call_module" and get_mase_op(n) == "dropout")
    users = list(node.users)
    with mg.fx_graph.inserting_before(node.next):
        new = mg.fx_graph.call_function(F.leaky_relu, (node,), {"negative_slope": pass_args.get("slope", 0.1)})
        new = mg.fx_graph.call_method("abs", (new,))
        new = mg.fx_graph.call_module("scale", (new,))
        new = mg.fx_graph.call_module("more", (new,))
        batch = mg.fx_graph.call_method("size", (new, 0))
        length = mg.fx_graph.call_method("size", (new, 1))
        new = mg.fx_graph.call_method("view", (new, batch, length, 2, -1))
        new = mg.fx_graph.call_function(torch.flatten, (new, 2))
    for user in users:
        user.replace_input_with(node, new)
    return mg, {}


def double_transform_pass(mg, pass_args={}):
    found = [n for n in mg.fx_graph.nodes if n.op == "call_module"]
    linear = [n for n in found if isinstance(mg.modules[n.target], torch.nn.Linear)]
    with torch.no_grad():
        for node in linear:
            mg.modules[node.target].weight.mul_(2)
    return mg, {"linear": len(linear), "norm": torch.tensor(3.0), "matrix": torch.ones(2, 2)}


def exchange_transform_pass(mg, pass_args={}):
    for node in mg.fx_graph.nodes:
        if node.op == "call_module" and "pooler.dense" in node.target:
            deepsetattr(mg.model, node.target, torch.nn.Linear(32, 32))
        if node.op == "call_module" and "query" in node.target:
            mg.modules[node.target].weight = torch.nn.Parameter(torch.zeros(32, 32))
    return mg, {}


def widen_transform_pass(mg, pass_args={}):
    output = next(n for n in mg.fx_graph.nodes if n.op == "output")
    logits = output.all_input_nodes[0]
    with mg.fx_graph.inserting_before(output):
        twice = mg.fx_graph.call_function(torch.cat, ([logits, logits], 1))
    output.replace_input_with(logits, twice)
    return mg, {}


def freeze_transform_pass(mg, pass_args={}):
    for name, parameter in mg.model.named_parameters():
        if "embeddings" in name:
            parameter.requires_grad = False
    return mg, {}


def metadata_analysis_pass(mg, pass_args={}):
    rows = []
    for node in mg.fx_graph.nodes:
        common = node.meta["mase"].parameters["common"]
        assert common is node.meta["mase"]["common"]
        rows.append({"name": node.name, "type": common.get("mase_type"), "op": common.get("mase_op")})
    query = next(n for n in mg.fx_graph.nodes if "query" in str(n.target) and n.op == "call_module")
    found = query.meta["mase"]["common"]
    return mg, {"nodes": rows, "args": found["args"], "results": found["results"]}


def broken_transform_pass(mg, pass_args={}):
    first = pass_args["layers"]
    raise ValueError(f"no layer {first}")


def unavailable_transform_pass(mg, pass_args={}):
    return passes.raise_granularity_transform_pass(mg, pass_args)


def silent_transform_pass(mg, pass_args={}):
    return mg


def mutating_analysis_pass(mg, pass_args={}):
    pass_args["seen"] = True
    return mg, {}


def literal_transform_pass(mg, pass_args={}):
    """Change one argument of a node to an equal one of another type."""
    for node in mg.fx_graph.nodes:
        if str(node.target) == "aten.unsqueeze.default" and node.args[1] == 1:
            node.args = (node.args[0], True)
            break
    return mg, {}
