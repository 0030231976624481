"""The scripts that start a sharded model's program, and the README beside them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from espalier.passes.export.sharded.plan import TorchPlan

LAUNCH = """\
#!/bin/sh
# Starts {ranks} ranks on this machine. Arguments are those of run.py, such as --batch 16.
set -eu
cd "$(dirname "$0")"
exec torchrun --standalone --nproc-per-node {ranks} run.py "$@"
"""

SLURM = """\
#!/bin/sh
#SBATCH --job-name={job}
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node={local}
#SBATCH --time=00:30:00
# One torchrun per node starts {local} ranks there. Submit it in this folder, which all nodes must see: sbatch slurm.sh
# Remove --gpus-per-node where the nodes have none. Add the account and partition of your cluster.
set -eu
cd "$SLURM_SUBMIT_DIR"
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
port=$((20000 + SLURM_JOB_ID % 20000))
srun torchrun --nnodes {nodes} --nproc-per-node {local} --rdzv-backend c10d --rdzv-id "$SLURM_JOB_ID" \\
    --rdzv-endpoint "$head:$port" run.py "$@"
"""

KUBERNETES = """\
# A PyTorchJob of Kubeflow's training operator: {nodes} pods with {local} ranks each, on NVIDIA GPUs.
# Set the two images and the claim of the volume that has this folder.
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: {job}
spec:
  nprocPerNode: "{local}"
  pytorchReplicaSpecs:
    Master:
      replicas: 1
{pod}{workers}"""

WORKERS = """\
    Worker:
      replicas: {count}
{pod}"""

POD = """\
      restartPolicy: Never
      template:
        spec:
          containers:
            - name: pytorch  # the operator looks for this name
              image: registry.example/torch-transformers:latest  # torch, transformers and safetensors
              command: ["torchrun", "run.py"]
              workingDir: /model
              resources:
                limits:
                  nvidia.com/gpu: {local}
              volumeMounts:
                - name: model
                  mountPath: /model
                - name: shared-memory
                  mountPath: /dev/shm
          volumes:
            - name: model
              persistentVolumeClaim:
                claimName: model
            - name: shared-memory
              emptyDir:
                medium: Memory
"""

ABOUT = """\
A model of transformers ({architecture}), split over a mesh of {mesh} devices.
It runs with torch, transformers and safetensors; Espalier is not needed."""

OWN = """\
A model that is split over a mesh of {mesh} devices. transformers cannot build it, so `run.py` imports Espalier."""

TOKENS = "    ./launch.sh --tokens ids.txt      # a text file with token ids, one sequence per line\n"

README = """\
# {name} on {ranks} devices

{about}
It was written with torch {torch}.

    ./launch.sh                       # {ranks} ranks on this machine
{tokens}\
    sbatch slurm.sh                   # {nodes} {node_word} with {local} {rank_word} each
    kubectl apply -f kubernetes.yaml  # the same as a PyTorchJob

`run.py` prints the time of a forward pass, the sum of the logits and the first of them. `--output F` writes the inputs
and the logits. It uses GPUs and NCCL where torch finds them, else CPUs and gloo.

| file | contents |
|---|---|
| `checkpoint/` | a sharded checkpoint of torch.distributed.checkpoint: a safetensors file per rank{beside} |
| `plan.json` | the mesh, the placement of each parameter per axis, the styles of layers |
| `run.py` | builds the model, splits it, loads the checkpoint and runs a batch |
| `launch.sh`, `slurm.sh`, `kubernetes.yaml` | start it by torchrun |

Weights have their pruned values and are on the grid of their formats. `torch.distributed.checkpoint.load` with
`HuggingFaceStorageReader` reads them at any number of ranks.

## Plan

{summary}

## Differences

{notes}
"""


def scripts(plan: TorchPlan, data: Mapping[str, Any], name: str, notes: Sequence[str]) -> dict[str, str]:
    """File name → text. Nodes are those of the first axis of the mesh if it has two."""
    import torch

    shape = plan.mesh.shape
    nodes, ranks = shape[0] if len(shape) > 1 else 1, plan.mesh.devices
    local, job = ranks // nodes, _job_name(name)
    values = {"ranks": ranks, "nodes": nodes, "local": local, "job": job}
    pod = POD.format(local=local)
    workers = WORKERS.format(count=nodes - 1, pod=pod) if nodes > 1 else ""
    known = bool(data["architecture"])
    readme = README.format(
        **values, name=name, torch=torch.__version__, summary="\n".join(f"- {line}" for line in summary(plan, data)),
        about=(ABOUT if known else OWN).format(mesh=plan.mesh, architecture=data["architecture"]),
        tokens=TOKENS if known else "", beside=", `config.json` and the tokenizer" if known else "; `graph.json` "
        "has the graph", notes="\n".join(f"- {n}" for n in notes) or "Nothing of the model is left out.",
        node_word="node" if nodes == 1 else "nodes", rank_word="rank" if local == 1 else "ranks",
    )  # fmt: skip
    return {
        "launch.sh": LAUNCH.format(**values),
        "slurm.sh": SLURM.format(**values),
        "kubernetes.yaml": KUBERNETES.format(**values, pod=pod, workers=workers),
        "README.md": readme,
    }


def summary(plan: TorchPlan, data: Mapping[str, Any]) -> list[str]:
    """The plan in words."""
    axes = [f"{name} ({size})" for name, size in zip(plan.axes, plan.mesh.shape, strict=True)]
    lines = [f"Axes of the mesh: {', '.join(axes)}. Strategy: {data['strategy']}."]
    if plan.batch_axes:
        lines.append(f"Each rank has a part of the batch along {' and '.join(data['batch_axes'])}.")
    if plan.styles:
        counts = ", ".join(f"{n} {style}" for style, n in Counter(plan.styles.values()).items())
        lines.append(f"Layers split along {data['tensor_axis']}: {counts}.")
    if plan.gathered:
        lines.append(f"{len(plan.gathered)} weights are stored in parts over {' and '.join(data['fsdp']['axes'])} and "
                     "gathered before use (FSDP2).")  # fmt: skip
    split = sum(any(t != "R" for t in texts) for texts in plan.placements.values())
    return [*lines, f"{split} of {len(plan.placements)} tensors are split in the checkpoint."]


def _job_name(name: str) -> str:
    """A name that Kubernetes accepts (RFC 1123)."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:50].strip("-") or "model"
