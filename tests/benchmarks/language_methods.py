"""What GPTQ, AWQ, HQQ and rotations win back over rounding to nearest, in perplexity of two small language models.

`demo:stories`, and a Llama trained here on the reviews of IMDB3k (`--model FOLDER`: one that is trained already), left
out where ../shared is absent. Weights of 4 and 3 bits, in groups of 32 and by channel, and inputs of 4 bits by token;
the output layer stays float.
Each method is compared with rounding in its own format on the same windows of held-out text: change of the mean loss
in nats a token, with the 95 % interval of a paired bootstrap over windows (2 000 draws).
"""

from __future__ import annotations

import argparse
import csv
import html
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from espalier.model.formats.base import Format
from espalier.model.formats.offset_integer import OffsetInteger
from espalier.model.formats.scaled_element import ScaledElement
from espalier.model.graph.graph import Graph
from espalier.model.opening import open_source
from espalier.model.torch.build import build
from espalier.model.trust import Origin
from espalier.passes.base import Context
from espalier.passes.choices.awq import AwqOptions
from espalier.passes.choices.gptq import GptqOptions
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.heads import output_layers
from espalier.passes.running.batches import batches
from espalier.passes.running.splits import EvaluateOptions, load_split
from espalier.passes.select import Select
from espalier.passes.tasks.next_token import token_scores
from espalier.passes.transform.awq import awq
from espalier.passes.transform.gptq import gptq
from espalier.passes.transform.hqq import HqqOptions, hqq
from espalier.passes.transform.quantize import quantize
from espalier.passes.transform.rotate import RotateOptions, rotate
from tests.benchmarks.record import report
from tests.benchmarks.sst2 import SHARED

REVIEWS = SHARED / "data" / "IMDB3k" / "imdb_3180.csv"
WIDTH, VOCABULARY, STEPS, BATCH = 128, 1024, 450, 16
SAMPLES, TESTED, DRAWS = 48, 100, 2000
Method = Callable[[Graph], Graph]


# -- a language model on real text


def write_texts(folder: Path) -> None:
    """Reviews as train.txt and test.txt, the last tenth held out."""
    with REVIEWS.open(encoding="utf-8", newline="") as file:
        rows = [html.unescape(r["review"]).replace("<br />", "\n") for r in csv.DictReader(file)]
    cut = len(rows) - len(rows) // 10
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.txt").write_text("\n\n".join(rows[:cut]), encoding="utf-8")
    (folder / "test.txt").write_text("\n\n".join(rows[cut:]), encoding="utf-8")


