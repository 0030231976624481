"""Small models of each task, with a word tokenizer for texts and made data whose truth is known."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

FILLERS = ("the", "a", "of", "in", "old", "new", "tree", "wall", "house", "river", "went", "saw", "near", "is")
TOPICS = {"garden": "rose", "music": "violin", "sport": "goal", "food": "bread"}  # class → its word
WORTH = {"splendid": 1.5, "good": 0.75, "plain": 0.0, "bad": -0.75, "awful": -1.5}  # word → its part of the target
NOISE = 0.25  # standard deviation of targets around the sum
FIRST, LAST, PLACES = ("anna", "boris", "clara"), ("smith", "novak", "jones"), ("paris", "oslo", "rome")
CYCLE = ("one", "two", "three", "four", "five", "six", "seven", "eight")  # texts of the masked model follow it
TAGS = ("O", "B-PER", "I-PER", "B-LOC")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = (*FILLERS, *TOPICS.values(), *WORTH, *FIRST, *LAST, *PLACES, *CYCLE)
HEADS = {
    "multi-label": "BertForSequenceClassification", "regression": "BertForSequenceClassification",
    "masked-token": "BertForMaskedLM", "token-classification": "BertForTokenClassification",
    "question-answering": "BertForQuestionAnswering",
    "segmentation": "SegformerForSemanticSegmentation",
    "seq2seq": "BartForConditionalGeneration",
    "audio": "Wav2Vec2ForSequenceClassification",
    "contrastive": "CLIPModel",
}  # fmt: skip


def rows_of(task: str, count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Rows of made data, as in a JSON file."""
    drawn = Random(seed)
    if task == "masked-token":  # rows are joined, and the cycle goes on
        words = [CYCLE[at % len(CYCLE)] for at in range(14 * count)]
        return [{"text": " ".join(words[at : at + 31])} for at in range(0, len(words), 31)]
    return [_ROWS[task](drawn) for _ in range(count)]


def _multi_label(drawn: Random) -> dict[str, Any]:
    labels = [name for name in TOPICS if drawn.random() < 0.4]
    words = [drawn.choice(FILLERS) for _ in range(drawn.randint(3, 8))] + [TOPICS[name] for name in labels]
    drawn.shuffle(words)
    return {"text": " ".join(words), "labels": labels}


def _regression(drawn: Random) -> dict[str, Any]:
    worth = [drawn.choice(list(WORTH)) for _ in range(drawn.randint(1, 2))]
    words = [drawn.choice(FILLERS) for _ in range(drawn.randint(3, 8))] + worth
    drawn.shuffle(words)
    return {"text": " ".join(words), "score": sum(WORTH[w] for w in worth) + drawn.gauss(0, NOISE)}


def _tagged(drawn: Random) -> dict[str, Any]:
    tokens, tags = list[str](), list[str]()
    for _ in range(drawn.randint(3, 7)):
        kind = drawn.random()
        if kind < 0.2:
            tokens += [drawn.choice(FIRST), drawn.choice(LAST)]
            tags += ["B-PER", "I-PER"]
        elif kind < 0.4:
            tokens.append(drawn.choice(PLACES))
            tags.append("B-LOC" if drawn.random() < 0.85 else "O")  # which nothing tells
        else:
            tokens.append(drawn.choice(FILLERS))
            tags.append("O")
    return {"tokens": tokens, "ner_tags": tags}


def _answered(drawn: Random) -> dict[str, Any]:
    """`saw …` asks for the person, `near …` for the place; some contexts exceed a window, or have two places."""
    person, place = f"{drawn.choice(FIRST)} {drawn.choice(LAST)}", drawn.choice(PLACES)
    count = drawn.randint(60, 90) if drawn.random() < 0.1 else drawn.randint(3, 10)
    parts = [drawn.choice(FILLERS[:9]) for _ in range(count)]
    for part in (person, place, *([drawn.choice(PLACES)] if drawn.random() < 0.2 else [])):
        parts.insert(drawn.randrange(len(parts) + 1), part)
    context, asks = " ".join(parts), drawn.random() < 0.5
    text = person if asks else place
    question = f"{'saw' if asks else 'near'} {drawn.choice(FILLERS[:2])}"
    return {
        "context": context,
        "question": question,
        "answers": {"text": [text], "answer_start": [context.index(text)]},
    }


_ROWS = {
    "question-answering": _answered,
    "multi-label": _multi_label,
    "regression": _regression,
    "token-classification": _tagged,
}


