"""Exported GGUF files in llama.cpp beside float ones and llama.cpp's own quantiser: alternated runs in one thread,
differences of log-probabilities, accuracy of the next token and bytes, of the stories and of a random Llama.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch

import espalier as es
from espalier.model.data.demo import STORIES
from tests.benchmarks.record import report

GROUPS = "scaled_integer(width={},granularity=group,group=32,scale_dtype=float16)"
FORMATS = {"Q8_0": GROUPS.format(8), "Q5_0": GROUPS.format(5), "Q4_0": GROUPS.format(4), "MXFP4": "mxfp(element=e2m1)"}
MODELS = ("demo:stories", "random")
KEPT = ("bytes", "milliseconds", "ratio", "difference", "accuracy", "interval", "n", "peak_bytes", "reason")


def random_llama(home: Path) -> Path:
    """23.1 million parameters: 6 layers of width 512, a vocabulary of 4 000 with the tokenizer of the stories."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=4000, hidden_size=512, intermediate_size=1376, num_hidden_layers=6,
                         num_attention_heads=8, num_key_value_heads=8, max_position_embeddings=512,
                         bos_token_id=None, eos_token_id=0)  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(home)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(STORIES / name, home / name)
    return home


def measured(name: str, form: str, folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """What the check says of a file and its baselines."""
    made = es.open(name if name != "random" else random_llama(folder / "home"))
    made.quantize("linear", weight=FORMATS[form])
    made.quantize("embedding", weight=FORMATS[form])
    data = {"data": name, "limit": args.limit} if name != "random" else {}
    done = made.export("gguf", folder / "m", check=True, runs=args.runs, batch_size=args.batch, **data)
    rows = {r["name"]: {k: r[k] for k in KEPT if r[k]} for r in done.summary["check"]["rows"]}
    return {"notes": done.summary["notes"], "rows": rows, "others": done.summary["check"]["others"],
            "runtime": done.summary["check"]["runtime"]}  # fmt: skip


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--formats", nargs="+", choices=tuple(FORMATS), default=tuple(FORMATS))
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--limit", type=int, default=40)
    args = parser.parse_known_args()[0]
    found: dict[str, Any] = {}
    for name in args.models:
        for form in args.formats:
            with tempfile.TemporaryDirectory() as folder:
                found[f"{name}, {form}"] = measured(name, form, Path(folder), args)
    report("gguf_speed", {"threads": 1, "batch": args.batch, "models": found})


if __name__ == "__main__":
    main()
