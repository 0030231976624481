"""Small segmentation models, and made images whose masks are known: coloured squares on noise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

SIDE, CLASSES = 16, 4
SQUARE, CONTRAST, NOISE = 6, 70, 25
_UNET = '''
import torch
from torch import nn


def block(a, b):
    return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU())


class UNet(nn.Module):
    """Ronneberger et al. (2015), https://arxiv.org/abs/1505.04597, with one level."""

    def __init__(self, classes=CLASSES, end=None):
        super().__init__()
        self.down, self.deep, self.pool = block(3, 8), block(8, 16), nn.MaxPool2d(2)
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.join, self.head, self.end = block(16, 8), nn.Conv2d(8, classes, 1), end or nn.Identity()

    def forward(self, x):
        fine = self.down(x)
        coarse = self.up(self.deep(self.pool(fine)))
        return self.end(self.head(self.join(torch.cat([fine, coarse], 1))))


def make_model():
    torch.manual_seed(0)
    return UNet(), {"x": torch.rand(2, 3, SIDE, SIDE)}
'''
UNET = _UNET.replace("CLASSES", str(CLASSES)).replace("SIDE", str(SIDE))


def images(count: int, seed: int = 0, ignored: bool = True) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """(uint8 [n, h, w, 3], uint8 [n, h, w]): squares of the classes 1, 2 and 3; 255 in a corner."""
    rng = np.random.default_rng(seed)
    masks = np.zeros((count, SIDE, SIDE), np.uint8)
    pixels = rng.normal(90, NOISE, (count, SIDE, SIDE, 3))
    for at in range(count):
        for kind in range(1, CLASSES):
            a, b = rng.integers(0, SIDE - SQUARE, 2)
            masks[at, a : a + SQUARE, b : b + SQUARE] = kind
        for kind in range(1, CLASSES):
            pixels[at, masks[at] == kind, kind - 1] += CONTRAST
    if ignored:
        masks[:, :2, :3] = 255
    return np.clip(pixels, 0, 255).astype(np.uint8), masks


def write_masks(folder: Path, count: int = 40, seed: int = 0, **options: Any) -> Path:
    """`images/` and `masks/` in a folder, as PNG files."""
    from PIL import Image

    (folder / "images").mkdir(parents=True)
    (folder / "masks").mkdir()
    for at, (pixels, mask) in enumerate(zip(*images(count, seed, **options), strict=True)):
        Image.fromarray(pixels).save(folder / "images" / f"{at:04}.png")
        Image.fromarray(mask).save(folder / "masks" / f"{at:04}.png")
    return folder


def write_unet(folder: Path, steps: int = 0, count: int = 64) -> str:
    """The source of a U-Net in a file; of one trained for `steps`, which it then reads."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "unet.py"
    path.write_text(UNET)
    if steps:
        namespace: dict[str, Any] = {}
        exec(UNET, namespace)
        model = namespace["make_model"]()[0]
        fit(model, count, steps)
        weights = folder / "unet.pt"
        torch.save(model.state_dict(), weights)
        path.write_text(f"{UNET}\n\ndef trained():\n    model, example = make_model()\n"
                        f"    model.load_state_dict(torch.load({str(weights)!r}, weights_only=True))\n"
                        "    return model, example\n")  # fmt: skip
    return f"{path}:{'trained' if steps else 'make_model'}"


def fit(model: nn.Module, count: int, steps: int, seed: int = 0, rate: float = 1e-2) -> None:
    """Train with torch's own cross-entropy on scores upsampled to the masks."""
    pixels, masks = images(count, seed)
    x = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255
    y = torch.from_numpy(masks).long()
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.05, steps)
    drawn = np.random.default_rng(seed)
    model.train()
    for _ in range(steps):
        rows = torch.from_numpy(drawn.choice(count, 16))
        result: Any = model(x[rows])
        scores: Tensor = result if isinstance(result, Tensor) else result.logits
        full = nn.functional.interpolate(scores, (SIDE, SIDE), mode="bilinear", align_corners=False)
        nn.functional.cross_entropy(full, y[rows], ignore_index=255).backward()
        optimiser.step()
        schedule.step()
        optimiser.zero_grad()
    model.eval()


def segformer(**options: Any) -> Any:
    """A SegFormer of two stages, whose logits are a quarter of the image's size."""
    import transformers

    config = transformers.SegformerConfig(
        num_encoder_blocks=2, depths=[1, 1], sr_ratios=[1, 1], hidden_sizes=[16, 32], patch_sizes=[5, 3],
        strides=[2, 2], num_attention_heads=[1, 2], mlp_ratios=[2, 2], decoder_hidden_size=32, num_labels=CLASSES,
        drop_path_rate=0.0, hidden_dropout_prob=0.0, classifier_dropout_prob=0.0, image_size=SIDE, **options,
    )  # fmt: skip
    return transformers.SegformerForSemanticSegmentation(config).eval()


def write_segformer(folder: Path, count: int = 400, steps: int = 150, seed: int = 0) -> Any:
    """A SegFormer trained for `steps`, and `data/train` and `data/test` with images and masks."""
    torch.manual_seed(seed)
    write_masks(folder / "data" / "train", count, seed)
    write_masks(folder / "data" / "test", 200, seed + 1)
    model = segformer()
    fit(model, count, steps, seed, 5e-3)
    model.save_pretrained(folder)
    return model
