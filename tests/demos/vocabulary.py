"""Makes what ships with the demos of texts: the texts, and Hugging Face folders with tokenizers and configurations."""

from __future__ import annotations

import gzip
from typing import Any

from espalier.model.data.demo import CLASSES, SHIPPED, STORIES, STORY_LENGTH, STORY_TEXTS, TEXTS
from tests.demos.reviews import make_reviews
from tests.demos.stories import make_stories

VOCABULARY = 2000
STORY_VOCABULARY = 768  # at most: pairs of the texts run out before
END = "<|endoftext|>"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def texts() -> bytes:
    """The reviews as lines of split, label and text."""
    lines = (f"{split}\t{row.label}\t{row.text}\n" for split, rows in make_reviews().items() for row in rows)
    return "".join(lines).encode()


def write_reviews_folder() -> None:
    """Writes resources/demos/reviews: texts, tokenizer files trained on the train split, and `config.json`."""
    from transformers import BertConfig, PreTrainedTokenizerFast

    TEXTS.write_bytes(gzip.compress(texts(), 9, mtime=0))
    trained = train_tokenizer()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=trained,
        model_max_length=128,
        **{f"{token[1:-1].lower()}_token": token for token in SPECIAL},
    )
    tokenizer.save_pretrained(SHIPPED)
    config = BertConfig(
        vocab_size=trained.get_vocab_size(),
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=512,
        max_position_embeddings=128,
        id2label=dict(enumerate(CLASSES)),
        label2id={name: index for index, name in enumerate(CLASSES)},
        architectures=["BertForSequenceClassification"],
    )
    config.save_pretrained(SHIPPED)


def train_tokenizer() -> Any:
    """Train a lower-case WordPiece tokenizer of VOCABULARY pieces on the reviews' train split."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    texts = [row.text for row in make_reviews()["train"]]
    trainer = trainers.WordPieceTrainer(vocab_size=VOCABULARY, special_tokens=SPECIAL, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")],
    )
    return tokenizer


def story_texts() -> bytes:
    """The stories as lines of split and text."""
    return "".join(f"{split}\t{row.text}\n" for split, rows in make_stories().items() for row in rows).encode()


def write_stories_folder() -> None:
    """Writes resources/demos/stories: texts, tokenizer files trained on the train split, and `config.json`."""
    from transformers import LlamaConfig, PreTrainedTokenizerFast

    STORIES.mkdir(exist_ok=True)
    STORY_TEXTS.write_bytes(gzip.compress(story_texts(), 9, mtime=0))
    trained = train_story_tokenizer()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=trained, model_max_length=STORY_LENGTH, eos_token=END)
    tokenizer.save_pretrained(STORIES)
    end = trained.token_to_id(END)
    config = LlamaConfig(
        vocab_size=trained.get_vocab_size(),
        hidden_size=96,
        intermediate_size=256,
        num_hidden_layers=3,
        num_attention_heads=6,
        num_key_value_heads=2,
        max_position_embeddings=STORY_LENGTH,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=end,
        architectures=["LlamaForCausalLM"],
        dtype="float32",
    )
    config.save_pretrained(STORIES)


def train_story_tokenizer() -> Any:
    """Train a byte-level BPE tokenizer (R. Sennrich et al., 2016) of STORY_VOCABULARY pieces on the train split."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=STORY_VOCABULARY,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([row.text for row in make_stories()["train"]], trainer)
    return tokenizer
