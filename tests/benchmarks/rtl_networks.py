"""Whole networks in hardware, simulated by Verilator under three patterns of pauses, every beat of every stream
compared; cycles against the schedule; accuracy from the RTL's own outputs beside the float model's.

`--only NAME …` runs some networks and leaves the kept figures of the others, `--vectors N` fewer vectors.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from espalier.model.opening import Opened, open_any
from espalier.model.torch.build import build as build_module
from espalier.model.trust import Origin
from espalier.passes.base import Context, run_step
from espalier.passes.recipes.config import load_recipe
from espalier.passes.running.splits import EvaluateOptions, load_split
from espalier.verilog.design.netlist import Design
from espalier.verilog.design.options import EmitOptions
from espalier.verilog.design.template import total
from espalier.verilog.emulation.integer_model import Host, IntegerModel, structured, tensors
from espalier.verilog.lowering.lower import lower
from espalier.verilog.numbers.fixed import Codes
from espalier.verilog.proof.simulate import Built, build, run
from espalier.verilog.timing.schedule import schedule
from tests.benchmarks.record import RESULTS, report

AT_ONCE = 100  # vectors of a run; it divides all numbers of vectors above it
STALLS = (0, 1, 3)  # nobody pauses, inputs pause, both sides pause
Inputs = tuple[dict[str, Tensor], Tensor | None]  # by name; and the labels of the first of them


@dataclass(frozen=True, slots=True)
class Network:
    """What is emitted: a source, the steps before, the inputs, and how many outputs are a test of accuracy."""

    source: Callable[[Path], str]
    steps: tuple[dict[str, Any], ...]
    inputs: Callable[[int], Inputs]
    vectors: int
    sizes: str = ""


def fixed(width: int, select: list[str], **formats: str) -> dict[str, Any]:
    """The step that gives ops of some types fixed-point formats."""
    chosen = {"data_in": f"integer(width={width}, frac_width=4)", "weight": f"integer(width={width}, frac_width=6)",
              "bias": f"integer(width={width + 4}, frac_width=8)", **formats}  # fmt: skip
    return {"pass": "quantize", "options": {"rules": [{"select": {"by": "type", "values": select}, "formats": chosen}]}}


def balance(multipliers: int, sizes: str = "") -> dict[str, Any]:
    """The step that spends products a cycle where the time goes."""
    return {"pass": "balance_parallelism", "options": {"multipliers": multipliers, "sizes": sizes}}


def digits(vectors: int) -> Inputs:
    """The test images first, then those of training."""
    from espalier.model.data.digits import load_digits

    splits = load_digits()
    x = np.concatenate([splits[name].inputs["x"] for name in ("test", "validation", "train")])
    return {"x": torch.from_numpy(x[:vectors])}, torch.from_numpy(splits["test"].labels)


TAGGER = """
import torch
from torch import nn

def make():
    torch.manual_seed(0)
    sizes, layers = (16, 64, 32, 32, 5), []
    for i, o in zip(sizes, sizes[1:]):
        layers += [nn.Linear(i, o), nn.ReLU()]
    return nn.Sequential(*layers[:-1]).eval(), {"input": torch.randn(2, 16)}
"""


def tagger(folder: Path) -> str:
    """The layers of the published jet tagger, 16-64-32-32-5, with random weights: its data is not here."""
    path = folder / "tagger.py"
    path.write_text(TAGGER)
    return f"{path}:make"


VIT = """
import torch
from torch import nn
from torch.nn import functional as F

