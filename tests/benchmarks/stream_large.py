"""Peak memory and time of streaming a random Llama in bfloat16: rounded or by GPTQ, scored, and written.

`python -m tests.benchmarks.stream_large --size 7b --method round --folder /tmp`; 7b takes 13.5 GB on the disk.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from tests.benchmarks.record import report
from tests.language_models import text_of, write_tokenizer

SIZES: dict[str, tuple[int, int, int, int]] = {  # width, layers, intermediate width, heads
    "tiny": (256, 4, 768, 4), "300m": (1024, 16, 2816, 16), "1b": (2048, 16, 5632, 32), "7b": (4096, 32, 11008, 32),
}  # fmt: skip
VOCABULARY, GROUP, TOKENS = 32000, 128, 64
Shapes = dict[str, tuple[int, ...]]


def shapes_of(size: str) -> Iterator[Shapes]:
    """Name → shape of the tensors of each shard: embedding, layers, norm and head."""
    width, layers, inner, _ = SIZES[size]
    yield {"model.embed_tokens.weight": (VOCABULARY, width)}
    for i in range(layers):
        at = f"model.layers.{i}."
        yield {
            **{f"{at}self_attn.{n}_proj.weight": (width, width) for n in "qkvo"},
            **{f"{at}mlp.{n}_proj.weight": (inner, width) for n in ("gate", "up")},
            f"{at}mlp.down_proj.weight": (width, inner),
            **{f"{at}{n}_layernorm.weight": (width,) for n in ("input", "post_attention")},
        }
    yield {"model.norm.weight": (width,), "lm_head.weight": (VOCABULARY, width)}


def write_folder(home: Path, size: str) -> int:
    """Write a random model shard by shard, with a tokenizer; returns the bytes of its weights."""
    from transformers import LlamaConfig

    width, layers, inner, heads = SIZES[size]
    config = LlamaConfig(vocab_size=VOCABULARY, hidden_size=width, intermediate_size=inner, num_hidden_layers=layers,
                         num_attention_heads=heads, num_key_value_heads=heads, dtype="bfloat16",
                         architectures=["LlamaForCausalLM"])  # fmt: skip
    write_tokenizer(home)
    config.save_pretrained(home)
    shards, weight_map, total = list(shapes_of(size)), dict[str, str](), 0
    generator = torch.Generator().manual_seed(0)
    for number, shapes in enumerate(shards):
        name = f"model-{number + 1:05d}-of-{len(shards):05d}.safetensors"
        tensors = {
            k: torch.empty(s, dtype=torch.bfloat16).normal_(0, 0.02, generator=generator) if len(s) == 2
            else torch.ones(s, dtype=torch.bfloat16)
            for k, s in shapes.items()
        }  # fmt: skip
        save_file(tensors, home / name, {"format": "pt"})
        weight_map |= dict.fromkeys(tensors, name)
        total += sum(2 * t.numel() for t in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (home / "model.safetensors.index.json").write_text(json.dumps(index))
    return total


def command(home: Path, out: Path, method: str, windows: int) -> list[str]:
    """`espalier stream` in a process of its own."""
    text = home.parent / "text.txt"
    text.write_text(text_of(4000), encoding="utf-8")
    words = [sys.executable, "-m", "espalier", "stream", str(home), "--json", "--no-baseline", "--data", str(text),
             "--max-length", str(TOKENS), "--limit", str(windows), "--batch-size", str(windows)]  # fmt: skip
    if method == "score":
        return words
    recipe: dict[str, Any] = {"quantize_preset": {"preset": "w4a16_g128"}}
    if method == "gptq":
        recipe["gptq"] = {"data": str(text), "max_length": TOKENS, "limit": 4 * windows, "batch_size": windows}
    file = home.parent / "recipe.json"
    file.write_text(json.dumps(recipe))
    return [*words[:5], str(file), "-o", str(out), *words[5:]]


def main() -> None:
    """Write the folder, run the command once, and report the high-water mark of its process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", choices=tuple(SIZES), default="1b")
    parser.add_argument("--method", choices=("score", "round", "gptq"), default="round")
    parser.add_argument("--windows", type=int, default=2)
    parser.add_argument("--folder", default=None)
    args, _ = parser.parse_known_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as place:
        home, out = Path(place) / "model", Path(place) / "out"
        home.mkdir()
        begun = time.perf_counter()
        total = write_folder(home, args.size)
        making = time.perf_counter() - begun
        run = subprocess.run(command(home, out, args.method, args.windows), capture_output=True, text=True, check=False,
                             env=os.environ | {"ESPALIER_CACHE": str(Path(place) / "cache")})  # fmt: skip
        if run.returncode:
            sys.exit(run.stderr)
        done = json.loads(run.stdout)
        idle = subprocess.run([sys.executable, "-c", IDLE], capture_output=True, text=True, check=True)
        base = int(idle.stdout)
        report(f"stream_large_{args.size}_{args.method}", {
            "weights_gb": total / 1e9, "written_gb": done["bytes"] / 1e9, "segments": done["segments"],
            "largest_segment_gb": done["largest"] / 1e9, "peak_gb": done["peak_bytes"] / 1e9,
            "libraries_gb": base / 1e9, "peak_over_largest": (done["peak_bytes"] - base) / done["largest"],
            "peak_over_weights": done["peak_bytes"] / total, "seconds": done["seconds"],
            "seconds_to_write_model": making,
            "tokens": done["after"]["n"], "loss": done["after"]["loss"],
        })  # fmt: skip


IDLE = """
import resource
import torch, transformers, compressed_tensors, torch.export, transformers.models.llama.modeling_llama
import espalier.passes.streaming.job
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""

if __name__ == "__main__":
    main()
