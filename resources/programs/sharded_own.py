"""Runs the sharded model of this folder by ranks that torchrun starts (launch.sh). Needs Espalier."""

import argparse
import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from safetensors.torch import save_file
from torch.distributed.device_mesh import init_device_mesh
from torch.utils import _pytree as pytree

from espalier.passes.export.sharded.loading import example_of, load_sharded

HERE = Path(__file__).resolve().parent


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=8, help="samples of all ranks together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="safetensors file for the inputs and the first result")
    args = parser.parse_args()
    plan = json.loads((HERE / "plan.json").read_text(encoding="utf-8"))
    kind = "cuda" if torch.cuda.is_available() else "cpu"
    if kind == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    mesh = init_device_mesh(kind, plan["mesh"]["shape"], mesh_dim_names=plan["mesh"]["axes"])
    model = load_sharded(HERE, mesh)
    inputs = {name: value.to(kind) for name, value in example_of(HERE, args.batch, args.seed).items()}
    with torch.no_grad():
        model(**inputs)  # the first run allocates
        dist.barrier()
        begin = time.perf_counter()
        results = pytree.tree_leaves(model(**inputs))
        dist.barrier()
        seconds = time.perf_counter() - begin
    logits = results[0]
    if dist.get_rank() == 0:
        print(f"{dist.get_world_size()} ranks on {kind}: {seconds * 1e3:.1f} ms for {args.batch} samples")
        print(f"sum {logits.double().sum().item():.6f}, first {[round(x, 5) for x in logits.flatten()[:8].tolist()]}")
        if args.output:
            save_file({"logits": logits.cpu().contiguous(), **{k: v.cpu() for k, v in inputs.items()}}, args.output)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
