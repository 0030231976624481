"""Exported files of OpenVINO and ExecuTorch beside float ones and the quantiser of the runtime (nncf, XNNPACK's):
alternated runs in one thread, differences, accuracy and bytes, of a perceptron, the digits CNN and the reviews BERT.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

import espalier as es
from tests.benchmarks.record import report

AFFINE = "scaled_integer(granularity=tensor,symmetric=false)"
ROWS = "scaled_integer(symmetric=false)"
GROUPS = "scaled_integer(width=4,granularity=group,group=32,scale_dtype=bfloat16)"
VARIANTS: dict[str, dict[str, str]] = {
    "int8, static": {"weight": "int8", "data_in": AFFINE},
    "7 bits, static": {"weight": "scaled_integer(width=7)", "data_in": AFFINE},
    "int8, dynamic": {"weight": "int8", "data_in": ROWS},
    "int4 in groups of 32, dynamic": {"weight": GROUPS, "data_in": ROWS},
    "int8 weights alone": {"weight": "int8"},
    "int4 weights alone, in groups of 32": {"weight": GROUPS},
}
# (target, model) → variants. Weights of 7 bits do not overflow in OpenVINO on processors without VNNI.
MODELS = {
    ("openvino", "perceptron"): ("int8, static", "7 bits, static", "int8 weights alone"),
    ("openvino", "demo:digits"): ("int8, static", "7 bits, static"),
    ("openvino", "demo:reviews"): (
        "int8, static", "7 bits, static", "int8 weights alone", "int4 weights alone, in groups of 32",
    ),
    ("executorch", "perceptron"): ("int8, static", "int8, dynamic"),
    ("executorch", "demo:digits"): ("int8, static",),
    ("executorch", "demo:reviews"): ("int8, dynamic", "int4 in groups of 32, dynamic", "int8 weights alone"),
}  # fmt: skip


def model(name: str) -> tuple[es.Model, Any]:
    """(model, data)."""
    if name == "demo:digits":
        return es.open(name).fold_batch_norm(), name
    if name != "perceptron":
        return es.open(name), name
    torch.manual_seed(0)
    layers = nn.Linear(768, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    x, y = torch.randn(256, 768), torch.randint(0, 10, (256,))
    return es.trace(nn.Sequential(*layers).eval(), x[:4]), (x, y)


def measured(target: str, name: str, variant: str, folder: Path, runs: int) -> dict[str, Any]:
    """What the check says of a file and its baselines."""
    made, data = model(name)
    made.quantize(["linear", "conv2d"] if name == "demo:digits" else ["linear"], **VARIANTS[variant])
    if "static" in variant:
        made.calibrate(data=data, ports=["data_in"], method="minmax")
    report = made.export(target, folder / "m", check=True, data=data, runs=runs, limit=400)
    kept = ("bytes", "milliseconds", "ratio", "difference", "accuracy", "n", "peak_bytes", "reason")
    rows = {r["name"]: {k: r[k] for k in kept if r[k]} for r in report.summary["check"]["rows"]}
    return {"notes": report.summary["notes"], "max_abs_diff": report.summary["max_abs_diff"], "rows": rows,
            "others": report.summary["check"]["others"], "runtime": report.summary["check"]["runtime"]}  # fmt: skip


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--targets", nargs="+", default=("openvino", "executorch"))
    parser.add_argument("--models", nargs="+", default=("perceptron", "demo:digits", "demo:reviews"))
    parser.add_argument("--variants", nargs="+", choices=tuple(VARIANTS), default=tuple(VARIANTS))
    parser.add_argument("--runs", type=int, default=40)
    args = parser.parse_known_args()[0]
    found: dict[str, Any] = {}
    for (target, name), variants in MODELS.items():
        if target not in args.targets or name not in args.models:
            continue
        for variant in (v for v in variants if v in args.variants):
            with tempfile.TemporaryDirectory() as folder:
                found[f"{target}: {name}, {variant}"] = measured(target, name, variant, Path(folder), args.runs)
    report("runtime_speed", {"threads": 1, "batch": 32, "models": found})


if __name__ == "__main__":
    main()
