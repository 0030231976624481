"""Runs the sharded model of this folder by ranks that torchrun starts (launch.sh). Needs torch and transformers."""

import argparse
import json
import os
import time
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import transformers
from safetensors.torch import save_file
from torch import nn
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

HERE = Path(__file__).resolve().parent
STYLES = {  # mostly named as in the tp_plan of transformers
    "colwise": ColwiseParallel(),
    "colwise_gather_output": ColwiseParallel(output_layouts=Replicate()),
    "rowwise": RowwiseParallel(),
    "rowwise_split_input": RowwiseParallel(input_layouts=Replicate()),
}


def created(kind, config):
    """The model with parameters that take no memory; buffers, which are computed, are real."""
    register = nn.Module.register_parameter

    def on_meta(module, name, value):
        if value is not None and not value.is_meta:  # a tied parameter is on meta already and stays the same one
            value = nn.Parameter(value.to("meta"), value.requires_grad)
        register(module, name, value)

    nn.Module.register_parameter = on_meta
    model = kind(config).eval()
    nn.Module.register_parameter = register
    return model


def build(plan, mesh, device):
    """The model with this rank's parts of the weights."""
    config = transformers.AutoConfig.from_pretrained(HERE / "checkpoint", trust_remote_code=False)
    kind = getattr(transformers, plan["architecture"])  # one of transformers' own classes, nothing else
    if not issubclass(kind, transformers.PreTrainedModel):
        raise SystemExit(f"{plan['architecture']} is no model of transformers.")
    torch.set_default_dtype(config.dtype or torch.float32)
    model = created(kind, config)
    tied = {}  # parameter → its names; splitting would make different parameters of them
    for name, value in model.named_parameters(remove_duplicate=False):
        tied.setdefault(id(value), []).append(name)

    # Tensor parallelism: layers that compute on columns or rows of their weights.
    if plan["tp_plan"]:
        styles = {pattern: STYLES[style] for pattern, style in plan["tp_plan"].items()}
        parallelize_module(model, mesh[plan["tensor_axis"]], styles)
    # Fully sharded data parallelism: weights stored in parts and gathered before use.
    axes, dims = plan["fsdp"]["axes"], plan["fsdp"]["dims"]
    if dims:
        names = {value: name for name, value in model.named_parameters()}
        whole = {value for value, name in names.items() if name not in dims}
        grid = mesh[axes[0]] if len(axes) == 1 else mesh[tuple(axes)]._flatten("all")
        options = {"mesh": grid, "shard_placement_fn": lambda value: Shard(dims[names[value]]), "ignored_params": whole}
        lists = [m for m in model.modules() if isinstance(m, nn.ModuleList)]
        for block in [b for m in lists for b in m if not set(lists) & set(b.modules())]:
            if set(block.parameters()) - whole:
                fully_shard(block, **options)
        fully_shard(model, **options)
    # Data parallelism needs nothing here: each rank has whole weights. For training, average the gradients (DDP).

    buffers = {name: value.clone() for name, value in model.named_buffers()}
    model.to_empty(device=device)
    for name, value in model.named_buffers():
        value.copy_(buffers[name])
    for first, *others in tied.values():
        for name in others:  # to_empty has made parameters of their own
            setattr(model.get_submodule(name.rpartition(".")[0]), name.rpartition(".")[2], model.get_parameter(first))
    aliases = {name for names in tied.values() for name in names[1:]}
    stored = {name: value for name, value in model.state_dict().items() if name not in aliases}
    # Each rank reads its own parts, so that nothing is exchanged (no_dist), of which torch warns.
    warnings.filterwarnings("ignore", "torch.distributed is disabled")
    dcp.load(stored, storage_reader=HuggingFaceStorageReader(str(HERE / "checkpoint")), no_dist=True)
    return model


def batch_of(plan, model, args, device):
    """Token ids of a file (one sequence a line), or random inputs that are equal on all ranks."""
    torch.manual_seed(args.seed)
    rows = [[int(t) for t in line.split()] for line in args.tokens.read_text().splitlines()] if args.tokens else []
    if len({len(r) for r in rows}) > 1:
        raise SystemExit("The sequences of the file have different lengths; write one length.")
    inputs = {}
    for name, (dtype, shape) in plan["inputs"].items():
        if dtype.startswith("int") or dtype == "bool":
            size = [len(rows), len(rows[0])] if rows else [args.batch, *(shape[1:] and [args.length or shape[1]])]
            fill = torch.zeros(size, dtype=torch.long)
            if name.endswith("input_ids"):
                fill = torch.tensor(rows) if rows else torch.randint(0, model.config.vocab_size, size)
            inputs[name] = fill + 1 if name.endswith("mask") else fill
        else:
            inputs[name] = torch.randn(args.batch, *shape[1:], dtype=getattr(torch, dtype))
    return {name: value.to(device) for name, value in inputs.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=8, help="samples of all ranks together")
    parser.add_argument("--length", type=int, default=0, help="tokens of a sequence (default: as the model was opened)")
    parser.add_argument("--tokens", type=Path, help="text file with token ids, one sequence per line")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="safetensors file for the inputs and the logits")
    args = parser.parse_args()
    plan = json.loads((HERE / "plan.json").read_text(encoding="utf-8"))
    kind = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(kind, int(os.environ["LOCAL_RANK"]) if kind == "cuda" else None)
    torch.cuda.set_device(device) if kind == "cuda" else None
    mesh = init_device_mesh(kind, plan["mesh"]["shape"], mesh_dim_names=plan["mesh"]["axes"])
    model = build(plan, mesh, device)
    whole = batch_of(plan, model, args, device)
    axes, part, parts = plan["batch_axes"], 0, 1
    for axis in axes:  # along these each rank has a part of the batch
        part, parts = part * mesh[axis].size() + mesh[axis].get_local_rank(), parts * mesh[axis].size()
    samples = len(next(iter(whole.values())))
    if samples % parts:
        raise SystemExit(f"A batch of {samples} cannot be split evenly into {parts} parts; use a multiple of {parts}.")
    inputs = {name: value.chunk(parts)[part] for name, value in whole.items()}
    with torch.no_grad():
        model(**inputs)[0].clone()  # the first run allocates; copying waits for collectives
        dist.barrier()
        begin = time.perf_counter()
        logits = model(**inputs)[0].clone()
        dist.barrier()
        seconds = time.perf_counter() - begin
    if axes:
        logits = DTensor.from_local(logits, mesh[tuple(axes)], [Shard(0)] * len(axes)).full_tensor()  # all samples
    if dist.get_rank() == 0:
        print(f"{dist.get_world_size()} ranks on {kind}: {seconds * 1e3:.1f} ms for {samples} samples")
        print(f"sum {logits.double().sum().item():.6f}, first {[round(x, 5) for x in logits.flatten()[:8].tolist()]}")
        if args.output:
            save_file({"logits": logits.cpu().contiguous(), **{k: v.cpu() for k, v in whole.items()}}, args.output)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
