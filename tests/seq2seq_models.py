"""Small encoder–decoder models, and made pairs whose rule is known: each word of a source has its translation."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch

WORDS = {"one": "ein", "two": "zwei", "three": "drei", "four": "vier", "five": "funf", "six": "sechs"}
EITHER = ("gut", "fein")  # of which nothing tells which
SPECIAL = ("[PAD]", "[UNK]", "[END]", "[BEGIN]")


def pairs(count: int, seed: int = 0) -> list[dict[str, str]]:
    """Rows of sources and targets of 2 to 6 words; "good" is one of two words, drawn at random."""
    drawn, found = Random(seed), list[dict[str, str]]()
    for _ in range(count):
        words = [drawn.choice((*WORDS, "good")) for _ in range(drawn.randint(2, 6))]
        target = [drawn.choice(EITHER) if word == "good" else WORDS[word] for word in words]
        found.append({"source": " ".join(words), "target": " ".join(target)})
    return found


def write_tokenizer(folder: Path, kind: str = "t5") -> Any:
    """A tokenizer with a token a word; texts end in [END], those of BART also begin with [BEGIN]."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    words = (*SPECIAL, *WORDS, "good", *WORDS.values(), *EITHER)
    made = Tokenizer(models.WordLevel({word: at for at, word in enumerate(words)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.post_processor = processors.TemplateProcessing(
        single="[BEGIN] $A [END]" if kind == "bart" else "$A [END]", special_tokens=[("[END]", 2), ("[BEGIN]", 3)]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]", eos_token="[END]", model_max_length=24
    )
    tokenizer.save_pretrained(folder)
    return tokenizer


def model_of(kind: str, size: int) -> Any:
    """A random model: t5 (starts with the padding), bart (with [END]), mbart (with the target's last token)."""
    import transformers as hf

    if kind == "t5":
        return hf.T5ForConditionalGeneration(hf.T5Config(
            vocab_size=size, d_model=32, d_kv=16, d_ff=64, num_layers=1, num_heads=2, dropout_rate=0.0,
            decoder_start_token_id=0, pad_token_id=0, eos_token_id=2)).eval()  # fmt: skip
    cls, config = {"bart": (hf.BartForConditionalGeneration, hf.BartConfig),
                   "mbart": (hf.MBartForConditionalGeneration, hf.MBartConfig)}[kind]  # fmt: skip
    return cls(config(
        vocab_size=size, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=32, dropout=0.0,
        attention_dropout=0.0, pad_token_id=0, bos_token_id=3, eos_token_id=2, decoder_start_token_id=2,
        forced_eos_token_id=2)).eval()  # fmt: skip


def write_seq2seq(folder: Path, count: int = 400, steps: int = 150, seed: int = 0, kind: str = "bart") -> Any:
    """A model trained for `steps` with transformers' own loss, its tokenizer, `data/train.jsonl`, `data/test.jsonl`."""
    torch.manual_seed(seed)
    tokenizer = write_tokenizer(folder, kind)
    (folder / "data").mkdir(exist_ok=True)
    train = pairs(count, seed)
    for name, rows in (("train", train), ("test", pairs(200, seed + 1))):
        (folder / "data" / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    model = model_of(kind, len(tokenizer))
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.05, max(steps, 1))
    drawn = np.random.default_rng(seed)
    model.train()
    for _ in range(steps):
        batch = [train[int(i)] for i in drawn.choice(count, 32)]
        model(**batch_of(batch, tokenizer)).loss.backward()
        optimiser.step()
        schedule.step()
        optimiser.zero_grad()
    model.eval().save_pretrained(folder)
    return model


def batch_of(rows: list[dict[str, str]], tokenizer: Any) -> dict[str, Any]:
    """Inputs and labels as transformers takes them."""
    inputs = tokenizer([r["source"] for r in rows], padding=True, return_tensors="pt")
    targets = tokenizer(text_target=[r["target"] for r in rows], padding=True, return_tensors="pt")
    labels = targets["input_ids"].masked_fill(targets["attention_mask"] == 0, -100)
    return {"input_ids": inputs["input_ids"], "attention_mask": inputs["attention_mask"], "labels": labels}