def write_words(folder: Path) -> Any:
    """A tokenizer with a token a word, and of longer words a token for each part of four letters."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    pieces = sorted({part for word in WORDS for part in _pieces(word)})
    vocabulary = {name: at for at, name in enumerate((*SPECIAL, *pieces))}
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
        mask_token="[MASK]", model_max_length=64,
    )  # fmt: skip
    tokenizer.save_pretrained(folder)
    return tokenizer


def _pieces(word: str) -> list[str]:
    return [word[:5], *(f"##{word[at : at + 5]}" for at in range(5, len(word), 5))]


def write_task(folder: Path, task: str, count: int = 400, steps: int = 150, seed: int = 0) -> Any:
    """A model of the task trained for `steps`, its tokenizer, and `data/train.jsonl` and `data/test.jsonl`."""
    import torch
    import transformers

    if task == "segmentation":
        from tests.segmentation_models import write_segformer

        return write_segformer(folder, count, steps, seed)
    if task == "seq2seq":
        from tests.seq2seq_models import write_seq2seq

        return write_seq2seq(folder, count, steps, seed)
    if task == "audio":
        from tests.audio_models import write_wav2vec2

        return write_wav2vec2(folder, count, steps, seed)
    if task == "contrastive":
        from tests.caption_models import write_clip

        return write_clip(folder, count, steps, seed)
    torch.manual_seed(seed)
    tokenizer = write_words(folder)
    (folder / "data").mkdir(exist_ok=True)
    train = rows_of(task, count, seed)
    for name, rows in (("train", train), ("test", rows_of(task, 200, seed + 1))):
        (folder / "data" / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    labels = {"multi-label": list(TOPICS), "regression": ["score"], "token-classification": list(TAGS)}.get(task, [])
    extra: dict[str, Any] = {}
    if labels:
        extra |= {
            "num_labels": len(labels),
            "id2label": dict(enumerate(sorted(labels) if task == "multi-label" else labels)),
        }
        extra["label2id"] = {v: k for k, v in extra["id2label"].items()}
    if task == "multi-label":
        extra["problem_type"] = "multi_label_classification"
    config = transformers.BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
        max_position_embeddings=16 if task == "masked-token" else 64, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, initializer_range=0.1, **extra,
    )  # fmt: skip
    model = getattr(transformers, HEADS[task])(config)
    optimiser = torch.optim.AdamW(model.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.05, steps)
    drawn = np.random.default_rng(seed)
    for _ in range(steps):
        batch = [train[int(i)] for i in drawn.choice(len(train), 32)]
        if task == "masked-token":
            batch = [{"text": " ".join(CYCLE[(int(at) + i) % 8] for i in range(14))} for at in drawn.choice(8, 32)]
        model(**_batch(task, batch, tokenizer, model.config, drawn)).loss.backward()
        optimiser.step()
        schedule.step()
        optimiser.zero_grad()
    model.eval().save_pretrained(folder)
    return model


def _batch(task: str, rows: list[dict[str, Any]], tokenizer: Any, config: Any, drawn: Any) -> dict[str, Any]:
    """Inputs and labels as transformers takes them."""
    import torch

    if task == "question-answering":
        return _spans(rows, tokenizer)
    if task == "token-classification":
        inputs = tokenizer([r["tokens"] for r in rows], is_split_into_words=True, padding=True, return_tensors="pt")
        labels = torch.full(inputs["input_ids"].shape, -100)
        for at, row in enumerate(rows):
            before = None
            for place, word in enumerate(inputs.word_ids(at)):
                if word is not None and word != before:
                    labels[at, place] = config.label2id[row["ner_tags"][word]]
                before = word
    else:
        inputs = tokenizer([r["text"] for r in rows], padding=True, return_tensors="pt")
    if task == "multi-label":
        labels = torch.tensor([[float(name in r["labels"]) for name in config.label2id] for r in rows])
    if task == "regression":
        labels = torch.tensor([r["score"] for r in rows])
    if task == "masked-token":
        ids = inputs["input_ids"]
        hidden = torch.from_numpy(drawn.random(ids.shape) < 0.15) & (ids >= len(SPECIAL))
        hidden[0, 1] = True
        labels = torch.where(hidden, ids, -100)
        inputs["input_ids"] = torch.where(hidden, 4, ids)
    return {"input_ids": inputs["input_ids"], "attention_mask": inputs["attention_mask"], "labels": labels}


def _spans(rows: list[dict[str, Any]], tokenizer: Any) -> dict[str, Any]:
    """Questions with short contexts, and the positions of their answers, as transformers' heads take them."""
    import torch

    rows = [row for row in rows if len(row["context"].split()) < 30]
    made = tokenizer([r["question"] for r in rows], [r["context"] for r in rows], padding=True, return_tensors="pt",
                     return_token_type_ids=True)  # fmt: skip
    ends = torch.zeros(2, len(rows), dtype=torch.long)
    for at, row in enumerate(rows):
        begin, stop = row["answers"]["answer_start"][0], 0
        stop = begin + len(row["answers"]["text"][0])
        ends[0, at] = made.char_to_token(at, begin, sequence_index=1)
        ends[1, at] = made.char_to_token(at, stop - 1, sequence_index=1)
    return {**made, "start_positions": ends[0], "end_positions": ends[1]}
