"""Exported ONNX files beside float ones and onnxruntime's own quantisers: alternated runs in one thread, accuracy and
bytes, of a perceptron, the digits CNN and the reviews BERT with calibrated int8.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

import espalier as es
from tests.benchmarks.record import report

AFFINE = "scaled_integer(granularity=tensor,symmetric=false)"
ROUNDS, FLOAT_TARGET, OWN_TARGET, BYTES_TARGET = 5, 0.8, 1.0, 1.05
QUANTISERS = ("quantize_static", "quantize_dynamic")
VARIANTS: dict[str, tuple[str, bool]] = {"uint8 static": (AFFINE, True), "uint8 from the data": (AFFINE, False)}


def models() -> dict[str, tuple[es.Model, Any]]:
    """Name → (model, data)."""
    torch.manual_seed(0)
    perceptron = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    x, y = torch.randn(256, 784), torch.randint(0, 10, (256,))
    return {
        "perceptron 784-512-512-10": (es.trace(perceptron.eval(), x[:4]), (x, y)),
        "demo:digits": (es.open("demo:digits").fold_batch_norm(), "demo:digits"),
        "demo:reviews": (es.open("demo:reviews"), "demo:reviews"),
    }


def row(check: dict[str, Any], rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """The medians of the rounds' ratios, and what does not vary."""
    rows = {r["name"]: r for r in check["rows"]}
    times = [{r["name"]: r["milliseconds"] for r in c["rows"]} for c in rounds]
    own = {q: [t["this file"] / t[q] for t in times] for q in QUANTISERS if times[0].get(q)}
    best = min(own, key=lambda q: statistics.median(t[q] for t in times))
    return {
        "of_float": round(statistics.median(t["this file"] / t["float"] for t in times), 3),
        "of_quantiser": round(statistics.median(own[best]), 3), "quantiser": best,
        "quantiser_of_float": round(statistics.median(t[best] / t["float"] for t in times), 3),
        "ms": round(statistics.median(t["this file"] for t in times), 4),
        "of_packed_bytes": round(rows["this file"]["bytes"] / check["packed_bytes"], 3),
        "bytes": rows["this file"]["bytes"],
        "accuracy": {n: rows[n]["accuracy"] for n in ("Espalier", "this file", "float", best)},
        "n": rows["this file"]["n"], "difference": rows["this file"]["difference"],
        "others": [c["others"] for c in rounds],
        "target": {"of_float": FLOAT_TARGET, "of_quantiser": OWN_TARGET, "of_packed_bytes": BYTES_TARGET},
    }  # fmt: skip


def main() -> None:
    """Print the figures as JSON."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (model, data) in models().items():
            for variant, (fmt, static) in VARIANTS.items():
                if name == "demo:digits" and not static:
                    continue  # onnxruntime has no fast convolution with scales from the data
                made = model.copy().quantize(["linear"] if name != "demo:digits" else ["linear", "conv2d"],
                                             weight="int8", data_in=fmt)  # fmt: skip
                if static:
                    made.calibrate(data=data, ports=["data_in"], method="minmax")
                given = {"check": True, "data": data, "runs": 40, "limit": 400}
                path = Path(folder) / "m.onnx"
                rounds = [made.export("onnx", path, **given).summary["check"] for _ in range(ROUNDS)]
                found[f"{name}, {variant}"] = row(rounds[0], rounds)
    report("onnx_speed", {"runtime": rounds[0]["runtime"], "threads": 1, "batch": 32, "models": found})


if __name__ == "__main__":
    main()
