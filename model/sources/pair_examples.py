"""Example inputs of transformers' models with an encoder of images and one of texts."""

from __future__ import annotations

from typing import Any

SIZE, LENGTH = 224, 16  # of an image and a text, where the configuration names none


def takes_pairs(model: Any) -> bool:
    """Whether the model compares images with texts, as CLIP and SigLIP."""
    config = getattr(model, "config", None)
    both = hasattr(config, "text_config") and hasattr(config, "vision_config")
    return both and hasattr(model, "logit_scale") and type(model).__name__.endswith(("CLIPModel", "SiglipModel"))


def pair_inputs(model: Any) -> dict[str, Any]:
    """Two images with texts; without a mask for SigLIP, which is trained without one."""
    import torch

    text, vision = model.config.text_config, model.config.vision_config
    length = min(LENGTH, int(getattr(text, "max_position_embeddings", None) or LENGTH))
    size = getattr(vision, "image_size", None) or SIZE
    height, width = size if isinstance(size, list | tuple) else (size, size)
    ids = torch.randint(0, int(text.vocab_size), (2, length))
    pixels = torch.randn(2, int(getattr(vision, "num_channels", 3)), int(height), int(width))
    mask = {} if type(model).__name__.startswith("Siglip") else {"attention_mask": torch.ones_like(ids)}
    return {"input_ids": ids, "pixel_values": pixels, **mask}