class Block(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out, self.up, self.down = nn.Linear(width, width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, s, d = x.shape
        n = self.norm1(x)
        parts = (f(n).view(b, s, self.heads, -1).transpose(1, 2) for f in (self.query, self.key, self.value))
        a = F.scaled_dot_product_attention(*parts).transpose(1, 2).reshape(b, s, d)
        x = x + self.out(a)
        return x + self.down(F.gelu(self.up(self.norm2(x))))

class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(1, 32, 2, stride=2)
        self.block, self.norm, self.head = Block(), nn.LayerNorm(32), nn.Linear(32, 10)

    def forward(self, x):
        x = self.block(self.patches(x).flatten(2).transpose(1, 2))
        return self.head(self.norm(x[:, 0]))

def make():
    torch.manual_seed(0)
    return ViT().eval(), {"x": torch.rand(2, 1, 8, 8)}
"""


def vit(folder: Path) -> str:
    """One block of a vision transformer on the digits' patches, with random weights."""
    path = folder / "vit.py"
    path.write_text(VIT)
    return f"{path}:make"


def reviews(vectors: int) -> Inputs:
    """The test sentences, each 24 tokens with its padding."""
    with tempfile.TemporaryDirectory() as folder:
        context = Context(open_any("demo:reviews", Path(folder)).store)
        split = load_split(EvaluateOptions("demo:reviews", "test", vectors, max_length=24), context)
    found = {name: torch.from_numpy(values) for name, values in split.inputs.items()}
    return found, torch.from_numpy(split.labels)


def integer(width: int, frac: int = 4) -> str:
    """A fixed-point format as recipes write it."""
    return f"integer(width={width}, frac_width={frac})"


def attention(adds: str) -> tuple[dict[str, Any], ...]:
    """8 bits for what is multiplied, 10 and 12 where rows are normalised and branches meet."""
    wide = integer(12, 6)
    norm = {"data_in": wide, "weight": integer(10), "bias": integer(10), "data_out": wide}
    meet = {"select": {"by": "regex", "values": [adds]}, "formats": {"data_in": wide}}
    return (
        {"pass": "decompose_attention"},
        fixed(8, ["linear", "conv2d"], bias=integer(16, 8)),
        *({"pass": "quantize", "options": {"rules": [{"select": {"by": "type", "values": types}, "formats": formats}]}}
          for types, formats in (
            (["matmul"], {"data_in": integer(8), "weight": integer(8)}), (["softmax"], {"data_in": integer(10)}),
            (["gelu"], {"data_in": integer(8)}), (["layer_norm"], norm))),
        {"pass": "quantize", "options": {"rules": [meet]}},
    )  # fmt: skip


def config(kind: str, options: str) -> Callable[[Path], str]:
    """An untrained transformer of one layer, 32 wide, as the library writes it."""
    return lambda _: f"config:{kind}?{options}&vocab_size=64"


def tokens(vectors: int) -> Inputs:
    """Random sentences of 8 tokens, some of their ends masked."""
    rng = torch.Generator().manual_seed(0)
    mask = (torch.arange(8) < torch.randint(1, 9, (vectors, 1), generator=rng)).long()
    return {"input_ids": torch.randint(0, 64, (vectors, 8), generator=rng), "attention_mask": mask}, None


def written(adds: str, *more: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """Formats for weights as they are drawn; `adds`: where branches meet."""
    norm = {"data_in": integer(10, 6), "weight": integer(8, 5), "bias": integer(8, 5), "data_out": integer(9, 5)}
    through = {"data_in": integer(8, 5), "data_out": integer(8, 5)}
    chosen = (
        ("type", "linear", {"data_in": integer(8, 5), "weight": integer(8, 9), "bias": integer(12, 8)}),
        ("type", "matmul", {"data_in": integer(8, 5), "weight": integer(8, 5)}),
        ("type", "softmax", {"data_in": integer(9, 5)}), ("type", "gelu", through), ("type", "silu", through),
        ("type", "layer_norm", norm), ("regex", adds, {"data_in": integer(10, 6)}),
    )  # fmt: skip
    rules = [{"select": {"by": by, "values": [v]}, "formats": f} for by, v, f in chosen if v in PRESENT[adds]]
    return {"pass": "quantize", "options": {"rules": [*rules, *more]}}, balance(256, "seq=8")


LLAMA_ADDS, GPT2_ADDS, BERT_ADDS = "^add_[79]$", "^add_[58]$", ""
PRESENT = {
    LLAMA_ADDS: ("linear", "matmul", "softmax", "silu", LLAMA_ADDS),
    GPT2_ADDS: ("linear", "matmul", "softmax", "layer_norm", GPT2_ADDS),
    BERT_ADDS: ("linear", "matmul", "softmax", "layer_norm", "gelu"),
}
PARTS = {"pass": "decompose_attention"}
WRITTEN: dict[str, Network] = {
    "Llama block": Network(
        config("llama", "num_hidden_layers=1&hidden_size=32&num_attention_heads=4&num_key_value_heads=2"
               "&intermediate_size=64&task=causal-lm"),
        (PARTS, *written(LLAMA_ADDS)), tokens, 100, "seq=8",
    ),
    "GPT-2 block": Network(
        config("gpt2", "n_layer=1&n_embd=32&n_head=4&task=causal-lm"),
        (PARTS, *written(GPT2_ADDS, {"select": {"by": "regex", "values": ["mlp_c_fc$"]},
                                     "formats": {"data_out": integer(8, 5)}})), tokens, 100, "seq=8",
    ),
    "BERT block, masks that are added": Network(
        config("bert", "num_hidden_layers=1&hidden_size=32&num_attention_heads=4&intermediate_size=64"
               "&task=sequence-classification&attn_implementation=eager"),
        written(BERT_ADDS, {"select": {"by": "type", "values": ["tanh"]}, "formats": {"data_in": integer(8, 5)}}),
        tokens, 100, "seq=8",
    ),
}  # fmt: skip
CALIBRATE_REVIEWS = {"pass": "calibrate", "options": {"data": "demo:reviews", "limit": 500}}
TANH = {"select": {"by": "type", "values": ["tanh"]}, "formats": {"data_in": integer(8)}}
CALIBRATE = {"pass": "calibrate", "options": {"data": "demo:digits"}}


def layers(formats: dict[str, str], first: dict[str, str] | None = None, *steps: dict[str, Any],
           last: dict[str, str] | None = None) -> Network:  # fmt: skip
    """The digits' MLP in some formats, the first and the last layer in others where they are given."""
    rules = [{"select": {"by": "type", "values": ["linear"]}, "formats": formats}]
    rules += [{"select": {"by": "name", "values": [name]}, "formats": own}
              for name, own in (("fc1", first), ("fc3", last)) if own]  # fmt: skip
    chosen = {"pass": "quantize", "options": {"rules": rules}}
    return Network(lambda _: "demo:digits-mlp", (chosen, CALIBRATE, *steps, balance(64)), digits, 1000)


TENSOR, CHANNEL = (f"scaled_integer(width=8, granularity={g}" for g in ("tensor", "channel"))
MX, BIAS = "mxint(width=6, block=16)", {"bias": integer(16, 10)}


def trained(epochs: int, rate: float = 1e-4) -> dict[str, Any]:
    """The step that trains through the formats; bits want a high rate, since they move rarely."""
    return {"pass": "finetune", "options": {"data": "demo:digits", "epochs": epochs, "learning_rate": rate}}


TRAIN = trained(8)
BYTES = {"data_in": integer(8)}
WIDE = {**BYTES, "weight": f"{CHANNEL})"}
BITS = {"data_in": "binary(bipolar=false)", "weight": "binary_scaled()"}
INSIDE = {"pass": "quantize", "options": {"rules": [  # batch norms before the signs stay
    {"select": {"by": "type", "values": ["conv2d"]}, "formats": BITS},
    {"select": {"by": "name", "values": ["conv1", "classifier"]}, "formats": WIDE}]}}  # fmt: skip
FORMATS: dict[str, Network] = {
    f"digits MLP, {name}": network
    for name, network in {
        "int8 with scales by channel": layers({"data_in": f"{TENSOR})", "weight": f"{CHANNEL})"}),
        "int8 with scales by channel, zero points": layers(
            {"data_in": f"{TENSOR}, symmetric=false)", "weight": f"{CHANNEL})"}
        ),
        "int4 weights with scales by channel": layers({**BYTES, "weight": "scaled_integer(width=4)"}),
        "ternary weights, trained": layers({**BYTES, "weight": "ternary()"}, None, TRAIN),
        "binary weights with scales, trained": layers({**BYTES, "weight": "binary_scaled()"}, None, TRAIN),
        "binary weights, binary activations, trained": layers(
            BITS, WIDE, trained(40, 1e-2), last={**WIDE, "data_in": BITS["data_in"]}
        ),
        "MXINT6 weights": layers({**BYTES, "weight": MX, **BIAS}),
        "MXINT6 weights and activations": layers({"data_in": MX, "weight": MX, **BIAS}, BYTES),
    }.items()
}
NETWORKS: dict[str, Network] = {
    "digits MLP": Network(
        lambda _: "demo:digits-mlp", (fixed(8, ["linear"]), CALIBRATE, balance(64)), digits, 1000
    ),
    "digits CNN": Network(
        lambda _: "demo:digits",
        ({"pass": "fold_batch_norm"}, fixed(8, ["linear", "conv2d"]), CALIBRATE, balance(512)),
        digits, 1000,
    ),
    "digits CNN, batch norms in hardware": Network(
        lambda _: "demo:digits", (fixed(8, ["linear", "conv2d"]), CALIBRATE, balance(512)), digits, 1000
    ),
    "jet tagger 16-64-32-32-5": Network(
        tagger, (fixed(6, ["linear"]), balance(256)),
        lambda n: ({"input": torch.randn(n, 16, generator=torch.Generator().manual_seed(1))}, None), 1000,
    ),
    "BERT-tiny, reviews": Network(
        lambda _: "demo:reviews",
        (*attention("add_[6-9]"), {"pass": "quantize", "options": {"rules": [TANH]}}, CALIBRATE_REVIEWS,
         balance(1024, "seq=24")),
        reviews, 100, "seq=24",
    ),
    "ViT block": Network(vit, (*attention("add.*"), CALIBRATE, balance(256)), digits, 200),
    "digits CNN, binary weights and activations inside": Network(
        lambda _: "demo:digits", (INSIDE, CALIBRATE, trained(20, 3e-3), balance(256)), digits, 1000
    ),
    **WRITTEN,
    **FORMATS,
}  # fmt: skip


def figures(network: Network, vectors: int, folder: Path) -> dict[str, Any]:
    """Emit, simulate, compare."""
    opened = open_any(network.source(folder), folder, origin=Origin.TYPED)
    graph = opened.project.base
    context = Context(opened.store)
    for step in load_recipe({"steps": list(network.steps)}).steps:
        graph = run_step(graph, step, context).graph
    begin = time.perf_counter()
    design = lower(graph, opened.store, EmitOptions(sizes=sized(network.sizes)))
    emitted = time.perf_counter() - begin
    inputs, labels = network.inputs(vectors)
    codes = Host(graph, opened.store, design, opened.callables)(**inputs)
    begin = time.perf_counter()
    each = min(AT_ONCE, vectors)
    built = build(design, each, folder / "builds", "verilator")
    seconds = time.perf_counter() - begin
    totals, outputs, ends = _simulated(design, built, codes, each)
    planned = schedule(design)
    paced = min(4, each - 1)
    found: dict[str, Any] = {
        "vectors": vectors, "streams": len(list(design.all_wires())), "instances": len(design.instances),
        "interval_cycles": float(np.mean([(e[-1] - e[paced - 1]) / (each - paced) for e in ends])), **totals,
        "interval_predicted": planned.interval, "latency_predicted": planned.latency,
        "bottleneck": planned.bottleneck, "area_estimate": asdict(total(design.instances)),
        "emit_s": round(emitted, 2), "build_s": round(seconds, 1),
    }  # fmt: skip
    values = structured(graph, tensors(design, outputs))
    return {**found, **_agreement(opened, graph, design, inputs, labels, values)}


def _simulated(design: Design, built: Built, codes: tuple[Codes, ...], each: int) -> Any:
    """Counts over all runs; the outputs where nobody paused; the cycles in which frames of the first run ended."""
    parts: list[tuple[Codes, ...]] = []
    ends: list[np.ndarray] = []
    totals: dict[str, Any] = {"mismatches": 0, "beats_compared": 0, "stuck": False, "run_s": dict.fromkeys(STALLS, 0.0)}
    for first in range(0, len(codes[0]), each):
        part = tuple(c[first : first + each] for c in codes)
        for stall in STALLS:
            done = run(design, built, part, stall, seed=first + 1)
            totals["mismatches"] += sum(m.count for m in done.mismatches)
            totals["beats_compared"] += sum(len(c) for c in done.cycles.values())
            totals["stuck"] |= done.stuck
            totals["run_s"][stall] = round(totals["run_s"][stall] + done.seconds, 1)
            if stall == 0:
                parts.append(done.outputs)
                ends = ends or [done.cycles[w].reshape(each, -1)[:, -1] for w in design.ends]
    return totals, tuple(np.concatenate(p) for p in zip(*parts, strict=True)), ends


def sized(text: str) -> dict[str, int]:
    """Sizes of symbols from their text."""
    from espalier.verilog.design.options import sizes_in

    return sizes_in(text)


def _agreement(opened: Opened, graph: Any, design: Any, inputs: dict[str, Tensor], labels: Tensor | None,
               outputs: Any) -> dict[str, Any]:  # fmt: skip
    """RTL's outputs against the exact mode (equal), the fake-quantised and the float model."""
    got = _first(outputs)
    exact = _first(IntegerModel(graph, opened.store, design, opened.callables)(**inputs))
    models: dict[str, nn.Module] = {
        "float": build_module(opened.project.base, opened.store, opened.callables),
        "fake_quantised": build_module(graph, opened.store, opened.callables),
    }
    with torch.no_grad():
        others = {name: _first(m(**inputs)) for name, m in models.items()}
    found: dict[str, Any] = {"rtl_equals_exact_mode": bool(torch.equal(got, exact))}
    for name, values in others.items():
        found[f"same_class_as_{name}"] = round(float((values.argmax(-1) == got.argmax(-1)).double().mean()), 4)
    if labels is not None:
        count = min(len(labels), len(got))
        for name, values in {"rtl": got, **others}.items():
            right = (values[:count].argmax(-1) == labels[:count]).double().mean()
            found[f"test_accuracy_{name}"] = round(float(right), 4)
    return found


def _first(outputs: Any) -> Tensor:
    if isinstance(outputs, dict):
        return next(iter(outputs.values()))
    return outputs[0] if isinstance(outputs, tuple | list) else outputs


def _kept() -> dict[str, Any]:
    """The networks of the kept results, beside which new ones come."""
    path = RESULTS / "rtl_networks.json"
    return json.loads(path.read_text())["networks"] if path.exists() else {}


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--vectors", type=int)
    given = parser.parse_known_args()[0]
    rows = _kept() if given.only else {}
    with tempfile.TemporaryDirectory() as folder:
        for name, network in NETWORKS.items():
            if not given.only or name in given.only:
                rows[name] = figures(network, given.vectors or network.vectors, Path(folder))
    report("rtl_networks", {"stalls": list(STALLS), "networks": rows})


if __name__ == "__main__":
    main()
