"""Small language models with a byte-pair tokenizer of their own, on text made here."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

WORDS = ("the", "old", "gardener", "pruned", "a", "young", "pear", "tree", "along", "wall", "café", "木", "again")
VOCABULARY = 300


def text_of(count: int, seed: int = 0) -> str:
    """Sentences of `count` words, some of which are not ASCII."""
    drawn = Random(seed)
    return " ".join(drawn.choice(WORDS) + ("." if at % 9 == 8 else "") for at in range(count))


def write_tokenizer(folder: Path) -> Any:
    """A byte-level BPE tokenizer, written into the folder."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=["<end>"], initial_alphabet=alphabet)
    made.train_from_iterator([text_of(2000)], trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<end>", bos_token="<end>")
    tokenizer.save_pretrained(folder)
    return tokenizer


def write_model(folder: Path, kind: str = "llama") -> Any:
    """A random model with its tokenizer: llama (two heads share a key), gpt2 (tied, 64 positions) or bert (masked)."""
    import torch
    from transformers import (
        BertConfig,
        BertForMaskedLM,
        GPT2Config,
        GPT2LMHeadModel,
        LlamaConfig,
        LlamaForCausalLM,
    )

    torch.manual_seed(0)
    size = len(write_tokenizer(folder))
    makes = {
        "llama": lambda: LlamaForCausalLM(LlamaConfig(
            vocab_size=size + 5, hidden_size=24, intermediate_size=40, num_hidden_layers=1, num_attention_heads=2,
            num_key_value_heads=1, max_position_embeddings=128)),
        "gpt2": lambda: GPT2LMHeadModel(GPT2Config(vocab_size=size, n_positions=64, n_embd=24, n_layer=1, n_head=2)),
        "bert": lambda: BertForMaskedLM(BertConfig(
            vocab_size=size, hidden_size=24, intermediate_size=40, num_hidden_layers=1, num_attention_heads=2)),
    }  # fmt: skip
    model = makes[kind]().eval()
    model.save_pretrained(folder)
    return model
