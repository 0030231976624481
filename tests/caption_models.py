"""Small CLIP and SigLIP models, and made images whose captions name their shape, colour and place."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch

SIDE, LENGTH = 24, 12
COLOURS = {"red": (220, 40, 40), "green": (40, 200, 60), "blue": (50, 70, 220), "yellow": (230, 220, 50)}
SHAPES = ("square", "disc", "cross", "bar")
PLACES = {"left": 7, "right": 17}
SPECIAL = ("[PAD]", "[UNK]", "[BEGIN]", "[END]")
WORDS = (*SPECIAL, "a", "on", "the", *COLOURS, *SHAPES, *PLACES)


def pairs(count: int, seed: int = 0) -> list[tuple[np.ndarray[Any, Any], str]]:
    """(uint8 [height, width, 3], caption): 32 captions, drawn without repeats while there are others."""
    drawn, rng = Random(seed), np.random.default_rng(seed)
    every = [(c, s, p) for c in COLOURS for s in SHAPES for p in PLACES]
    found = list[tuple[np.ndarray[Any, Any], str]]()
    while len(found) < count:
        drawn.shuffle(every)
        for colour, shape, place in every[: count - len(found)]:
            pixels = rng.normal(110, 30, (SIDE, SIDE, 3))
            pixels[_mask(shape, PLACES[place], drawn.randint(8, 15))] = COLOURS[colour]
            noisy = np.clip(pixels + rng.normal(0, 12, pixels.shape), 0, 255).astype(np.uint8)
            found.append((noisy, f"a {colour} {shape} on the {place}"))
    return found


def _mask(shape: str, x: int, y: int) -> np.ndarray[Any, Any]:
    rows, columns = np.abs(np.mgrid[:SIDE, :SIDE] - np.array([y, x])[:, None, None])
    return {
        "square": (rows < 5) & (columns < 5),
        "disc": rows**2 + columns**2 < 16,
        "cross": ((rows < 2) | (columns < 2)) & (rows < 6) & (columns < 6),
        "bar": (rows < 2) & (columns < 6),
    }[shape]


def write_tokenizer(folder: Path) -> Any:
    """A token a word, between [BEGIN] and [END]."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.post_processor = processors.TemplateProcessing(
        single="[BEGIN] $A [END]", special_tokens=[("[BEGIN]", 2), ("[END]", 3)]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]", eos_token="[END]", bos_token="[BEGIN]",
        model_max_length=LENGTH,
    )  # fmt: skip
    tokenizer.save_pretrained(folder)
    return tokenizer


def processor(kind: str = "clip") -> Any:
    """An image processor of the model's size."""
    import transformers as hf

    size = {"height": SIDE, "width": SIDE}
    if kind == "siglip":
        return hf.SiglipImageProcessor(size=size)
    return hf.CLIPImageProcessor(size={"shortest_edge": SIDE}, crop_size=size)


def model_of(kind: str = "clip") -> Any:
    """A random model."""
    import transformers as hf

    inner = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
             "attention_dropout": 0.0}  # fmt: skip
    text = {**inner, "vocab_size": len(WORDS), "max_position_embeddings": LENGTH, "bos_token_id": 2, "eos_token_id": 3,
            "pad_token_id": 0, "projection_size": 32}  # fmt: skip
    vision = {**inner, "image_size": SIDE, "patch_size": 4}
    if kind == "siglip":
        return hf.SiglipModel(hf.SiglipConfig(text_config=text, vision_config=vision)).eval()
    return hf.CLIPModel(hf.CLIPConfig(text_config=text, vision_config=vision, projection_dim=32)).eval()


def batch_of(rows: list[tuple[Any, str]], tokenizer: Any, kind: str = "clip") -> dict[str, Any]:
    """Inputs as transformers takes them: SigLIP's texts are padded to the end, and have no mask."""
    from PIL import Image

    made = tokenizer([text for _, text in rows], padding="max_length", max_length=LENGTH, truncation=True,
                     return_tensors="pt")  # fmt: skip
    names = ("input_ids",) if kind == "siglip" else ("input_ids", "attention_mask")
    images = [Image.fromarray(pixels) for pixels, _ in rows]
    pixels = processor(kind)(images, return_tensors="pt")["pixel_values"]
    return {**{name: made[name] for name in names}, "pixel_values": pixels, "return_loss": True}


def write_pairs(folder: Path, rows: list[tuple[Any, str]]) -> Path:
    """PNG files, and `metadata.jsonl` as in image folders of the hub."""
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    lines = list[str]()
    for at, (pixels, text) in enumerate(rows):
        Image.fromarray(pixels).save(folder / f"{at:04}.png")
        lines.append(json.dumps({"file_name": f"{at:04}.png", "text": text}) + "\n")
    (folder / "metadata.jsonl").write_text("".join(lines))
    return folder


def write_model(folder: Path, kind: str = "clip") -> tuple[Any, Any]:
    """A random model with tokenizer and processor."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    tokenizer, model = write_tokenizer(folder), model_of(kind)
    model.save_pretrained(folder)
    processor(kind).save_pretrained(folder)
    return model, tokenizer


def write_clip(folder: Path, count: int = 400, steps: int = 150, seed: int = 0) -> Any:
    """A CLIP trained for `steps` with transformers' own loss, `data/train` and `data/test`."""
    model, tokenizer = write_model(folder)
    train = pairs(count, seed)
    write_pairs(folder / "data/train", train)
    write_pairs(folder / "data/test", pairs(96, seed + 1))
    batch = batch_of(train, tokenizer)
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.05, max(steps, 1))
    drawn = np.random.default_rng(seed)
    model.train()
    for _ in range(steps):
        rows = drawn.choice(count, 24)
        part = {name: value if value is True else value[rows] for name, value in batch.items()}
        model(**part).loss.backward()
        optimiser.step()
        schedule.step()
        optimiser.zero_grad()
    model.eval().save_pretrained(folder)
    return model