def train(folder: Path, texts: Path) -> None:
    """A Llama of 1.1 million weights, 450 steps over the reviews."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=["<end>"], initial_alphabet=alphabet)
    made.train([str(texts / "train.txt")], trainer)
    PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<end>", bos_token="<end>").save_pretrained(folder)
    ids = torch.tensor(made.encode((texts / "train.txt").read_text(encoding="utf-8")).ids)
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=128, intermediate_size=352, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=4, max_position_embeddings=WIDTH, tie_word_embeddings=False))  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, STEPS)
    windows = ids[: len(ids) // WIDTH * WIDTH].view(-1, WIDTH)
    order = torch.randperm(len(windows))
    for step in range(STEPS):
        batch = windows[order[torch.arange(step * BATCH, (step + 1) * BATCH) % len(windows)]]
        loss = model(input_ids=batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    model.eval().save_pretrained(folder)


# -- methods


def methods(context: Context, data: dict[str, Any]) -> dict[str, tuple[Format | None, bool, Method]]:
    """Name → (format in place of the scaled element, whether the model is rotated first, what follows rounding)."""
    calibration = {**data, "limit": SAMPLES}

    def solve(graph: Graph) -> Graph:
        return gptq(graph, GptqOptions(**calibration), context)[0]

    def protect(graph: Graph) -> Graph:
        return awq(graph, AwqOptions(**calibration), context)[0]

    def zeros(graph: Graph) -> Graph:
        return hqq(graph, HqqOptions(), context)[0]

    same: Method = lambda graph: graph  # noqa: E731
    offset = OffsetInteger(4)
    return {
        "rounded": (None, False, same), "gptq": (None, False, solve), "awq": (None, False, protect),
        "rotated": (None, True, same), "rotated, gptq": (None, True, solve), "offset, rounded": (offset, False, same),
        "hqq": (offset, False, zeros),
    }  # fmt: skip


def formats() -> dict[str, tuple[int, Any, Format | None]]:
    """Name → (bits of weights, granularity, the format of inputs)."""
    named = {
        f"{bits} bits, {'groups of 32' if granularity == 'group' else 'by channel'}": (bits, granularity, None)
        for bits in (4, 3) for granularity in ("group", "channel")
    }  # fmt: skip
    return {**named, "4 bits by channel, inputs of 4 bits by token": (4, "channel", ScaledElement("int4", "channel"))}


def in_format(graph: Graph, weight: Format, data_in: Format | None, context: Context) -> Graph:
    """All Linears but the output layer with weights, and inputs, in formats."""
    heads = output_layers(graph)
    names = tuple(n.id for n in graph if n.op == "linear" and n.id not in heads)
    ports = {"weight": weight} | ({"data_in": data_in} if data_in else {})
    return quantize(graph, QuantizeOptions((Rule(Select("name", names), ports),)), context)[0]


def losses(graph: Graph, split: Any, context: Context) -> np.ndarray[Any, Any]:
    """Mean loss of each window in nats a token."""
    module, found = build(graph, context.store), list[torch.Tensor]()
    for inputs, labels in batches(split, graph, 20):
        with torch.no_grad():
            scores = token_scores(module(**inputs))
        assert scores is not None
        each = torch.nn.functional.cross_entropy(scores.float().flatten(0, 1), labels.flatten(), reduction="none")
        found.append(each.view(labels.shape).mean(-1))
    return torch.cat(found).double().numpy()


def table(base: Graph, context: Context, data: dict[str, Any]) -> dict[str, Any]:
    """Format → method → figures."""
    split = load_split(EvaluateOptions(**data, split="test", limit=TESTED), context)
    exact = losses(base, split, context)
    turned = rotate(base, RotateOptions(), replace(context, seed=1))[0]
    rows: dict[str, Any] = {
        "float": figures(exact, None, 0.0),
        "float, rotated": figures(losses(turned, split, context), exact, 0.0),
    }
    for label, (bits, granularity, data_in) in formats().items():
        element: Any = f"int{bits}"
        plain, found, reference = ScaledElement(element, granularity, 32), dict[str, Any](), dict[bool, Any]()
        for name, (other, rotated, method) in methods(context, data).items():
            fmt = plain if other is None else OffsetInteger(bits, granularity, 32)
            start = time.perf_counter()
            graph = method(in_format(turned if rotated else base, fmt, data_in, context))
            seconds = time.perf_counter() - start
            each = losses(graph, split, context)
            reference.setdefault(other is None, each)
            found[name] = figures(each, reference[other is None], seconds)
            print(label, name, found[name], file=sys.stderr, flush=True)
        rows[label] = found
    return rows


def figures(each: Any, reference: Any, seconds: float | None = None) -> dict[str, Any]:
    """Perplexity, and the change of the mean loss from the reference with its interval; none of itself."""
    row: dict[str, Any] = {"perplexity": round(float(np.exp(each.mean())), 4)}
    row |= {} if seconds is None else {"seconds": round(seconds, 1)}
    if reference is None or reference is each:
        return row
    difference = each - reference
    rng = np.random.default_rng(0)
    draws = difference[rng.integers(0, len(difference), (DRAWS, len(difference)))].mean(1)
    low, high = np.percentile(draws, [2.5, 97.5])
    return {**row, "change": round(float(difference.mean()), 5), "low": round(float(low), 5),
            "high": round(float(high), 5)}  # fmt: skip


def given_model() -> Path | None:
    """The folder of a model that is trained already, from the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path)
    return parser.parse_known_args()[0].model


def reviews(folder: Path) -> tuple[str, dict[str, Any]] | None:
    """(folder of the model of reviews, trained where none is given; its data); None where the reviews are absent."""
    if not REVIEWS.exists():
        return None
    write_texts(folder / "texts")
    model = given_model() or folder / "model"
    if not model.exists():
        train(model, folder / "texts")
    return str(model), {"data": str(folder / "texts"), "max_length": WIDTH}


def opened_in(folder: Path, source: str) -> tuple[Graph, Context]:
    """The graph of a source, and the context of its weights."""
    opened = open_source(source, folder, origin=Origin.TYPED)
    return opened.project.graph, Context(opened.store, reading=opened.project.source.reading)


def tables(folder: Path, *made: tuple[str, Callable[[Graph, Context, dict[str, Any]], Any]]) -> dict[str, Any]:
    """What functions of (graph, context, data) find on the demo, and on the reviews where they are.

    The key is the model with the ending that is given beside the function.
    """
    torch.manual_seed(0)
    found: dict[str, Any] = {"reviews": f"skipped: {SHARED.name} is absent"}
    on_reviews = reviews(folder)
    given = {"stories": ("demo:stories", {"data": "demo:stories"})}
    for name, (source, data) in ({"reviews": on_reviews, **given} if on_reviews else given).items():
        graph, context = opened_in(folder / name, source)
        found |= {f"{name}{ending}": of(graph, context, data) for ending, of in made}
    return found


def main() -> None:
    """The demo always, the reviews where they are."""
    found = tables(Path(tempfile.mkdtemp()), ("", table))
    report("language_methods", {"calibration_windows": SAMPLES, "tested_windows": TESTED, **found})


if __name__ == "__main__":
    main()
